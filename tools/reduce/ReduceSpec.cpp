// Takes: a spec. Gives: a smaller one that is as interesting.
// Why on the text: whoever reads the result wants the text, and bad specs (those that crash the parser, say) have
// nothing else. What removing a line leaves unused goes with it, so that single steps stay valid.
#include "tools/reduce/Reduce.h"

#include "frontend/Language.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <algorithm>
#include <optional>
#include <vector>

using namespace quern::tools;
namespace frontend = quern::frontend;

namespace {

using Lines = std::vector<std::string>;

Lines linesOf(const std::string &text) {
  Lines lines;
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(text).rtrim('\n').split(parts, '\n');
  for (llvm::StringRef part : parts)
    lines.push_back(part.str());
  return lines;
}

std::string textOf(const Lines &lines) {
  std::string text;
  for (const std::string &line : lines)
    text += line + "\n";
  return text;
}

/// A name as a word of its own, from `begin` on.
size_t findWord(const std::string &line, const std::string &word, size_t begin = 0) {
  auto isPart = [&](size_t at) { return at < line.size() && (llvm::isAlnum(line[at]) || line[at] == '_'); };
  for (size_t at = line.find(word, begin); at != std::string::npos; at = line.find(word, at + 1))
    if (!(at && isPart(at - 1)) && !isPart(at + word.size()))
      return at;
  return std::string::npos;
}

class Reducer {
public:
  Reducer(std::string text, const Interesting &interesting) : text(std::move(text)), interesting(interesting) {
    strict = clean(this->text).has_value() && *clean(this->text) == this->text;
  }
  std::string run();

private:
  std::optional<std::string> clean(std::string candidate);
  bool attempt(const std::string &candidate);
  bool removeLines();
  bool unwrap();
  bool removeAliases();
  bool removeOperands();
  bool removeCalls();
  bool shrinkNumbers();

