// Takes: a pattern in Oniguruma's dialect. Gives: PCRE2's, where both mean the same, or a refusal.
//
// The libraries agree on most of what tokenizers write. They differ in what \s, \w, \b, \h and the classes [:name:]
// hold, in classes within classes and their intersections, in \p{Script} (PCRE2 takes script extensions), in `(?m)`
// (there: the dot takes line feeds), in `^` and `$` (there: of every line) and in `{1,3}+` (there: repeated once more).
#include "runtime/tokenizer/text/Dialect.h"

#include "runtime/Error.h"
#include "runtime/tokenizer/text/Categories.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstring>
#include <optional>

namespace quern::runtime {

namespace {

/// What stands inside of a class of PCRE2's.
constexpr const char *spaces =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
constexpr const char *wordInClass = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
/// Outside of a class Oniguruma counts these, too.
constexpr const char *word = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";
constexpr const char *hex = "0-9a-fA-F";

struct Posix {
  const char *name, *members;
};
constexpr Posix classes[] = {
    {"alpha", "\\p{Alphabetic}"}, {"digit", "\\p{Nd}"},        {"alnum", "\\p{Alphabetic}\\p{Nd}"},
    {"upper", "\\p{Uppercase}"},  {"lower", "\\p{Lowercase}"}, {"space", spaces},
    {"punct", "\\p{P}\\p{S}"},    {"word", wordInClass},       {"xdigit", hex},
    {"cntrl", "\\p{Cc}"},         {"blank", "\\t\\p{Zs}"}};

/// What these lack, as PCRE2 does not know it.
std::string youngerWords() {
  return youngerMembers("L") + youngerMembers("M") + youngerMembers("Nd");
}

std::string decimals() {
  return "\\p{Nd}" + youngerMembers("Nd");
}

bool compiles(const std::string &pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code *code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF, &error, &offset, nullptr);
  pcre2_code_free(code);
  return code;
}

class Translator {
public:
  explicit Translator(const std::string &source) : source(source) {}

  std::string run() {
    std::string result;
    while (at < source.size()) {
      char c = source[at];
      if (c == '\\')
        result += escape();
      else if (c == '[')
        result += set();
      else if (c == '(' && next(1) == '?')
        result += options();
      else if (c == '{')
        result += quantifier();
      else
        result += source[at++];
    }
    return result;
  }

private:
  const std::string &source;
  size_t at = 0;
  int depth = 0;

  char next(size_t ahead) const { return at + ahead < source.size() ? source[at + ahead] : '\0'; }
  [[noreturn]] void refuse(const std::string &what) const {
    throw UserError("the tokenizer's pattern " + quote(source) + " has " + what + ", which is not supported");
  }

  /// \p{Name}, \P{Name} as they are, but with a script's name for the script alone, and a category's with the
  /// characters that PCRE2 does not know (not so a complement inside of a class, which cannot be spelled).
  std::string property(bool inSet) {
    std::string start = source.substr(at, 2);
    at += 2;
    if (next(0) != '{')
      return start;
    size_t close = source.find('}', at);
    if (close == std::string::npos)
      refuse("a property without its end");
    std::string name = source.substr(at + 1, close - at - 1), negation;
    at = close + 1;
    if (name.starts_with('^')) {
      negation = "^";
      name = name.substr(1);
    }
    if (const std::string members = youngerMembers(name); !members.empty()) {
      const bool complement = (start == "\\P") != !negation.empty();
      const std::string all = "\\p{" + name + "}" + members;
      if (!inSet)
        return (complement ? "[^" : "[") + all + "]";
      if (!complement)
        return all;
    }
    bool script = name.size() > 2 && compiles("\\p{sc:" + name + "}");
    return start + "{" + negation + (script ? "sc:" : "") + name + "}";
  }

  std::string escape() {
    char c = next(1);
    auto one = [&](const std::string &members, bool negated = false) {
      at += 2;
      return (negated ? "[^" : "[") + members + "]";
    };
    const std::string words = word + youngerWords(), in = "[" + words + "]";
    switch (c) {
    case 's':
      return one(spaces);
    case 'S':
      return one(spaces, true);
    case 'w':
      return one(words);
    case 'W':
      return one(words, true);
    case 'd':
      return one(decimals());
    case 'D':
      return one(decimals(), true);
    case 'h':
      return one(hex);
    case 'H':
      return one(hex, true);
    case 'b':
      at += 2;
      return "(?:(?<=" + in + ")(?!" + in + ")|(?<!" + in + ")(?=" + in + "))";
    case 'B':
      at += 2;
      return "(?:(?<=" + in + ")(?=" + in + ")|(?<!" + in + ")(?!" + in + "))";
    case 'p':
    case 'P':
      return property(false);
    default:
      at += 2;
      return source.substr(at - 2, 2);
    }
  }

