// Small tensors as text: what a reader writes by hand and what is printed for one.
#ifndef QUERN_TOOLS_INTERPRET_TENSORTEXT_H
#define QUERN_TOOLS_INTERPRET_TENSORTEXT_H

#include "ir/reference/Array.h"
#include "tools/interpret/InterpretSafetensors.h"

namespace quern::tools {

/// The tensors of a JSON object {"NAME": nested lists of numbers}: whole numbers are I64, true and false BOOL, all else
/// F64; "inf", "-inf" and "nan" stand for themselves. Throws support::UserError for anything else, naming the tensor.
std::map<std::string, OutputTensor> tensorsFromJson(const std::string &path, llvm::StringRef text);

/// "NAME: real [B 1, T 3, S 3]" and the numbers, a row a line, each matrix under its place; of more than 2000 only the
/// beginning.
std::string tensorText(const std::string &name, const ir::Array &array);
/// The same for a stored tensor, whose dimensions have no names.
std::string tensorText(const std::string &name, const StoredTensor &tensor);

} // namespace quern::tools
#endif
