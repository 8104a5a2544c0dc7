// Takes: a text. Gives: the added tokens in it and the stretches between.
#include "runtime/tokenizer/AddedTokens.h"
#include "runtime/tokenizer/text/Unicode.h"

namespace quern::runtime {

namespace {

size_t charBefore(std::string_view text, size_t at) {
  do
    --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
  return at;
}

} // namespace

std::vector<AddedTokens::Part> AddedTokens::split(std::string_view text, bool normalizedText) const {
  std::vector<Part> parts;
  const ByteTrie &trie = tries[normalizedText];
  size_t done = 0;
  const auto &begins = firsts[normalizedText];
  for (size_t at = begins.any() ? 0 : text.size(); at < text.size();) {
    if (!begins[static_cast<uint8_t>(text[at])]) {
      ++at;
      continue;
    }
    const auto [id, length] = trie.longest(text.substr(at));
    size_t end = at + length;
    if (id < 0) {
      ++at;
      continue;
    }
    size_t begin = at;
    at = end;
    const AddedToken &token = tokens.at(id);
    if (token.singleWord) {
      size_t after = end;
      bool wordBefore = begin > 0 && [&] {
        size_t before = charBefore(text, begin);
        return isWordCharacter(nextChar(text, before));
      }();
      bool wordAfter = end < text.size() && isWordCharacter(nextChar(text, after));
      if (wordBefore || wordAfter)
        continue;
    }
    while (token.stripLeft && begin > done) {
      size_t before = charBefore(text, begin), next = before;
      if (!isWhiteSpace(nextChar(text, next)))
        break;
      begin = std::max(before, done);
    }
    while (token.stripRight && end < text.size()) {
      size_t next = end;
      if (!isWhiteSpace(nextChar(text, next)))
        break;
      end = next;
    }
    if (begin > done)
      parts.push_back({text.substr(done, begin - done), -1});
    parts.push_back({text.substr(begin, end - begin), id});
    done = at = end;
  }
  if (done < text.size())
    parts.push_back({text.substr(done), -1});
  return parts;
}

} // namespace quern::runtime
