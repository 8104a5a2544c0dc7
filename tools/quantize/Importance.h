// How much each number of a weight counts: by what it is multiplied with on a text.
#ifndef QUERN_TOOLS_QUANTIZE_IMPORTANCE_H
#define QUERN_TOOLS_QUANTIZE_IMPORTANCE_H

#include "tools/quantize/Measure.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>

namespace quern::tools {

/// By the names of tensors: mean squares of what multiplies them, for each position of the summed dimension.
using Importance = std::map<std::string, std::vector<float>>;

/// The reference interpreter reads the rows one by one. `resolved`: a module as the frontend makes it, whose layers are not
/// rolled into loops. Weights that rows pick for themselves (experts) are not in the result. Throws UserError.
Importance importanceOf(mlir::ModuleOp resolved, const std::string &weights, const TextRows &rows);

} // namespace quern::tools
#endif
