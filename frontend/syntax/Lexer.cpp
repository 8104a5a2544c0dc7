// Takes: a source. Gives: tokens that know whether they start a line, and the comments.
// Why lines are marked, not tokens: the parser decides what ends a statement, so that one forgotten bracket spoils one
// statement and not the rest of the file.
#include "frontend/syntax/Lexer.h"

#include "frontend/syntax/Idioms.h"
#include "support/Utf8.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace quern::frontend {

static constexpr std::array keywords = {"quern", "model", "block", "config", "dim",     "param",  "repeat",
                                        "in",    "if",    "else",  "return", "require", "ignore", "and",
                                        "or",    "not",   "true",  "false",  "null",    "inf",    "pi"};
static constexpr std::array longOperators = {"->", "..", "??", "//", "<=", ">=", "==", "!="};
static constexpr std::string_view shortOperators = "-+*/%^<>=(){}[],.:@|~";

static bool isDigit(char c) {
  return c >= '0' && c <= '9';
}
static bool isSmall(char c) {
  return (c >= 'a' && c <= 'z') || c == '_';
}
static bool isCapital(char c) {
  return c >= 'A' && c <= 'Z';
}
static bool isWord(char c) {
  return isSmall(c) || isCapital(c) || isDigit(c);
}

namespace {
class Reader {
public:
  Reader(const Source &source, uint32_t begin, uint32_t end, Diagnostics &diagnostics)
      : source(source), text(source.getText()), at(begin), end(end), diagnostics(diagnostics) {}

  Lexed run() {
    while (skipBlank())
      token();
    add(Token::End, end);
    return std::move(out);
  }

private:
  const Source &source;
  std::string_view text;
  uint32_t at, end;
  Diagnostics &diagnostics;
  Lexed out;
  bool startsLine = true, badUtf8 = false;

  char look(size_t ahead = 0) const { return at + ahead < end ? text[at + ahead] : '\0'; }

  void add(Token::Kind kind, uint32_t stop) {
    out.tokens.push_back({kind, startsLine, {&source, at, stop}});
    startsLine = false;
    at = stop;
  }

  void bad(const std::string &message, uint32_t begin, uint32_t stop) {
    diagnostics.error("Q001", message, {&source, begin, stop});
  }

  /// One bad byte is reported once a file: a file in another encoding has thousands.
  void checkCharacter(uint32_t position) {
    if (!badUtf8 && !support::utf8Char(text.substr(0, end), position).length) {
      badUtf8 = true;
      bad("this is not UTF-8 text", position, position + 1);
    }
  }

  bool skipBlank() {
    while (at < end) {
      char c = text[at];
      if (c == '\n')
        startsLine = true;
      else if (c == '#') {
        uint32_t begin = at;
        while (at < end && text[at] != '\n') {
          if (text[at] & 0x80 && !support::isUtf8Tail(text[at]))
            checkCharacter(at);
          ++at;
        }
        out.comments.push_back({&source, begin, at});
        continue;
      } else if (c != ' ' && c != '\t' && c != '\r')
        return true;
      ++at;
    }
    return false;
  }

  void token() {
    char c = look();
    if (isDigit(c))
      return number();
    if (isSmall(c) || isCapital(c)) {
      uint32_t stop = at;
      while (stop < end && isWord(text[stop]))
        ++stop;
      std::string_view word = text.substr(at, stop - at);
      bool keyword = std::find(keywords.begin(), keywords.end(), word) != keywords.end();
      return add(keyword ? Token::Word : isCapital(c) ? Token::Dim : Token::Name, stop);
    }
    if (c == '"')
      return string();
    for (std::string_view op : longOperators)
      if (text.substr(at, std::min<size_t>(2, end - at)) == op)
        return add(Token::Operator, at + 2);
    if (shortOperators.find(c) != std::string_view::npos)
      return add(Token::Operator, at + 1);
    unreadable();
  }

