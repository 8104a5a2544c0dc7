// From text to tree.
#ifndef QUERN_FRONTEND_SYNTAX_PARSER_H
#define QUERN_FRONTEND_SYNTAX_PARSER_H

#include "frontend/syntax/Ast.h"
#include "frontend/syntax/Diagnostics.h"

namespace quern::frontend {

inline constexpr unsigned maxNesting = 256, maxOperators = 4096;

/// Reads a whole file. After a mistake reading goes on at the next statement of the same depth, so the tree is there
/// even then (`Ast::complete` is false) and can be checked further.
Ast parse(std::shared_ptr<const Source> source, Diagnostics &diagnostics);

} // namespace quern::frontend
#endif