  std::string text;
  const Interesting &interesting;
  llvm::StringSet<> tried;
  bool strict = false;
};

/// The candidate without what nothing uses any more; nothing if it has other errors.
std::optional<std::string> Reducer::clean(std::string candidate) {
  for (int round = 0; round < 200; ++round) {
    frontend::SpecInput input;
    input.name = "reduced.quern";
    input.text = candidate;
    frontend::Diagnostics diagnostics;
    if (frontend::checkSpec(input, diagnostics))
      return candidate;
    const frontend::Diagnostic *unused = nullptr;
    for (const frontend::Diagnostic &diagnostic : diagnostics.list()) {
      if (diagnostic.severity == frontend::Severity::Error && diagnostic.code != "Q035")
        return std::nullopt;
      if (diagnostic.code == "Q035" && diagnostic.at.source && diagnostic.at.source->getName() == "reduced.quern")
        unused = &diagnostic;
    }
    if (!unused)
      return std::nullopt;
    Lines lines = linesOf(candidate);
    size_t at = unused->at.source->place(unused->at.begin).line - 1;
    std::string name = unused->message.substr(0, unused->message.rfind('\''));
    name = name.substr(name.rfind('\'') + 1);
    if (at >= lines.size() || name.empty())
      return std::nullopt;
    std::string &line = lines[at];
    size_t equals = line.find(" = "), word = findWord(line, name);
    // One of several names stays as '_'; a line that makes only what is unused goes.
    if (unused->message.find("; write _") != std::string::npos && word < equals)
      line.replace(word, name.size(), "_");
    else if (line.find('{') == std::string::npos)
      lines.erase(lines.begin() + static_cast<long>(at));
    else
      return std::nullopt;
    candidate = textOf(lines);
  }
  return std::nullopt;
}

bool Reducer::attempt(const std::string &candidate) {
  if (candidate == text || !tried.insert(candidate).second)
    return false;
  std::optional<std::string> cleaned = strict ? clean(candidate) : candidate;
  if (!cleaned || cleaned->size() >= text.size() + 1 || *cleaned == text || !interesting(*cleaned))
    return false;
  text = *cleaned;
  return true;
}

/// The line where the brace that opens at the end of line `i` closes.
static size_t closing(const Lines &lines, size_t i) {
  int depth = 0;
  for (size_t j = i; j < lines.size(); ++j) {
    for (char c : lines[j])
      depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    if (depth <= 0 && j >= i)
      return j;
  }
  return lines.size() - 1;
}

/// Runs of lines, long ones first; what is in braces as a whole.
bool Reducer::removeLines() {
  bool any = false;
  for (size_t count = linesOf(text).size() / 2; count >= 1; count /= 2)
    for (size_t i = linesOf(text).size(); i-- > 0;) {
      Lines lines = linesOf(text);
      if (i >= lines.size())
        continue;
      size_t end = std::min(lines.size(), i + count);
      if (count == 1 && lines[i].find('{') != std::string::npos)
        end = closing(lines, i) + 1;
      lines.erase(lines.begin() + static_cast<long>(i), lines.begin() + static_cast<long>(end));
      any |= attempt(textOf(lines));
    }
  return any;
}

/// A loop or choice without its first and last line.
bool Reducer::unwrap() {
  bool any = false;
  for (size_t i = linesOf(text).size(); i-- > 0;) {
    Lines lines = linesOf(text);
    if (i >= lines.size() || lines[i].empty() || lines[i].back() != '{')
      continue;
    size_t end = closing(lines, i);
    if (end <= i || end >= lines.size())
      continue;
    lines.erase(lines.begin() + static_cast<long>(end));
    lines.erase(lines.begin() + static_cast<long>(i));
    any |= attempt(textOf(lines));
  }
  return any;
}

/// A line `a = b`: what comes after reads b.
bool Reducer::removeAliases() {
  bool any = false;
  for (size_t i = linesOf(text).size(); i-- > 0;) {
    Lines lines = linesOf(text);
    if (i >= lines.size())
      continue;
    llvm::StringRef line = llvm::StringRef(lines[i]).trim();
    auto [name, value] = line.split(" = ");
    auto isWord = [](llvm::StringRef word) {
      return !word.empty() && llvm::all_of(word, [](char c) { return llvm::isAlnum(c) || c == '_'; });
    };
    if (!isWord(name) || !isWord(value))
      continue;
    std::string from = name.str(), to = value.str();
    lines.erase(lines.begin() + static_cast<long>(i));
    for (size_t j = i; j < lines.size(); ++j)
      for (size_t at = findWord(lines[j], from); at != std::string::npos; at = findWord(lines[j], from, at + to.size()))
        lines[j].replace(at, from.size(), to);
    any |= attempt(textOf(lines));
  }
  return any;
}

/// From `at`, forwards (or backwards) to where the operand ends: a bracket that closes around it, a comma, the line's
/// end, another operator between blanks.
static size_t operandEnd(const std::string &text, size_t at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    char c = text[at];
    if (c == '(' || c == '[' || c == '{')
      ++depth;
    else if (c == ')' || c == ']' || c == '}') {
      if (depth-- == 0)
        return at;
    } else if (depth == 0 && (c == ',' || c == '\n' ||
                              (c == ' ' && at + 2 < text.size() && text[at + 2] == ' ' && text[at + 1] != '@')))
      return at;
  }
  return at;
}

static size_t operandBegin(const std::string &text, size_t at) {
  int depth = 0;
  while (at > 0) {
    char c = text[at - 1];
    if (c == ')' || c == ']' || c == '}')
      ++depth;
    else if (c == '(' || c == '[' || c == '{') {
      if (depth-- == 0)
        return at;
    } else if (depth == 0 && (c == '\n' || (c == ' ' && at >= 2 &&
                                            (text[at - 2] == ',' || text[at - 2] == '=' || text[at - 2] == ':'))))
      return at;
    --at;
  }
  return at;
}

