// Why kernels are computed as they are, as remarks at the spec's lines.
#ifndef QUERN_CODEGEN_EXPLAINKERNELS_H
#define QUERN_CODEGEN_EXPLAINKERNELS_H

namespace mlir {
class ModuleOp;
}

namespace quern::codegen {

/// Emits MLIR remarks for the kernels of a module at phase `kernels` or later; nothing for earlier ones.
void explainKernels(mlir::ModuleOp module);

} // namespace quern::codegen
#endif
