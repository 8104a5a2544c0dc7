// Lowers one planned function; part of HostProgram.cpp's work, cut in two for reading.
#ifndef QUERN_CODEGEN_HOST_HOSTFUNCTION_H
#define QUERN_CODEGEN_HOST_HOSTFUNCTION_H

#include "codegen/host/BufferHeaders.h"
#include "codegen/host/HostProgram.h"
#include "codegen/host/SizeEmitter.h"

namespace quern::codegen {

/// Fields of quern_call (runtime/abi/Abi.h) by position.
enum class CallField { Sizes, Inputs, Outputs, Slots, States, Arena, First, Kept, Profile, Device };

class HostFunction {
public:
  HostFunction(HostProgram &program, mlir::func::FuncOp source, mlir::LLVM::LLVMFuncOp target);
  void lower();

private:
  void lowerBlock(mlir::Block &block);
  void lowerRepeat(ir::RepeatOp repeat);
  void lowerLaunch(ir::LaunchOp launch);
  void call(ir::LaunchOp launch);
  void notifyProfile(int field, llvm::ArrayRef<mlir::Value> numbers);
  /// Calls a function of a table of functions, by its position; the table itself is the first argument.
  mlir::Value callOf(mlir::Value table, int function, mlir::ArrayRef<mlir::Value> arguments, mlir::Type result = {});
  void lowerStore(ir::StoreOp store);
  void copy(mlir::Value from, mlir::Value to, ir::NamedTensorType type);
  void copyBytes(mlir::Value from, mlir::Value to, mlir::Value bytes);
  /// Address of the element 0 of an owner's buffer.
  mlir::Value base(mlir::Value owner);
  mlir::Value address(mlir::Value value);
  mlir::Value place(ir::PlaceAttr place, mlir::Value value);
  /// Where the part of this iteration begins in a stack that begins at `stack`.
  mlir::Value partOfStack(mlir::Value stack, ir::RepeatOp loop, ir::NamedTensorType part);
  mlir::Value slot(int index);
  mlir::Value weight(mlir::Value value, ir::LayoutAttr layout);
  mlir::Value state(mlir::FlatSymbolRefAttr symbol, mlir::Value rows);
  mlir::Value stateRows(ir::RememberOp remember);
  void moveIntoRing(ir::RememberOp remember);
  /// Headers of buffers whose shape is set; addresses are stored before each call.
  mlir::Value halideBuffer(ir::NamedTensorType type, llvm::ArrayRef<ir::Size> strides);
  mlir::Value packedBuffer(ir::NamedTensorType type, ir::LayoutAttr layout);
  mlir::Value field(CallField field);
  mlir::Value loadPointer(mlir::Value table, mlir::Value index);
  mlir::Value offset(mlir::Value pointer, mlir::Value bytes);
  mlir::Value iteration(); // of the enclosing loops, flattened

  HostProgram &program;
  mlir::func::FuncOp source;
  mlir::LLVM::LLVMFuncOp target;
  mlir::OpBuilder b;
  mlir::Location loc;
  mlir::Operation *entryEnd; // code that runs once is put before this
  std::unique_ptr<SizeEmitter> size;
  std::unique_ptr<BufferHeaders> headers;
  llvm::DenseMap<mlir::Value, mlir::Value> places; // owner -> pointer, where it is the same everywhere
  struct Loop {
    ir::RepeatOp op;
    mlir::Value iteration; // its number, whichever way the loop runs
  };
  llvm::SmallVector<Loop> loops; // around what is being lowered, outermost first
  llvm::SmallVector<mlir::Value> arenaOffsets, keptOffsets;
  mlir::Value status, profile;
};

} // namespace quern::codegen
#endif
