// `quern fmt`: one way to lay out a spec.
#ifndef QUERN_FRONTEND_SYNTAX_FORMATTER_H
#define QUERN_FRONTEND_SYNTAX_FORMATTER_H

#include "frontend/syntax/Source.h"

#include <string>

namespace quern::frontend {

/// The text with indentation, spaces and trailing comments in their place. Words, comments and line breaks stay as they
/// are, so the meaning does too; formatting twice changes nothing more. The source must be free of syntax errors.
std::string format(const Source &source);

} // namespace quern::frontend
#endif
