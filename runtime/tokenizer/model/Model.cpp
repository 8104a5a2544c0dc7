// Takes: the `model` object of tokenizer.json. Gives: the model of its type, and what all of them share.
#include "runtime/tokenizer/model/Model.h"

#include "runtime/Error.h"
#include "runtime/tokenizer/text/ByteChars.h"

#include <nlohmann/json.hpp>

namespace quern::runtime {

using Json = nlohmann::json;

namespace {

constexpr int64_t maxId = 1 << 24; // far beyond any vocabulary; bounds what a hostile number may allocate

/// Whole words only: what tiny test tokenizers use.
class WordLevel : public TokenModel {
public:
  explicit WordLevel(const Json &json) {
    words = Vocabulary::fromJson(json.at("vocab"));
    unknown = words.find(json.value("unk_token", "[UNK]"));
  }
  void encode(std::string_view word, std::vector<int> &ids) const override {
    int id = words.find(word);
    if (id < 0)
      id = unknown;
    if (id < 0)
      throw UserError("the tokenizer has no token for " + quote(word) + " and none for unknown words");
    ids.push_back(id);
  }

private:
  int unknown;
};

} // namespace

Vocabulary Vocabulary::fromJson(const Json &json) {
  if (!json.is_object())
    throw UserError("the vocabulary is no object");
  Vocabulary result;
  for (const auto &[text, number] : json.items()) {
    if (!number.is_number_integer() || number.get<int64_t>() < 0 || number.get<int64_t>() > maxId)
      throw UserError("the token " + quote(text) + " has a bad number");
    result.add(text, int(number.get<int64_t>()));
  }
  return result;
}

namespace {
uint32_t hashOf(std::string_view text) {
  return uint32_t(std::hash<std::string_view>()(text));
}
} // namespace

/// Where the text is, or else would be.
size_t Vocabulary::place(std::string_view text, uint32_t hash) const {
  size_t at = hash & (table.size() - 1);
  while (table[at].entry >= 0 && (table[at].hash != hash || entries[size_t(table[at].entry)].text != text))
    at = (at + 1) & (table.size() - 1);
  return at;
}

void Vocabulary::add(std::string text, int id) {
  if (id < 0 || id > maxId)
    throw UserError("the token " + quote(text) + " has a bad number");
  longestBytes = std::max(longestBytes, text.size());
  const uint32_t hash = hashOf(text);
  Slot &slot = table[place(text, hash)];
  if (slot.entry < 0) {
    slot = {hash, int(entries.size())};
    entries.push_back({std::move(text), id});
  }
  entries[size_t(slot.entry)].id = id;
  if (size_t(id) >= entryOf.size())
    entryOf.resize(size_t(id) + 1, -1);
  entryOf[size_t(id)] = slot.entry;
  if (entries.size() * 2 < table.size())
    return;
  std::vector<Slot> old(table.size() * 2);
  old.swap(table);
  for (const Slot &known : old) {
    if (known.entry < 0)
      continue;
    size_t at = known.hash & (table.size() - 1);
    while (table[at].entry >= 0)
      at = (at + 1) & (table.size() - 1);
    table[at] = known;
  }
}

int Vocabulary::find(std::string_view text) const {
  const int entry = table[place(text, hashOf(text))].entry;
  return entry < 0 ? -1 : entries[size_t(entry)].id;
}

const std::string *Vocabulary::text(int id) const {
  return id < 0 || size_t(id) >= entryOf.size() || entryOf[size_t(id)] < 0 ? nullptr
                                                                           : &entries[size_t(entryOf[size_t(id)])].text;
}

void TokenModel::encodeBytes(std::string_view bytes, std::vector<int> &ids) const {
  encode(toByteChars(bytes), ids);
}

std::vector<int> byteTokens(const Vocabulary &vocabulary) {
  std::vector<int> ids(256);
  for (int byte = 0; byte < 256; ++byte)
    ids[size_t(byte)] = vocabulary.find(format("<0x%02X>", unsigned(byte)));
  return ids;
}

std::unique_ptr<TokenModel> TokenModel::fromJson(const Json &json) {
  std::string type;
  if (json.contains("type") && json["type"].is_string())
    type = json["type"].get<std::string>();
  else // old files leave it to the fields
    type = json.contains("merges")                              ? "BPE"
           : json.contains("vocab") && json["vocab"].is_array() ? "Unigram"
                                                                : "WordPiece";
  if (type == "BPE")
    return makeBpe(json);
  if (type == "WordPiece")
    return makeWordPiece(json);
  if (type == "Unigram")
    return makeUnigram(json);
  if (type == "WordLevel")
    return std::make_unique<WordLevel>(json);
  throw UserError("the model type " + quote(type) + " is not known");
}

} // namespace quern::runtime
