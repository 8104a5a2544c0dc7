// Takes: text. Gives: its words, as a handful of patterns cut them.
// Why by hand: PCRE2 without its just-in-time compiler needs 100 ns for a byte, this needs 5. That both agree is tested on
// texts of all kinds (tests/runtime/tokenizer/TokenizerTest.cpp).
#include "runtime/tokenizer/text/WordScanner.h"

#include "runtime/tokenizer/text/Traits.h"

#include <cstring>

namespace quern::runtime {

namespace {

constexpr WordScanner::Rules gpt2{true, false, false, false, false, 0, "", false},
    llama3{true, false, true, true, false, 3, "\r\n", true}, qwen2{true, false, true, true, false, 1, "\r\n", true},
    qwen35{true, false, true, true, false, 1, "\r\n", true, true},
    o200k{false, true, true, true, true, 3, "\r\n/", true}, tekken{false, false, true, true, true, 1, "\r\n/", true};

constexpr uint8_t letter = Upper | Lower;

/// The end of the run of characters of these kinds.
size_t run(std::string_view text, size_t at, uint8_t kinds) {
  for (size_t behind = at; at < text.size(); at = behind)
    if (!(nextTraits(text, behind) & kinds))
      break;
  return at;
}
/// Of characters that are no letter, number or white space, nor one of `others`.
size_t signs(std::string_view text, size_t at, uint8_t others) {
  for (size_t behind = at; at < text.size(); at = behind)
    if (nextTraits(text, behind) & (letter | Number | Space | others))
      break;
  return at;
}

/// The end of one of 's 't 're 've 'm 'll 'd, else `at`. The long s is an s in any case.
size_t contraction(std::string_view text, size_t at, bool anyCase) {
  if (at >= text.size() || text[at] != '\'')
    return at;
  const auto letterAt = [&](size_t i) {
    const char c = i < text.size() ? text[i] : '\0';
    return anyCase && c >= 'A' && c <= 'Z' ? char(c + 32) : c;
  };
  const char first = letterAt(at + 1), second = first ? letterAt(at + 2) : '\0';
  if (first && std::strchr("stmd", first))
    return at + 2;
  if ((second == 'e' && (first == 'r' || first == 'v')) || (first == 'l' && second == 'l'))
    return at + 3;
  return anyCase && text.substr(at + 1).starts_with("\xc5\xbf") ? at + 3 : at;
}

/// The end of [Lu Lt Lm Lo M]*[Ll Lm Lo M]+, or `at`.
size_t smallWord(std::string_view text, size_t at) {
  size_t behind = at, whole = at; // `whole`: behind the last character of the first class that is in the second, too
  for (size_t here = at; here < text.size(); here = behind) {
    const uint8_t kind = nextTraits(text, behind);
    if (!(kind & (Upper | Mark))) {
      behind = here;
      break;
    }
    if (kind & (Lower | Mark))
      whole = behind;
  }
  const size_t end = run(text, behind, Lower | Mark);
  return end > behind ? end : whole;
}

} // namespace

std::optional<WordScanner> WordScanner::of(std::string_view pattern) {
  const std::pair<const char *, const Rules *> known[] = {{gpt2Words, &gpt2},   {llama3Words, &llama3},
                                                          {qwen2Words, &qwen2}, {qwen35Words, &qwen35},
                                                          {o200kWords, &o200k}, {tekkenWords, &tekken}};
  for (const auto &[words, rules] : known)
    if (pattern == words)
      return WordScanner(*rules);
  return std::nullopt;
}

/// The end of a word of letters that begins here, perhaps behind a sign; `at` where none does.
size_t WordScanner::letters(std::string_view text, size_t at) const {
  size_t behind = at;
  const uint8_t first = nextTraits(text, behind);
  const bool prefix = rules->anyPrefix ? !(first & (letter | Number | Line)) : text[at] == ' ';
  const auto word = [&](auto find) { // first with the sign, then without
    const size_t end = prefix ? find(behind) : behind;
    return end > behind ? end : find(at);
  };
  if (!rules->cased)
    return word([&](size_t from) { return run(text, from, rules->marks ? letter | Mark : letter); });
  size_t end = word([&](size_t from) { return smallWord(text, from); });
  if (end == at)
    end = word([&](size_t from) { return run(text, from, Upper | Mark); });
  return end > at && rules->trailingContractions ? contraction(text, end, rules->anyCase) : end;
}

size_t WordScanner::end(std::string_view text, size_t at) const {
  if (rules->leadingContractions)
    if (const size_t end = contraction(text, at, rules->anyCase); end > at)
      return end;
  if (const size_t end = letters(text, at); end > at)
    return end;
  size_t behind = at;
  const uint8_t first = nextTraits(text, behind);
  if (rules->digits == 0) {
    const size_t from = text[at] == ' ' ? behind : at, end = run(text, from, Number);
    if (end > from)
      return end;
  } else if (first & Number) {
    for (int count = 1; count < rules->digits && behind < text.size(); ++count) {
      size_t further = behind;
      if (!(nextTraits(text, further) & Number))
        break;
      behind = further;
    }
    return behind;
  }
  const size_t from = text[at] == ' ' ? behind : at;
  if (size_t end = signs(text, from, rules->marks ? Mark : 0); end > from) {
    while (end < text.size() && text[end] != '\0' && std::strchr(rules->tail, text[end]))
      ++end;
    return end;
  }
  // White space: up to its last line end, else all of it at the end of the text, else all but the last.
  size_t last = at, line = at, end = at;
  for (size_t here = at; here < text.size(); here = end) {
    size_t further = here;
    const uint8_t kind = nextTraits(text, further);
    if (!(kind & Space))
      break;
    last = here;
    end = further;
    if (kind & Line)
      line = end;
  }
  if (rules->lines && line > at)
    return line;
  return end == text.size() || last == at ? end : last;
}

} // namespace quern::runtime
