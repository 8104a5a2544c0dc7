// Making a failing spec or module smaller while it still fails.
#ifndef QUERN_TOOLS_REDUCE_REDUCE_H
#define QUERN_TOOLS_REDUCE_REDUCE_H

#include <functional>
#include <string>

namespace quern::tools {

/// True if a text still shows what is looked for.
using Interesting = std::function<bool(const std::string &text)>;

/// A spec without the lines, operands, calls and sizes that do not matter. If `text` checks without errors, so does the
/// result (then candidates that do not are never tried). `text` itself must be interesting.
std::string reduceSpec(const std::string &text, const Interesting &interesting);

/// A module without the functions, operations and iterations of loops that do not matter: the result of an operation becomes
/// an operand of its type, or zeros. The result verifies. Throws std::runtime_error if `text` cannot be read.
std::string reduceModule(const std::string &text, const Interesting &interesting);

} // namespace quern::tools
#endif
