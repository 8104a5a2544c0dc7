// The C function of a kernel with a scan, in LLVM IR.
#ifndef QUERN_CODEGEN_SCAN_SCANEMITTER_H
#define QUERN_CODEGEN_SCAN_SCANEMITTER_H

#include "codegen/scan/ChunkEmitter.h"

#include "llvm/IR/Module.h"

namespace quern::codegen::scan {

/// Adds `symbol` and `symbol`_argv (codegen/README.md) to the module. With a plan, calls of two chunks or more run by chunks.
/// The bytes that each thread asks the runtime for.
int64_t emitScan(const KernelGraph &graph, const ScanShape &shape, const ChunkPlan *plan, const std::string &symbol,
                 llvm::Module &module);

} // namespace quern::codegen::scan
#endif
