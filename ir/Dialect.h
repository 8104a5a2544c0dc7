// The `quern` dialect: everything that other rooms include.
#ifndef QUERN_IR_DIALECT_H
#define QUERN_IR_DIALECT_H

#include "ir/Size.h"
#include "support/Storage.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace quern::ir {
using support::bitsOfCode;
using support::elementName;
using support::Kind;
using support::kindName;
using support::Storage;
using support::storageOf;
} // namespace quern::ir

#include "ir/QuernDialect.h.inc"
#include "ir/QuernEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/QuernAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/QuernTypes.h.inc"

namespace quern::ir {

class Array;       // ir/reference/Array.h
class Interpreter; // ir/reference/Interpreter.h

/// How an operation treats the dimensions it touches; all others pass through it position by position.
enum class TimeBehavior {
  Constant,  // has no operands: a number, a parameter; on no text
  Length,    // a length as a number
  Position,  // positions along a dimension
  Pointwise, // element by element
  Relabels,  // new names: the only way from T to a twin
  Reshapes,  // moves positions about; for time the touched dimensions must not be T or a twin
  Reduces,   // each result sees all positions of the touched dimensions
  Scans,     // each result sees the positions up to its own
  Selects,   // chooses among the positions
  Gathers,   // takes positions that another operand names
  Remembers, // memory: the new rows become all rows so far
  Structure  // loops, kernels, declarations: what is in their bodies decides
};

/// Pairwise equal but for the order of dimensions.
bool sameSets(mlir::TypeRange a, mlir::TypeRange b);

/// The dimensions of an elementwise result.
/// Their order is the one of ir/Union.h, which the checker has, too.
/// Nothing if one name has two sizes.
std::optional<llvm::SmallVector<DimAttr>> unionDims(llvm::ArrayRef<NamedTensorType> types);

/// Run-time symbols that occur in a type's sizes, added to `symbols`.
void collectSymbols(NamedTensorType type, std::vector<std::string> &symbols);

/// What a tensor takes in memory, of codes with their scales.
Size storedBytes(NamedTensorType type);
/// What so many elements of it take. Not of codes, which are parts of groups.
Size storedBytes(NamedTensorType type, const Size &elements);

inline NamedTensorType typeOf(mlir::Value value) {
  return llvm::cast<NamedTensorType>(value.getType());
}
/// The names that a list of labels or strings holds.
llvm::SmallVector<llvm::StringRef> names(mlir::ArrayAttr attr);
/// The inverse: names of dimensions as operations take them.
mlir::ArrayAttr labelArray(mlir::Builder &builder, llvm::ArrayRef<llvm::StringRef> labels);

} // namespace quern::ir

#include "ir/QuernInterfaces.h.inc"
#define GET_OP_CLASSES
#include "ir/QuernOps.h.inc"

namespace quern::ir {

/// What each of the kernel's symbols is where it is launched: a polynomial over the caller's.
std::map<std::string, Size> lengthsOf(KernelOp kernel, LaunchOp launch);

} // namespace quern::ir
#endif
