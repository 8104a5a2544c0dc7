// The reference interpreter: evaluates functions of the dialect in double precision with plain loops.
#ifndef QUERN_IR_REFERENCE_INTERPRETER_H
#define QUERN_IR_REFERENCE_INTERPRETER_H

#include "ir/analysis/Functions.h"
#include "ir/reference/Array.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace quern::ir {

/// Evaluates functions of one module, in any phase up to `planned`: it runs loops, kernels and memory too, so that one
/// function and its lowered form must give the same numbers.
///
/// A function's inputs are known by name (`quern.name` of its arguments). Symbols follow from the inputs' shapes;
/// `past` is 0 unless bound. Memory (`quern.state`) lives from one `run` to the next; a run with past = 0 starts anew.
/// Errors are diagnostics at the operation.
class Interpreter {
public:
  /// One stored tensor, row-major: the first of `names` that the checkpoint has, with the shape expected. Nothing if
  /// none fits.
  using ParameterLookup = std::function<std::optional<std::vector<double>>(llvm::ArrayRef<std::string> names,
                                                                           llvm::ArrayRef<int64_t> shape)>;
  using Inputs = std::map<std::string, Array>;
  /// Called after each operation with its operands and results.
  using Observer =
      std::function<void(mlir::Operation *, llvm::ArrayRef<Array> operands, llvm::ArrayRef<Array> results)>;

  explicit Interpreter(mlir::ModuleOp module) : module(module) {}

  void setParameters(ParameterLookup lookup) { parameters = std::move(lookup); }
  void setObserver(Observer watch) { observer = std::move(watch); }
  /// Fixes a symbol for all following runs (`past`, say); it need not occur in an input's shape.
  void bind(llvm::StringRef symbol, int64_t value) { bound[symbol.str()] = value; }
  /// Drops all that is remembered.
  void forget() { memory.clear(), onceResults.clear(); }

  /// The results in order. Inputs that are absent take their default (`defaultOf`); unknown and missing ones are
  /// errors.
  llvm::FailureOr<std::vector<Array>> run(mlir::func::FuncOp function, const Inputs &inputs);

  // ---- for the operations' `evaluate`

  int64_t valueOf(const Size &size) const;
  std::vector<NamedSize> sizesOf(NamedTensorType type) const;
  /// Zeros of the type's kind and present sizes.
  Array make(NamedTensorType type) const { return Array(type.getKind(), sizesOf(type)); }
  /// The iteration of all enclosing loops, outermost slowest.
  int64_t getIteration() const { return iteration; }
  llvm::LogicalResult lookupParameter(ParamOp op, std::vector<Array> &results);
  /// The body's operations with `arguments`; the terminator's values.
  llvm::LogicalResult runBlock(mlir::Block &block, llvm::ArrayRef<Array> arguments, std::vector<Array> &results);
  llvm::LogicalResult runRepeat(RepeatOp op, llvm::ArrayRef<Array> operands, std::vector<Array> &results);
  llvm::LogicalResult runLaunch(LaunchOp op, llvm::ArrayRef<Array> inputs, std::vector<Array> &results);
  /// What a state holds for this iteration, or nothing (always at past = 0).
  const Array *recall(llvm::StringRef state) const;
  void keep(llvm::StringRef state, Array value) { memory[{state.str(), iteration}] = std::move(value); }

private:
  llvm::LogicalResult bindInputs(mlir::func::FuncOp function, const Inputs &inputs);
  llvm::LogicalResult checkSymbols(mlir::Operation *root);
  llvm::FailureOr<Array> inputFor(mlir::func::FuncOp function, unsigned index, const Inputs &inputs);
  llvm::LogicalResult runOp(mlir::Operation &op);
  llvm::LogicalResult relabel(LaunchOp op, std::vector<Array> &arrays, mlir::TypeRange types);
  void release(mlir::Block &block, mlir::Operation &op);

  mlir::ModuleOp module;
  mlir::SymbolTableCollection symbolTables;
  ParameterLookup parameters;
  Observer observer;
  std::map<std::string, int64_t> bound, symbols;
  llvm::DenseMap<mlir::Value, Array> values;
  /// For each block: the values of it that nothing needs after an operation.
  llvm::DenseMap<mlir::Block *, llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Value>>> lastUses;
  std::map<std::pair<std::string, int64_t>, Array> memory;
  std::map<std::pair<mlir::Operation *, int64_t>, std::vector<Array>> onceResults;
  int64_t iteration = 0, past = 0;
};

/// Calls `use` for each stored tensor that makes up a parameter in one iteration, with its alternative names and its shape:
/// one tensor, or one for each position of the dimensions in braces (row-major in the order of the type).
void forEachStored(ParamOp op, unsigned iteration,
                   llvm::function_ref<void(llvm::ArrayRef<std::string> names, llvm::ArrayRef<int64_t> shape)> use);

} // namespace quern::ir
#endif
