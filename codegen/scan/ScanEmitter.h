// The C function of a kernel with a scan, in LLVM IR.
#ifndef QUERN_CODEGEN_SCAN_SCANEMITTER_H
#define QUERN_CODEGEN_SCAN_SCANEMITTER_H

#include "codegen/scan/ScanShape.h"

#include "llvm/IR/Module.h"

namespace quern::codegen::scan {

/// Adds `symbol` and `symbol`_argv (codegen/README.md) to the module. The bytes that each thread asks the runtime for.
int64_t emitScan(const KernelGraph &graph, const ScanShape &shape, const std::string &symbol, llvm::Module &module);

} // namespace quern::codegen::scan
#endif
