// Words of the language, with comments kept aside for the formatter.
#ifndef QUERN_FRONTEND_SYNTAX_LEXER_H
#define QUERN_FRONTEND_SYNTAX_LEXER_H

#include "frontend/syntax/Diagnostics.h"

namespace quern::frontend {

struct Token {
  enum Kind : uint8_t { Name, Dim, Number, String, Word, Operator, Invalid, End };
  Kind kind;
  bool startsLine; // the first token on its line
  Span at;

  std::string_view text() const { return at.text(); }
  /// An operator or a keyword (Word) of this spelling.
  bool is(std::string_view spelling) const { return (kind == Operator || kind == Word) && text() == spelling; }
};

struct Lexed {
  std::vector<Token> tokens; // ends with an End token
  std::vector<Span> comments;
  bool readable = true; // false: too long, or not text; nothing was read
};

inline constexpr size_t maxFileBytes = 16u << 20, maxLineBytes = 1u << 20;

/// Reads [begin, end) of the source. What cannot be read is reported (Q001) and becomes one Invalid token.
Lexed lex(const Source &source, uint32_t begin, uint32_t end, Diagnostics &diagnostics);
Lexed lex(const Source &source, Diagnostics &diagnostics);

/// Whether a line that ends with this token goes on in the next.
bool continuesLine(const Token &token);

} // namespace quern::frontend
#endif
