// Takes: a template. Gives: its tokens, with white space around tags already removed as the signs - and + and the two
// settings say.
#include "runtime/template/Lexer.h"

#include "runtime/Error.h"
#include "runtime/tokenizer/text/Unicode.h"

#include <algorithm>

namespace quern::runtime::jinja {

namespace {

bool isSpace(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
bool isDigit(char c) {
  return c >= '0' && c <= '9';
}
bool isNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)(c) >= 0x80;
}

class Lexer {
public:
  explicit Lexer(std::string source) : source(std::move(source)) {}
  std::vector<Token> run();

private:
  std::string source;
  size_t at = 0;
  int line = 1;
  bool lineStart = true; // whether what was taken last ended a line
  std::vector<Token> tokens;

  [[noreturn]] void fail(const std::string &message) const {
    throw UserError(format("line %d of the template: %s", line, message.c_str()));
  }
  bool starts(std::string_view text) const { return source.compare(at, text.size(), text) == 0; }
  void move(size_t to) {
    line += int(std::count(source.begin() + std::ptrdiff_t(at), source.begin() + std::ptrdiff_t(to), '\n'));
    at = to;
    lineStart = at > 0 && source[at - 1] == '\n';
  }
  void add(TokenKind kind, std::string text) { tokens.push_back({kind, std::move(text), line}); }
  /// The text up to a tag that begins at `tag` with `sign` behind its two characters.
  void addText(size_t tag, char sign, bool isBlock);
  void endTag(std::string_view end, bool isBlock);
  void expression(std::string_view end, TokenKind endKind);
  void comment();
  bool raw();
  void string();
  void number();
};

void Lexer::addText(size_t tag, char sign, bool isBlock) {
  size_t end = tag;
  if (sign == '-') {
    while (end > at && isSpace(source[end - 1]))
      --end;
  } else if (isBlock && sign != '+') {
    size_t begin = end;
    while (begin > at && source[begin - 1] != '\n' && isSpace(source[begin - 1]))
      --begin;
    if (begin > at ? source[begin - 1] == '\n' : lineStart)
      end = begin;
  }
  if (end > at)
    add(TokenKind::Text, source.substr(at, end - at));
  move(tag);
}

/// Behind a tag's end, "-" before it being taken already.
void Lexer::endTag(std::string_view end, bool isBlock) {
  char sign = source[at];
  size_t to = at + (sign == '-' || sign == '+' ? 1 : 0) + end.size();
  if (sign == '-')
    while (to < source.size() && isSpace(source[to]))
      ++to;
  else if (isBlock && sign != '+' && to < source.size() && source[to] == '\n')
    ++to;
  move(to);
}

void Lexer::comment() {
  size_t end = source.find("#}", at + 2);
  if (end == std::string::npos)
    fail("a comment is not closed");
  move(end > at + 2 && (source[end - 1] == '-' || source[end - 1] == '+') ? end - 1 : end);
  endTag("#}", true);
}

/// {% raw %} ... {% endraw %}: true if the block that begins here is one.
bool Lexer::raw() {
  auto tagAt = [&](size_t from, std::string_view name) -> size_t { // its end, or 0
    size_t p = from + 2;
    p += p < source.size() && (source[p] == '-' || source[p] == '+');
    while (p < source.size() && isSpace(source[p]))
      ++p;
    if (source.compare(p, name.size(), name) != 0)
      return 0;
    p += name.size();
    while (p < source.size() && isSpace(source[p]))
      ++p;
    size_t sign = p < source.size() && (source[p] == '-' || source[p] == '+');
    return source.compare(p + sign, 2, "%}") == 0 ? p : 0;
  };
  size_t begin = tagAt(at, "raw");
  if (!begin)
    return false;
  move(begin);
  endTag("%}", false); // Jinja keeps the line's end here
  for (size_t tag = source.find("{%", at); tag != std::string::npos; tag = source.find("{%", tag + 2))
    if (size_t end = tagAt(tag, "endraw")) {
      addText(tag, source[tag + 2], true);
      move(end);
      endTag("%}", true);
      return true;
    }
  fail("{% raw %} is not closed");
}

void Lexer::string() {
  char mark = source[at];
  std::string text;
  size_t p = at + 1;
  for (; p < source.size() && source[p] != mark; ++p) {
    if (source[p] != '\\' || p + 1 == source.size()) {
      text += source[p];
      continue;
    }
    char c = source[++p];
    static constexpr std::string_view names = "ntrbfva", values = "\n\t\r\b\f\v\a";
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits) {
      char32_t code = 0;
      for (size_t i = 0; i < digits; ++i) {
        char d = p + 1 < source.size() ? source[++p] : ' ';
        int value = isDigit(d)             ? d - '0'
                    : d >= 'a' && d <= 'f' ? d - 'a' + 10
                    : d >= 'A' && d <= 'F' ? d - 'A' + 10
                                           : -1;
        if (value < 0)
          fail("an escape in a string has too few hexadecimal digits");
        code = code * 16 + char32_t(value);
      }
      appendChar(text, code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? U'\ufffd' : code);
    } else if (size_t which = names.find(c); which != std::string_view::npos) {
      text += values[which];
    } else if (c == '\\' || c == '\'' || c == '"') {
      text += c;
    } else if (c != '\n') {
      text += '\\';
      text += c;
    }
  }
  if (p == source.size())
    fail("a string is not closed");
  add(TokenKind::String, std::move(text));
  move(p + 1);
}

