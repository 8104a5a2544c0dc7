// Takes: the list `added_tokens` of tokenizer.json. Gives: a table of them.
#include "runtime/tokenizer/AddedTokens.h"

#include "runtime/Error.h"

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
