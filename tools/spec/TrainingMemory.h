// --memory: how much a gradient saves, by the bytes that it may work in.
#ifndef QUERN_TOOLS_SPEC_TRAININGMEMORY_H
#define QUERN_TOOLS_SPEC_TRAININGMEMORY_H

#include "passes/Phases.h"

#include "mlir/IR/OwningOpRef.h"

namespace quern::tools {

struct MemoryOptions {
  std::string memory; ///< as given; empty: no budget
  int64_t rows = 1, length = 0;
};

/// "4G", "512M", "100000": bytes. Throws for anything else.
int64_t parseBytes(const std::string &option, const std::string &text, double unit = 1024);

/// Runs all passes on `module`, saving as much for the gradient as fits the budget: what is planned for a step goes to
/// `report`. Throws where even what must be saved does not fit.
mlir::LogicalResult runWithin(mlir::OwningOpRef<mlir::ModuleOp> &module, const MemoryOptions &spec,
                              const passes::PassOptions &options, llvm::StringRef from, std::string &report);

} // namespace quern::tools
#endif
