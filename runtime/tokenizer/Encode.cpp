// Takes: a text. Gives: its tokens.
//
// The order of steps is the library's: added tokens are cut out of the raw text, each stretch between is normalized,
// then the added tokens with `normalized` are cut out of that, then comes splitting into words, then the model, then
// the template. Nothing is kept from one step to the next but the word in hand.
#include "runtime/tokenizer/Tokenizer.h"
#include "runtime/tokenizer/model/WordCache.h"
#include "runtime/tokenizer/text/Unicode.h"

#include <algorithm>

namespace quern::runtime {

std::vector<int> Tokenizer::encode(std::string_view raw, bool withSpecial) const {
  return encode(raw, withSpecial, SIZE_MAX);
}

std::vector<int> Tokenizer::encode(std::string_view raw, bool withSpecial, size_t longest) const {
  std::string repaired;
  if (!isValidUtf8(raw))
    repaired = repairUtf8(raw);
  const std::string_view text = repaired.empty() ? raw : repaired;
  std::vector<int> ids;
  ids.reserve(text.size() / 4);
  const WordCaches::Lent lent(*known);
  WordCache &cache = *lent;
  const auto look = [&](std::string_view text) { bytes ? model->encodeBytes(text, ids) : model->encode(text, ids); };
  const auto word = [&](const Piece &piece) {
    uint64_t hash;
    if (piece.text.empty() || piece.text.size() > WordCache::longest) {
      look(piece.text);
    } else if (!cache.find(piece.text, ids, hash)) {
      const size_t from = ids.size();
      look(piece.text);
      cache.add(piece.text, hash, ids, from);
    }
  };
  for (const AddedTokens::Part &outer : added.split(text, false)) {
    if (outer.id >= 0) {
      ids.push_back(outer.id);
      continue;
    }
    const bool atStart = outer.text.data() == text.data();
    std::string changed;
    if (normalizer)
      changed = normalizer->apply(std::string(outer.text));
    const std::string_view normalized = normalizer ? changed : outer.text;
    for (const AddedTokens::Part &part : added.split(normalized, true)) {
      if (part.id >= 0)
        ids.push_back(part.id);
      else if (const Piece piece{part.text, atStart && part.text.data() == normalized.data()}; preTokenizer)
        preTokenizer->apply(piece, word);
      else
        word(piece);
    }
  }
  size_t around = withSpecial ? pattern.size() - size_t(std::count(pattern.begin(), pattern.end(), -1)) : 0;
  size_t room = longest > around ? longest - around : 0;
  if (ids.size() > room)
    cutLeft ? void(ids.erase(ids.begin(), ids.end() - std::ptrdiff_t(room))) : ids.resize(room);
  if (!withSpecial)
    return ids;
  std::vector<int> result;
  result.reserve(ids.size() + around);
  for (int id : pattern) {
    if (id < 0)
      result.insert(result.end(), ids.begin(), ids.end());
    else
      result.push_back(id);
  }
  return result;
}

} // namespace quern::runtime
