// The shapes of a launch's buffers: halide_buffer_t (HalideRuntime.h) on the stack of a function of the host program.
#ifndef QUERN_CODEGEN_HOST_BUFFERHEADERS_H
#define QUERN_CODEGEN_HOST_BUFFERHEADERS_H

#include "codegen/host/SizeEmitter.h"

#include <HalideRuntime.h>

namespace quern::codegen {

/// All headers of a function are one block of its stack. Its known parts are copied from a constant when the function
/// begins, lengths of this run are stored after that; a launch then only stores its addresses. Launches follow each
/// other, so those with buffers of one shape share headers.
class BufferHeaders {
public:
  /// An extent and a stride in elements.
  using Dim = std::pair<ir::Size, ir::Size>;
  /// Where a launch stores the address of a buffer, in bytes from its header.
  static constexpr int64_t deviceField = 0, hostField = 16;

  /// `entryEnd`: code that runs once is put before it. `function` names the constant.
  BufferHeaders(mlir::Operation *entryEnd, SizeEmitter &size, mlir::LLVM::LLVMFuncOp function);
  /// Headers that earlier launches used are free again.
  void nextLaunch() { used.clear(); }
  /// The header of a buffer, dimensions from the innermost. Lengths of a chunk are stored where `here` stands, as they
  /// are known within its iteration only.
  mlir::Value header(halide_type_t type, llvm::ArrayRef<Dim> dims, mlir::OpBuilder &here);
  /// After the last header: its constant, and the block's size.
  void finish();

private:
  int64_t append(halide_type_t type, llvm::ArrayRef<Dim> dims);
  mlir::Value at(mlir::OpBuilder &builder, int64_t position);

  mlir::OpBuilder entry;
  SizeEmitter &size;
  mlir::LLVM::LLVMFuncOp function;
  mlir::Location loc;
  mlir::Value block; ///< null without headers
  mlir::Operation *bytes = nullptr;
  std::string known; ///< the constant
  std::map<std::string, std::vector<mlir::Value>> shared;
  std::map<std::string, size_t> used; ///< of `shared`, in this launch
};

} // namespace quern::codegen
#endif