  std::string escapeInSet() {
    switch (next(1)) {
    case 's':
      at += 2;
      return spaces;
    case 'w':
      at += 2;
      return wordInClass + youngerWords();
    case 'd':
      at += 2;
      return decimals();
    case 'h':
      at += 2;
      return hex;
    case 'W':
    case 'H':
      refuse(std::string("\\") + next(1) + " inside of a class");
    case 'p':
    case 'P':
      return property(true);
    default: // \S is PCRE2's: a complement cannot be spelled here
      at += 2;
      return source.substr(at - 2, 2);
    }
  }

  /// [:name:] at `at`, if that is what stands there.
  std::optional<std::string> posix() {
    size_t close = source.find(":]", at + 2);
    if (next(1) != ':' || close == std::string::npos)
      return std::nullopt;
    std::string name = source.substr(at + 2, close - at - 2);
    for (const Posix &known : classes)
      if (name == known.name) {
        at = close + 2;
        return known.members;
      }
    refuse("the class [:" + name + ":]");
  }

  /// A class, from its bracket on.
  std::string set() {
    if (++depth > 20)
      refuse("classes nested too deep");
    ++at;
    bool negated = next(0) == '^';
    at += negated;
    std::string members;
    if (next(0) == ']') {
      members = "\\]";
      ++at;
    }
    std::string result = items(members, negated);
    --depth;
    return result;
  }

  /// The members of a class within a class, where the two are one: beside others a hyphen at an end would make a range.
  std::string joined(const std::string &before) {
    const std::string inner = set(), members = inner.substr(1, inner.size() - 2);
    if (inner[0] != '[' || members.empty() || members[0] == '^' || members[0] == '-' || members.ends_with('-') ||
        before.ends_with('-'))
      refuse("a class within a class that is more than its members");
    return members;
  }

  std::string items(std::string members, bool negated) {
    while (at < source.size()) {
      char c = source[at];
      if (c == ']') {
        ++at;
        return (negated ? "[^" : "[") + members + "]";
      }
      if (c == '&' && next(1) == '&') {
        if (negated)
          refuse("an intersection of classes that is negated");
        at += 2;
        std::string other;
        if (next(0) == '[' && next(1) != ':') {
          other = set();
          if (next(0) != ']')
            refuse("an intersection of more than two classes");
          ++at;
        } else {
          other = items("", false);
        }
        return "(?:(?=" + other + ")[" + members + "])";
      }
      if (c == '[') {
        std::optional<std::string> named = posix();
        members += named ? *named : joined(members);
      } else if (c == '\\') {
        members += escapeInSet();
      } else {
        members += source[at++];
      }
    }
    refuse("a class without its end");
  }

  /// "(?" and what follows: letters that switch options are spelled as PCRE2 does.
  std::string options() {
    size_t end = source.find_first_not_of("imx-", at + 2);
    std::string letters = source.substr(at + 2, (end == std::string::npos ? source.size() : end) - at - 2);
    if (letters.empty() || end == std::string::npos || (source[end] != ':' && source[end] != ')')) {
      at += 2;
      return "(?";
    }
    at = end;
    for (char &c : letters)
      c = c == 'm' ? 's' : c;
    return "(?" + letters;
  }

  /// A plus after {n,m} is possessive in PCRE2, and one more repetition in Oniguruma.
  std::string quantifier() {
    size_t close = source.find('}', at), digits = source.find_first_not_of("0123456789,", at + 1);
    if (close == std::string::npos || digits != close || close == at + 1) {
      return source.substr(at++, 1); // a brace that stands for itself
    }
    std::string text = source.substr(at, close - at + 1);
    at = close + 1;
    if (next(0) != '+')
      return text;
    bool fromOne = text.starts_with("{1,") || text.starts_with("{0,") || text.starts_with("{,") || text == "{1}";
    if (!fromOne)
      refuse("a repetition of " + text);
    ++at;
    return text.starts_with("{1") ? "+" : "*";
  }
};

} // namespace

std::string translateRegex(const std::string &source) {
  return Translator(source).run();
}

} // namespace quern::runtime
