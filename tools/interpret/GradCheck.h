// Gradients against differences: the judge of differentiation.
#ifndef QUERN_TOOLS_INTERPRET_GRADCHECK_H
#define QUERN_TOOLS_INTERPRET_GRADCHECK_H

#include "tools/interpret/Training.h"

namespace quern::tools {

/// How one stored tensor of a model fared.
struct GradientError {
  std::string name;
  double error = 0; ///< the largest of its directions, relative to what such a direction gives
};

struct GradCheckOptions {
  /// Numbers by parameter name; empty: made up, the same in every run.
  ir::Interpreter::ParameterLookup parameters;
  ir::Interpreter::Inputs inputs; ///< those absent are made up, or take their defaults
  int directions = 2;             ///< at random, beside the direction of the gradient's largest element
  int64_t batch = 2, length = 5;
};

/// For each parameter of @loss.grad: its gradient along directions in which every element changes, against fourth-order
/// central differences of @loss.grad's own loss in double precision. Failure after a diagnostic.
llvm::FailureOr<std::vector<GradientError>> checkGradients(mlir::ModuleOp module, const GradCheckOptions &options);

} // namespace quern::tools
#endif
