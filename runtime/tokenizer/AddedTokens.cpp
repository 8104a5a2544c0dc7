// Takes: a text. Gives: the added tokens in it and the stretches between.
#include "runtime/tokenizer/AddedTokens.h"

#include "runtime/Error.h"
#include "runtime/tokenizer/text/Unicode.h"

#include <nlohmann/json.hpp>

#include <set>

namespace quern::runtime {

void AddedTokens::read(const nlohmann::json &list, const Normalizer *normalizer) {
  std::set<std::string> contents; // of special tokens
  for (const nlohmann::json &entry : list) {
    AddedToken token;
    int64_t id = entry.at("id").get<int64_t>();
    if (id < 0 || id > 1 << 24)
      throw UserError("an added token has a bad number");
    token.id = int(id);
    token.content = entry.at("content").get<std::string>();
    token.singleWord = entry.value("single_word", false);
    token.stripLeft = entry.value("lstrip", false);
    token.stripRight = entry.value("rstrip", false);
    bool special = entry.value("special", false);
    token.normalized = entry.value("normalized", !special);
    if (special)
      contents.insert(token.content);
    if (token.content.empty())
      continue;
    token.text = token.normalized && normalizer ? normalizer->apply(token.content) : token.content;
    if (!token.text.empty()) {
      tries[token.normalized].insert(token.text, token.id);
      firsts[token.normalized].set(static_cast<uint8_t>(token.text[0]));
    }
    tokens[token.id] = std::move(token);
  }
  for (auto &[id, token] : tokens)
    token.special = contents.count(token.text);
}

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

const AddedToken *AddedTokens::find(int id) const {
  auto found = tokens.find(id);
  return found == tokens.end() ? nullptr : &found->second;
}

const AddedToken *AddedTokens::find(std::string_view content) const {
  for (const auto &[id, token] : tokens)
    if (token.content == content)
      return &token;
  return nullptr;
}

} // namespace quern::runtime
