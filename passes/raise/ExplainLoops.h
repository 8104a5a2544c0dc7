// Remarks: why iterations of a loop stay apart.
#ifndef QUERN_PASSES_RAISE_EXPLAINLOOPS_H
#define QUERN_PASSES_RAISE_EXPLAINLOOPS_H

#include "passes/weights/WeightFormats.h"

namespace quern::passes {

/// A remark at the line in which `next`, the iteration of the same source loop after `one`, differs from it. `stored`: the
/// formats that matrices must have alike, if they must.
void explainUnrolled(ir::RepeatOp one, ir::RepeatOp next, const std::optional<WeightFormats> &stored);

} // namespace quern::passes
#endif
