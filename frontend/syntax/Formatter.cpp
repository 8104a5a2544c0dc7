// Takes: a readable spec. Gives: the same words with canonical spaces.
// Why by tokens and not from the tree: where an author breaks a line and what a comment stands next to carry meaning
// for readers; only spaces are ours to choose.
#include "frontend/syntax/Formatter.h"
#include "frontend/syntax/Lexer.h"

#include <algorithm>

namespace quern::frontend {

namespace {

/// One line of output before comments are aligned.
struct Line {
  std::string code, comment;
};

class Printer {
public:
  explicit Printer(const Source &source) : source(source), lexed(lex(source, unused)) {}

  std::string run() {
    size_t nextComment = 0;
    for (size_t i = 0; i + 1 < lexed.tokens.size() || nextComment < lexed.comments.size();) {
      bool token = i + 1 < lexed.tokens.size();
      uint32_t begin = token ? lexed.tokens[i].at.begin : UINT32_MAX;
      bool commentFirst = nextComment < lexed.comments.size() && lexed.comments[nextComment].begin < begin;
      uint32_t start = commentFirst ? lexed.comments[nextComment].begin : begin;
      blankLines(start);
      lines.emplace_back();
      if (commentFirst) {
        lines.back().code = std::string(indentation(0), ' ') + comment(nextComment++);
      } else {
        size_t stop = i + 1;
        while (stop + 1 < lexed.tokens.size() && !lexed.tokens[stop].startsLine)
          ++stop;
        codeLine(i, stop);
        uint32_t end = lexed.tokens[stop - 1].at.end;
        if (nextComment < lexed.comments.size() && lexed.comments[nextComment].begin >= end &&
            source.lineAround(end).second >= lexed.comments[nextComment].begin)
          lines.back().comment = comment(nextComment++);
        i = stop;
      }
      lastEnd = source
                    .lineAround(lines.back().comment.empty() && !commentFirst ? lexed.tokens[i - 1].at.begin
                                                                              : lexed.comments[nextComment - 1].begin)
                    .second;
    }
    return join();
  }

private:
  const Source &source;
  Diagnostics unused; // the caller has parsed the text already
  Lexed lexed;
  std::vector<Line> lines;
  struct Open {
    size_t column;
    bool brace;
  };
  std::vector<Open> opens; // where what follows an open bracket stands
  uint32_t lastEnd = 0;
  const Token *last = nullptr;
  bool unaryMinus = false;

  std::string comment(size_t index) {
    std::string text(lexed.comments[index].text());
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
      text.pop_back();
    return text;
  }

  /// One empty line stays where there were any, but not at the start or just inside braces.
  void blankLines(uint32_t start) {
    std::string_view between = source.getText().substr(lastEnd, start - lastEnd);
    bool many = std::count(between.begin(), between.end(), '\n') > 1;
    bool inside = !lines.empty() && !lines.back().code.empty() && lines.back().code.back() == '{';
    if (many && !lines.empty() && !inside && source.getText()[start] != '}')
      lines.emplace_back();
  }

  size_t braces() const {
    return std::count_if(opens.begin(), opens.end(), [](const Open &open) { return open.brace; });
  }

  size_t indentation(size_t closing) const {
    if (!opens.empty() && !opens.back().brace)
      return opens.back().column;
    return 2 * (braces() - std::min(closing, braces())) + (last && continuesLine(*last) ? 4 : 0);
  }

  void codeLine(size_t begin, size_t end) {
    size_t closing = 0;
    while (begin + closing < end && lexed.tokens[begin + closing].is("}"))
      ++closing;
    std::string &code = lines.back().code;
    code.assign(indentation(closing), ' ');
    size_t indent = code.size();
    for (size_t i = begin; i < end; ++i) {
      const Token &token = lexed.tokens[i];
      if (i > begin && spaced(*last, token))
        code += ' ';
      code += token.text();
      bool value = last && (last->kind == Token::Name || last->kind == Token::Dim || last->kind == Token::Number ||
                            last->kind == Token::String || last->is(")") || last->is("]") || last->is("true") ||
                            last->is("false") || last->is("null") || last->is("inf") || last->is("pi"));
      unaryMinus = token.is("-") && !value;
      bool lastOnLine = i + 1 == end;
      if (token.is("(") || token.is("["))
        opens.push_back({lastOnLine ? indent + 4 : code.size(), false});
      else if (token.is("{"))
        opens.push_back({0, true});
      else if ((token.is(")") || token.is("]") || token.is("}")) && !opens.empty())
        opens.pop_back();
      last = &token;
    }
  }

  bool spaced(const Token &a, const Token &b) const {
    if (a.is("(") || a.is("[") || b.is(")") || b.is("]") || b.is(",") || b.is(":") || a.is(".") || b.is("."))
      return false;
    if (a.is("..") || b.is(".."))
      return a.is(",") || a.is(":") || a.is("in") || b.is("->") || b.is("{") || b.is("@") || b.is("=");
    if (a.is("-") && unaryMinus)
      return false;
    bool value = a.kind == Token::Name || a.kind == Token::Dim || a.kind == Token::String || a.is(")") || a.is("]");
    if (b.is("(") || b.is("["))
      return !value;
    return !(a.is("{") && b.is("}"));
  }

  /// Trailing comments of neighbouring lines stand below each other, unless that takes them too far to the right.
  std::string join() {
    constexpr size_t widest = 120;
    std::string text;
    for (size_t i = 0; i < lines.size();) {
      size_t stop = i, width = 0;
      for (; stop < lines.size() && !lines[stop].comment.empty(); ++stop)
        width = std::max(width, lines[stop].code.size());
      for (; i < stop; ++i) {
        size_t column = std::max(lines[i].code.size(), width <= widest ? width : 0) + 2;
        text += lines[i].code + std::string(column - lines[i].code.size(), ' ') + lines[i].comment + "\n";
      }
      if (i < lines.size() && lines[i].comment.empty())
        text += lines[i++].code + "\n";
    }
    return text;
  }
};

} // namespace

std::string format(const Source &source) {
  return Printer(source).run();
}

} // namespace quern::frontend
