// quern dump --html.
#ifndef QUERN_TOOLS_INSPECT_DUMPPAGE_H
#define QUERN_TOOLS_INSPECT_DUMPPAGE_H

#include "codegen/Compiler.h"
#include "tools/inspect/Stages.h"
#include "tools/spec/SpecOptions.h"

namespace quern::tools {

struct DumpPageOptions {
  SpecOptions spec;
  std::string file, machine, cache, from, target;
  std::string profile; ///< what PROGRAM --profile wrote; empty: nothing was measured
  Lengths lengths;
  std::string command; ///< as it was given, for the page to show
};

/// Runs all passes, describes all kernels and writes the page. Returns the exit status.
int dumpPage(mlir::ModuleOp module, const passes::PassOptions &machine, const DumpPageOptions &options);

/// For kernels that are compiled only to be looked at: all processors, and progress where stderr is a terminal. `cache`
/// as in --cache-dir.
codegen::CompileOptions inspectOptions(const std::string &target, const std::string &cache);

} // namespace quern::tools
#endif
