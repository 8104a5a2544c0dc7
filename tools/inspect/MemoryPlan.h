// Where each value of a planned module is, launch by launch, for the page.
#ifndef QUERN_TOOLS_INSPECT_MEMORYPLAN_H
#define QUERN_TOOLS_INSPECT_MEMORYPLAN_H

#include "mlir/IR/BuiltinOps.h"
#include <nlohmann/json.hpp>

namespace quern::tools {

/// For each function, by its name: "steps" the launches in the order of the text (loops once), as numbers of operations
/// (numberOperations); "loops" [first step, last step, iterations]; "slots" of the arena, each a list of sizes of which the
/// largest counts; "buffers" [slot, first step, last step, number of the operation whose result it is, which result,
/// bytes, number of the launch that fills it iteration by iteration or -1]: what is stored in a slot at a step, values that are written over others after those; "weights", "kept", "outputs",
/// "states" bytes that are elsewhere. Sizes are polynomials.
nlohmann::json memoryPlan(mlir::ModuleOp planned);

} // namespace quern::tools
#endif