void Lexer::number() {
  size_t p = at;
  auto digits = [&] {
    while (p < source.size() && (isDigit(source[p]) || source[p] == '_'))
      ++p;
  };
  digits();
  TokenKind kind = TokenKind::Integer;
  if (p + 1 < source.size() && source[p] == '.' && isDigit(source[p + 1])) {
    kind = TokenKind::Real;
    ++p;
    digits();
  }
  size_t sign = p + 1 < source.size() && (source[p + 1] == '+' || source[p + 1] == '-');
  if (p + 1 + sign < source.size() && (source[p] == 'e' || source[p] == 'E') && isDigit(source[p + 1 + sign])) {
    kind = TokenKind::Real;
    p += 1 + sign;
    digits();
  }
  std::string text = source.substr(at, p - at);
  std::erase(text, '_');
  add(kind, std::move(text));
  move(p);
}

void Lexer::expression(std::string_view end, TokenKind endKind) {
  std::string open; // brackets
  while (true) {
    while (at < source.size() && isSpace(source[at]))
      move(at + 1);
    if (at >= source.size())
      fail("a tag is not closed");
    if (open.empty() &&
        (starts(end) || ((source[at] == '-' || source[at] == '+') && source.compare(at + 1, 2, end) == 0)))
      break;
    char c = source[at];
    if (c == '\'' || c == '"') {
      string();
    } else if (isDigit(c)) {
      number();
    } else if (isNameStart(c)) {
      size_t p = at;
      while (p < source.size() && (isNameStart(source[p]) || isDigit(source[p])))
        ++p;
      add(TokenKind::Name, source.substr(at, p - at));
      move(p);
    } else {
      static constexpr std::string_view known[] = {"**", "//", "==", "!=", "<=", ">=", "+", "-", "*",
                                                   "/",  "%",  "~",  "<",  ">",  "=",  "(", ")", "[",
                                                   "]",  "{",  "}",  ".",  ",",  ":",  "|"};
      auto found = std::find_if(std::begin(known), std::end(known), [&](std::string_view one) { return starts(one); });
      if (found == std::end(known))
        fail("unexpected character " + quote(std::string_view(source).substr(at, 1)));
      if (*found == "(" || *found == "[" || *found == "{") {
        open += *found == "(" ? ')' : *found == "[" ? ']' : '}';
      } else if (*found == ")" || *found == "]" || *found == "}") {
        if (open.empty() || open.back() != (*found)[0])
          fail("unexpected " + quote(*found));
        open.pop_back();
      }
      add(TokenKind::Operator, std::string(*found));
      move(at + found->size());
    }
  }
  add(endKind, "");
  endTag(end, endKind == TokenKind::BlockEnd);
}

std::vector<Token> Lexer::run() {
  while (true) {
    size_t tag = at;
    while ((tag = source.find('{', tag)) != std::string::npos && tag + 1 < source.size() &&
           std::string_view("{%#").find(source[tag + 1]) == std::string_view::npos)
      ++tag;
    if (tag == std::string::npos || tag + 1 >= source.size())
      break;
    char what = source[tag + 1], sign = tag + 2 < source.size() ? source[tag + 2] : ' ';
    addText(tag, sign, what != '{');
    if (what == '#') {
      comment();
      continue;
    }
    if (what == '%' && raw())
      continue;
    add(what == '{' ? TokenKind::Print : TokenKind::Block, "");
    move(at + 2 + (sign == '-' || sign == '+' ? 1 : 0));
    expression(what == '{' ? "}}" : "%}", what == '{' ? TokenKind::PrintEnd : TokenKind::BlockEnd);
  }
  if (at < source.size())
    add(TokenKind::Text, source.substr(at));
  add(TokenKind::End, "");
  return std::move(tokens);
}

} // namespace

std::vector<Token> lex(const std::string &source) {
  std::string lines = replaceAll(replaceAll(source, "\r\n", "\n"), "\r", "\n");
  if (!lines.empty() && lines.back() == '\n')
    lines.pop_back();
  return Lexer(std::move(lines)).run();
}

} // namespace quern::runtime::jinja
