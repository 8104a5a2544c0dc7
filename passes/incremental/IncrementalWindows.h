// Rings: what is looked at only within a window is kept only so long; private to Incremental*.cpp.
#ifndef QUERN_PASSES_INCREMENTAL_INCREMENTALWINDOWS_H
#define QUERN_PASSES_INCREMENTAL_INCREMENTALWINDOWS_H

#include "passes/incremental/Incremental.h"

namespace quern::passes {

/// Notes at renames to twins how far back what they give is looked at, where masks or gathers bound that.
void findWindows(mlir::func::FuncOp function, const TimeAnalysis &analysis, MemoryPlan &plan);
/// What was noted at a rename, and to be noted at the remember that takes its place.
std::optional<int64_t> windowFor(ir::RenameOp rename);
void noteWindow(ir::RememberOp remember, std::optional<int64_t> window);
/// Remembers with a window become rings. Sizes already count from `past`.
void makeRings(mlir::func::FuncOp function, ir::DimAttr time);

} // namespace quern::passes
#endif
