// What commands share that run @loss.grad in the interpreter: its inputs, its parameters, its results by stored tensor.
#ifndef QUERN_TOOLS_INTERPRET_TRAINING_H
#define QUERN_TOOLS_INTERPRET_TRAINING_H

#include "ir/reference/Interpreter.h"

namespace quern::tools {

/// For a loss whose rows of tokens can be their own labels (`quern.next_token`): where labels are absent, position t
/// predicts token t + 1, so labels are the tokens without the first, and everything else along the text loses its last.
mlir::LogicalResult shiftToNextToken(mlir::func::FuncOp loss, ir::Interpreter::Inputs &inputs);

/// Below which an int input stays inside of everything that is gathered at positions made from it.
int64_t positionsBelow(mlir::func::FuncOp function, mlir::BlockArgument argument);
/// `inputs` and, made up, those that a function needs beside them; the same numbers in every run.
ir::Interpreter::Inputs madeUpInputs(mlir::func::FuncOp function, ir::Interpreter::Inputs inputs, int64_t batch,
                                     int64_t length);

struct StoredGradient {
  std::vector<std::string> names; ///< of the parameter, the preferred one first
  std::vector<int64_t> shape;
  std::vector<double> numbers;
};
/// The gradients among a function's results, one for each stored tensor.
std::vector<StoredGradient> storedGradients(mlir::func::FuncOp function, llvm::ArrayRef<ir::Array> results);

} // namespace quern::tools
#endif
