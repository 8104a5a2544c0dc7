// What parameters are before any training, as the spec's `~` annotations say.
#ifndef QUERN_TOOLS_INTERPRET_INITIALVALUES_H
#define QUERN_TOOLS_INTERPRET_INITIALVALUES_H

#include "ir/reference/Interpreter.h"

namespace quern::tools {

/// The numbers of one stored tensor of the parameter.
std::vector<double> initialNumbers(ir::ParamOp op, llvm::StringRef name, llvm::ArrayRef<int64_t> shape, uint64_t seed);

/// Each stored tensor of the function's parameters under its preferred name. The numbers follow from the seed, the name
/// and the distribution alone; they are not those of `PROGRAM train`, whose generator is the runtime's.
std::map<std::string, std::vector<double>> initialValues(mlir::func::FuncOp function, uint64_t seed);

/// The spread of a parameter's initial values: 0 for zeros and ones.
double initialScale(ir::ParamOp op);

} // namespace quern::tools
#endif
