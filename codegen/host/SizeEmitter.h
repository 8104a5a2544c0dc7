// Run-time lengths, and what follows from them, as code of the host program.
#ifndef QUERN_CODEGEN_HOST_SIZEEMITTER_H
#define QUERN_CODEGEN_HOST_SIZEEMITTER_H

#include "ir/Dialect.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace quern::codegen {

/// Emits lengths as i64 arithmetic, once each, before everything else in a function.
class SizeEmitter {
public:
  /// `sizes`: pointer to the run-time lengths. Code is put before `anchor`.
  SizeEmitter(mlir::Operation *anchor, mlir::Value sizes, llvm::ArrayRef<std::string> symbols);
  mlir::Value operator()(const ir::Size &size);
  /// Until `leaveChunks`, `symbol` is `length`, and what it occurs in is emitted at `place`, in a loop's body.
  void enterChunks(const std::string &symbol, mlir::Value length, mlir::Operation *place);
  void leaveChunks();
  mlir::Value number(int64_t value);
  mlir::OpBuilder &builder() { return b; }

private:
  mlir::Value symbol(const std::string &name);
  mlir::OpBuilder b;
  mlir::Location loc;
  mlir::Value sizes;
  llvm::ArrayRef<std::string> symbols;
  std::map<std::string, mlir::Value> known, ofChunk; ///< by their texts; the latter within a loop over chunks
  std::string chunk;                                 ///< its symbol
  mlir::Operation *anchor, *chunkPlace = nullptr;
};

/// `bytes` rounded up to a cache line, as code.
mlir::Value alignedTo64(SizeEmitter &size, mlir::Value bytes);
/// Offsets of the slots of an arena (quern.arena), as code, the total last.
llvm::SmallVector<mlir::Value> arenaLayout(SizeEmitter &size, mlir::ArrayAttr slots);
/// The same for quern.kept.
llvm::SmallVector<mlir::Value> keptLayout(SizeEmitter &size, mlir::ArrayAttr buffers);

} // namespace quern::codegen
#endif
