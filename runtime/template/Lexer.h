// A template's text, cut into pieces and expressions' tokens.
#ifndef QUERN_RUNTIME_TEMPLATE_LEXER_H
#define QUERN_RUNTIME_TEMPLATE_LEXER_H

#include <string>
#include <vector>

namespace quern::runtime::jinja {

enum class TokenKind { Text, Print, PrintEnd, Block, BlockEnd, Name, String, Integer, Real, Operator, End };

struct Token {
  TokenKind kind;
  std::string text; // of a string: its content
  int line;
};

/// As Jinja with trim_blocks and lstrip_blocks, which Hugging Face uses for chat templates: a block's line leaves nothing
/// behind. Comments are gone. Throws UserError with the line.
std::vector<Token> lex(const std::string &source);

} // namespace quern::runtime::jinja
#endif
