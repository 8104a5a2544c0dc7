// A module after each pass: what `quern dump` shows.
#ifndef QUERN_TOOLS_INSPECT_STAGES_H
#define QUERN_TOOLS_INSPECT_STAGES_H

#include "passes/Phases.h"
#include "tools/inspect/Statistics.h"

#include <functional>
#include <memory>

namespace quern::tools {

/// The module as it is printed, and where each operation begins in that text.
struct Printed {
  std::string text;
  llvm::DenseMap<mlir::Operation *, unsigned> line; ///< from 1
};
Printed print(mlir::ModuleOp module, bool locations = false);

struct Stage {
  std::string name; ///< of the pass; of the phase it starts from for the first
  std::string phase, meaning;
  double seconds = 0;
  bool changed = true;                     ///< the text differs from the stage before
  std::shared_ptr<const std::string> text; ///< shared with the stage before if nothing changed
  Statistics statistics;
};

/// Runs the passes after `from` up to `to` (as runPhases does) and keeps what each leaves; the first stage is the
/// module as given. `look` sees each stage with its module. Fails, with MLIR's diagnostics, if a pass does.
using Look = std::function<void(Stage &stage, mlir::ModuleOp module, const Printed &printed)>;
mlir::FailureOr<std::vector<Stage>> collectStages(mlir::ModuleOp module, const passes::PassOptions &options,
                                                  llvm::StringRef from, llvm::StringRef to, bool locations = false,
                                                  const Look &look = {});

/// The text of each function, kernel and state, by its symbol, in order.
std::vector<std::pair<std::string, std::string>> splitSymbols(const std::string &text);

} // namespace quern::tools
#endif
