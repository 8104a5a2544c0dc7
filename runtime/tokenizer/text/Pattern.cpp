// Takes: a pattern and a text. Gives: the matches.
//
// The library that defines these files uses Oniguruma; Dialect.cpp says it in PCRE2's words. Start optimisations are
// off: they rescan the text from every position. The match limit grows with the text: enough for any single pass, far too
// little for catastrophic backtracking.
#include "runtime/tokenizer/text/Pattern.h"

#include "runtime/Error.h"
#include "runtime/tokenizer/text/Dialect.h"
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

Pattern Pattern::literal(std::string text) {
  Pattern pattern;
  pattern.text = std::move(text);
  return pattern;
}

Pattern Pattern::regex(const std::string &source) {
  leaveOutJit();
  if (source.size() > 1 << 16)
    throw UserError("a pattern of the tokenizer is longer than 64 KB");
  std::string spelled = translateRegex(source);
  int error = 0;
  PCRE2_SIZE offset = 0;
  Pattern pattern;
  pattern.compiled = std::make_shared<Compiled>();
  pcre2_compile_context *context = pcre2_compile_context_create(nullptr);
  pcre2_set_parens_nest_limit(context, 100);
  pattern.compiled->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelled.data()), spelled.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_START_OPTIMIZE | PCRE2_NEVER_BACKSLASH_C, &error,
                    &offset, context);
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
    // An empty text is between all characters, and at both ends.
    for (size_t at = 0; at <= subject.size() && (at = subject.find(text, at)) != std::string_view::npos;) {
      found(at, at + text.size());
      at += !text.empty() || at == subject.size() ? std::max<size_t>(1, text.size())
                                                  : utf8Length(static_cast<unsigned char>(subject[at]));
    }
  } else {
    std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data *)> data(
        pcre2_match_data_create_from_pattern(compiled->code, nullptr), pcre2_match_data_free);
    std::unique_ptr<pcre2_match_context, void (*)(pcre2_match_context *)> context(pcre2_match_context_create(nullptr),
                                                                                  pcre2_match_context_free);
    // Each single match may look at the whole rest of the text once per alternative.
    uint64_t perMatch = std::min<uint64_t>(UINT32_MAX, uint64_t(subject.size()) * 64 + 1'000'000);
    pcre2_set_match_limit(context.get(), uint32_t(perMatch));
    PCRE2_SPTR start = reinterpret_cast<PCRE2_SPTR>(subject.data());
    size_t last = std::string_view::npos; // where the match before ended
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
      if (begin == end && end == last) { // it only says again where the match before ended
        if (end >= subject.size())
          break;
        at = end + utf8Length(static_cast<unsigned char>(subject[end]));
        continue;
      }
      found(begin, end);
      at = last = end;
    }
  }
  if (done < subject.size())
    ranges.push_back({done, subject.size(), false});
  return ranges;
}

std::string Pattern::replace(std::string_view subject, std::string_view replacement, size_t limit) const {
  std::string result;
  for (const Range &range : split(subject)) {
    result.append(range.match ? replacement : subject.substr(range.begin, range.end - range.begin));
    if (result.size() > limit)
      throw UserError("the tokenizer's replacements make a text more than " + std::to_string(growth) +
                      " times as long");
  }
  return result;
}

} // namespace quern::runtime