bool Reducer::removeOperands() {
  bool any = false;
  for (const char *sign : {" + ", " - ", " * ", " / ", " and ", " or ", " % ", " // "})
    for (size_t at = text.rfind(sign); at != std::string::npos;
         at = at ? text.rfind(sign, at - 1) : std::string::npos) {
      size_t length = std::string(sign).size(), right = operandEnd(text, at + length), left = operandBegin(text, at);
      if (attempt(text.substr(0, at) + text.substr(right)) || attempt(text.substr(0, left) + text.substr(at + length)))
        any = true;
      at = std::min(at, text.size());
    }
  return any;
}

/// A call becomes one of its arguments: f[..](a, b) @ "p" becomes a, or b; brackets behind a value go.
bool Reducer::removeCalls() {
  bool any = false;
  auto match = [&](size_t at) { // of the bracket at `at`
    char open = text[at], close = open == '(' ? ')' : ']';
    int depth = 0;
    for (size_t i = at; i < text.size(); ++i)
      if (text[i] == open)
        ++depth;
      else if (text[i] == close && --depth == 0)
        return i;
    return std::string::npos;
  };
  for (size_t at = text.size(); at-- > 0;) {
    if (at >= text.size() || (text[at] != '(' && text[at] != '[') || at == 0)
      continue;
    size_t end = match(at);
    if (end == std::string::npos)
      continue;
    if (text[at] == '[') {
      any |= attempt(text.substr(0, at) + text.substr(end + 1));
      continue;
    }
    size_t begin = at;
    if (text[begin - 1] == ']') { // the bracket of dimensions
      int depth = 0;
      while (begin > 0) {
        --begin;
        depth += text[begin] == ']' ? 1 : text[begin] == '[' ? -1 : 0;
        if (depth == 0)
          break;
      }
    }
    while (begin > 0 && (llvm::isAlnum(text[begin - 1]) || text[begin - 1] == '_'))
      --begin;
    size_t after = end + 1;
    if (text.compare(after, 4, " @ \"") == 0)
      after = text.find('"', after + 4) + 1;
    for (size_t argument = at + 1; argument <= end;) {
      size_t stop = argument;
      for (int depth = 0; stop < end && !(depth == 0 && text[stop] == ','); ++stop)
        depth += text[stop] == '(' || text[stop] == '[' ? 1 : text[stop] == ')' || text[stop] == ']' ? -1 : 0;
      if (attempt(text.substr(0, begin) + text.substr(argument, stop - argument) + text.substr(after))) {
        any = true;
        break;
      }
      argument = stop + 2;
    }
  }
  return any;
}

/// Whole numbers become 1, 2 or half of themselves.
bool Reducer::shrinkNumbers() {
  bool any = false;
  for (size_t at = text.size(); at-- > 0;) {
    if (at >= text.size() || !llvm::isDigit(text[at]) ||
        (at && (llvm::isAlnum(text[at - 1]) || text[at - 1] == '.' || text[at - 1] == '_')))
      continue;
    size_t end = at;
    while (end < text.size() && llvm::isDigit(text[end]))
      ++end;
    if (end < text.size() && (text[end] == '.' || text[end] == 'e'))
      continue;
    long value = std::strtol(text.substr(at, std::min<size_t>(end - at, 9)).c_str(), nullptr, 10);
    if (at == text.find("quern 1") + 6)
      continue; // the version
    for (long smaller : {1L, 2L, value / 2})
      if (smaller < value && smaller > 0 && attempt(text.substr(0, at) + std::to_string(smaller) + text.substr(end))) {
        any = true;
        break;
      }
  }
  return any;
}

std::string Reducer::run() {
  for (bool again = true; again;) {
    again = removeLines();
    again |= unwrap();
    again |= removeAliases();
    again |= removeOperands();
    again |= removeCalls();
    again |= shrinkNumbers();
  }
  return text;
}

} // namespace

std::string quern::tools::reduceSpec(const std::string &text, const Interesting &interesting) {
  return Reducer(text, interesting).run();
}