  void number() {
    uint32_t stop = at;
    auto digits = [&] {
      while (stop < end && isDigit(text[stop]))
        ++stop;
    };
    auto peek = [&](uint32_t i) { return i < end ? text[i] : '\0'; };
    digits();
    if (peek(stop) == '.' && isDigit(peek(stop + 1))) {
      ++stop;
      digits();
    }
    if (peek(stop) == 'e' || peek(stop) == 'E') {
      uint32_t sign = peek(stop + 1) == '+' || peek(stop + 1) == '-';
      if (isDigit(peek(stop + 1 + sign))) {
        stop += 1 + sign;
        digits();
      }
    }
    if (isWord(peek(stop))) { // 12abc would otherwise be two words
      uint32_t begin = at;
      while (stop < end && isWord(text[stop]))
        ++stop;
      bad("cannot read the number '" + std::string(text.substr(begin, std::min<size_t>(stop - begin, 40))) + "'", begin,
          stop);
      return add(Token::Invalid, stop);
    }
    add(Token::Number, stop);
  }

  void string() {
    uint32_t stop = at + 1;
    while (stop < end && text[stop] != '"' && text[stop] != '\n') {
      if (text[stop] == '\\' && stop + 1 < end && text[stop + 1] != '\n')
        ++stop;
      else if (text[stop] & 0x80 && !support::isUtf8Tail(text[stop]))
        checkCharacter(stop);
      ++stop;
    }
    if (stop < end && text[stop] == '"')
      return add(Token::String, stop + 1);
    // A quote inside braces inside a string also ends here: the lexer of a string's inside gets its own range.
    bad("cannot read a string that does not end on its line", at, stop);
    add(Token::Invalid, stop);
  }

  void unreadable() {
    size_t length = support::utf8Char(text.substr(0, end), at).length;
    uint32_t stop = at + std::max<size_t>(1, length);
    if (!length)
      checkCharacter(at);
    else if (static_cast<unsigned char>(look()) < 32)
      bad("cannot read the control character " + std::to_string(static_cast<int>(look())), at, stop);
    else
      bad("cannot read the character '" + std::string(text.substr(at, length)) + "'" + idiomForCharacter(look()), at,
          stop);
    add(Token::Invalid, stop);
  }
};
} // namespace

Lexed lex(const Source &source, uint32_t begin, uint32_t end, Diagnostics &diagnostics) {
  return Reader(source, begin, end, diagnostics).run();
}

Lexed lex(const Source &source, Diagnostics &diagnostics) {
  std::string_view text = source.getText();
  auto refuse = [&](const std::string &message, size_t at) {
    Span span{&source, static_cast<uint32_t>(at), static_cast<uint32_t>(std::min(at + 1, text.size()))};
    diagnostics.error("Q001", message, span);
    Lexed out;
    out.readable = false;
    out.tokens.push_back({Token::End, true, span});
    return out;
  };
  if (text.size() > maxFileBytes)
    return refuse("the file is longer than 16 MB", 0);
  if (size_t nul = text.find('\0'); nul != std::string_view::npos)
    return refuse("the file holds a NUL byte", nul);
  for (size_t start = 0; start < text.size();) {
    size_t end = std::min(text.find('\n', start), text.size());
    if (end - start > maxLineBytes)
      return refuse("this line is longer than 1 MB", start);
    start = end + 1;
  }
  return lex(source, 0, text.size(), diagnostics);
}

bool continuesLine(const Token &token) {
  static constexpr std::array operators = {"(",  "[", ",", "=",  "==",  "->", "+",   "-",  "*",  "/",
                                           "//", "%", "^", "<",  ">",   "<=", ">=",  "!=", "??", "@",
                                           "|",  ":", "~", "..", "and", "or", "not", "in"};
  return (token.kind == Token::Operator || token.kind == Token::Word) &&
         std::find(operators.begin(), operators.end(), token.text()) != operators.end();
}

} // namespace quern::frontend
