// Takes: a pattern and a text. Gives: the matches.
//
// The library that defines these files uses Oniguruma; PCRE2 agrees on what tokenizers write once \s means the property
// White_Space (PCRE2 also counts U+180E), so \s and \S are spelled out before compiling. Start optimisations are off:
// they rescan the text from every position. The match limit grows with the text: enough for any single pass, far too
// little for catastrophic backtracking.
#include "runtime/tokenizer/text/Pattern.h"

#include "runtime/Error.h"
#include "runtime/tokenizer/text/NoJit.h"
#include "runtime/tokenizer/text/Unicode.h"

#include <nlohmann/json.hpp>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <mutex>

namespace quern::runtime {

struct Pattern::Compiled {
  pcre2_code *code = nullptr;
  ~Compiled() { pcre2_code_free(code); }
};

namespace {

constexpr const char *spaces =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";

/// \s and \S spelled out. Inside a class \S stays PCRE2's, as a complement cannot be spelled there.
std::string spellSpaces(const std::string &source) {
  std::string result;
  bool inClass = false;
  for (size_t i = 0; i < source.size(); ++i) {
    char c = source[i];
    if (c == '\\' && i + 1 < source.size()) {
      char next = source[++i];
      if (next == 's')
        result += inClass ? spaces : std::string("[") + spaces + "]";
      else if (next == 'S' && !inClass)
        result += std::string("[^") + spaces + "]";
      else
        (result += '\\') += next;
      continue;
    }
    if (c == '[' && !inClass) {
      inClass = true;
      result += c;
      if (i + 1 < source.size() && source[i + 1] == '^')
        result += source[++i];
      if (i + 1 < source.size() && source[i + 1] == ']')
        result += source[++i];
      continue;
    }
    if (c == ']')
      inClass = false;
    result += c;
  }
  return result;
}

} // namespace

Pattern Pattern::literal(std::string text) {
  Pattern pattern;
  pattern.text = std::move(text);
  return pattern;
}

Pattern Pattern::regex(const std::string &source) {
  leaveOutJit();
  if (source.size() > 1 << 16)
    throw UserError("a pattern of the tokenizer is longer than 64 KB");
  std::string spelled = spellSpaces(source);
  int error = 0;
  PCRE2_SIZE offset = 0;
  Pattern pattern;
  pattern.compiled = std::make_shared<Compiled>();
  pcre2_compile_context *context = pcre2_compile_context_create(nullptr);
  pcre2_set_parens_nest_limit(context, 100);
  pattern.compiled->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelled.data()), spelled.size(),
                                         PCRE2_UTF | PCRE2_UCP | PCRE2_NO_START_OPTIMIZE | PCRE2_NEVER_BACKSLASH_C,
                                         &error, &offset, context);
  pcre2_compile_context_free(context);
  if (!pattern.compiled->code) {
    PCRE2_UCHAR message[256];
    pcre2_get_error_message(error, message, sizeof(message));
    throw UserError("the tokenizer's pattern " + quote(source) +
                    " cannot be compiled: " + reinterpret_cast<char *>(message));
  }
  return pattern;
}

Pattern Pattern::fromJson(const nlohmann::json &json) {
  if (json.is_object() && json.contains("String"))
    return literal(json["String"].get<std::string>());
  if (json.is_object() && json.contains("Regex"))
    return regex(json["Regex"].get<std::string>());
  throw UserError("a pattern is neither a String nor a Regex");
}

std::vector<Pattern::Range> Pattern::split(std::string_view subject) const {
  std::vector<Range> ranges;
  size_t done = 0;
  auto found = [&](size_t begin, size_t end) {
    if (begin > done)
      ranges.push_back({done, begin, false});
    ranges.push_back({begin, end, true});
    done = end;
  };
  if (!compiled) {
    for (size_t at = 0; !text.empty() && (at = subject.find(text, at)) != std::string_view::npos; at += text.size())
      found(at, at + text.size());
  } else {
    std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data *)> data(
        pcre2_match_data_create_from_pattern(compiled->code, nullptr), pcre2_match_data_free);
    std::unique_ptr<pcre2_match_context, void (*)(pcre2_match_context *)> context(pcre2_match_context_create(nullptr),
                                                                                  pcre2_match_context_free);
    // Each single match may look at the whole rest of the text once per alternative.
    uint64_t perMatch = std::min<uint64_t>(UINT32_MAX, uint64_t(subject.size()) * 64 + 1'000'000);
    pcre2_set_match_limit(context.get(), uint32_t(perMatch));
    PCRE2_SPTR start = reinterpret_cast<PCRE2_SPTR>(subject.data());
    for (size_t at = 0; at <= subject.size();) {
      int count = pcre2_match(compiled->code, start, subject.size(), at, PCRE2_NO_UTF_CHECK, data.get(), context.get());
      if (count == PCRE2_ERROR_NOMATCH)
        break;
      if (count < 0)
        throw UserError("the tokenizer's pattern takes too long on this text");
      PCRE2_SIZE *range = pcre2_get_ovector_pointer(data.get());
      size_t begin = range[0], end = range[1];
      if (begin < at || end < begin) // \K inside a lookaround can do that
        throw UserError("the tokenizer's pattern matches backwards");
      if (begin == end) { // an empty match separates nothing
        if (end >= subject.size())
          break;
        at = end + utf8Length(static_cast<unsigned char>(subject[end]));
        continue;
      }
      found(begin, end);
      at = end;
    }
  }
  if (done < subject.size())
    ranges.push_back({done, subject.size(), false});
  return ranges;
}

std::string Pattern::replace(std::string_view subject, std::string_view replacement) const {
  if (!compiled)
    return replaceAll(subject, text, replacement);
  std::string result;
  for (const Range &range : split(subject))
    result.append(range.match ? replacement : subject.substr(range.begin, range.end - range.begin));
  return result;
}

} // namespace quern::runtime
