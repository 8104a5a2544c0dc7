// Takes: SentencePiece's precompiled character map. Gives: a normalizer.
//
// The blob: the byte length of a double array (uint32), the array (darts-clone units), then zero-terminated replacement
// texts; the array's values are offsets into them. `tokenizers` looks clusters of up to five bytes up whole, and the
// *shortest* entry that begins the cluster replaces all of it; SentencePiece takes the longest entry at each place. The
// goldens hold either to it.
#include "runtime/Error.h"
#include "runtime/tokenizer/Normalizer.h"
#include "runtime/tokenizer/text/Base64.h"
#include "runtime/tokenizer/text/ByteTrie.h"
#include "runtime/tokenizer/text/Unicode.h"

#include <nlohmann/json.hpp>

#include <cstring>
#include <optional>
#include <vector>

namespace quern::runtime {

namespace {

/// The map itself.
class CharacterMap {
public:
  explicit CharacterMap(const std::string &base64) {
    const std::optional<std::string> blob = decodeBase64(base64);
    if (!blob)
      throw UserError("the precompiled map is no base64");
    uint32_t bytes = 0;
    if (blob->size() >= 4)
      std::memcpy(&bytes, blob->data(), 4);
    if (blob->size() < 4 || bytes > blob->size() - 4 || bytes % 4 != 0 || bytes == 0)
      throw UserError("the precompiled map is damaged");
    units.resize(bytes / 4);
    std::memcpy(units.data(), blob->data() + 4, bytes);
    texts = blob->substr(4 + bytes);
    if (!isValidUtf8(texts))
      throw UserError("the precompiled map is damaged: its texts are no UTF-8");
  }

  /// What replaces the shortest entry that begins `key`.
  std::optional<std::string_view> shortest(std::string_view key) const {
    std::optional<std::string_view> found;
    walk(key, [&](size_t, std::string_view text) { return !(found = text); });
    return found;
  }
  /// How many bytes the longest entry that begins `key` has, and what replaces it; 0 where there is none.
  std::pair<size_t, std::string_view> longest(std::string_view key) const {
    std::pair<size_t, std::string_view> found{0, {}};
    walk(key, [&](size_t length, std::string_view text) {
      if (length == key.size() || !isUtf8Tail(key[length])) // never half a character
        found = {length, text};
      return true;
    });
    return found;
  }

private:
  std::vector<uint32_t> units;
  std::string texts;

  static uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }

  /// Calls `entry` for each entry that begins `key`, the shortest first, while it says true.
  template <typename Entry> void walk(std::string_view key, Entry entry) const {
    size_t node = offset(units[0]);
    for (size_t i = 0; i < key.size() && key[i] != 0; ++i) {
      const auto byte = static_cast<uint8_t>(key[i]);
      node ^= byte;
      if (node >= units.size() || (units[node] & (1u << 31 | 0xff)) != byte)
        return;
      const bool leaf = units[node] >> 8 & 1;
      node ^= offset(units[node]);
      if (node >= units.size())
        return;
      if (!leaf)
        continue;
      const size_t begin = units[node] & 0x7fffffff;
      if (begin >= texts.size() || isUtf8Tail(texts[begin])) // never half a character
        return;
      if (!entry(i + 1, std::string_view(texts).substr(begin, texts.find('\0', begin) - begin)))
        return;
    }
  }
};

class PrecompiledNormalizer : public Normalizer {
public:
  explicit PrecompiledNormalizer(const std::string &base64) : map(base64) {}

  std::string step(std::string text, size_t) const override {
    std::string result;
    result.reserve(text.size());
    size_t begin = 0;
    for (size_t end : graphemeEnds(text)) {
      std::string_view cluster = std::string_view(text).substr(begin, end - begin);
      begin = end;
      if (cluster.size() < 6) {
        if (std::optional<std::string_view> replacement = map.shortest(cluster)) {
          result += *replacement;
          continue;
        }
      }
      for (size_t at = 0; at < cluster.size();) {
        size_t length = utf8Length(static_cast<unsigned char>(cluster[at]));
        std::string_view character = cluster.substr(at, length);
        std::optional<std::string_view> replacement = map.shortest(character);
        result += replacement ? *replacement : character;
        at += length;
      }
    }
    return result;
  }

private:
  CharacterMap map;
};

/// What SentencePiece itself does with a text: the longest entry of the map wins, and a space that begins the text stands
/// for the begin of a word.
class SentencePieceNormalizer : public Normalizer {
public:
  explicit SentencePieceNormalizer(const nlohmann::json &json)
      : prefix(json.at("prefix")), suffix(json.at("suffix")), squeeze(json.at("squeeze")),
        space(json.at("escape").get<bool>() ? "\xe2\x96\x81" : " ") {
    if (const std::string base64 = json.at("map").get<std::string>(); !base64.empty())
      map.emplace(base64);
    for (const nlohmann::json &piece : json.at("user_defined"))
      if (const auto text = piece.get<std::string>(); !text.empty())
        whole.insert(text, 0);
  }

  std::string step(std::string text, size_t limit) const override {
    if (text.empty())
      return text;
    std::string result = prefix ? space : "";
    bool behindSpace = squeeze;
    for (size_t at = 0; at < text.size();) {
      const std::string_view rest = std::string_view(text).substr(at);
      std::pair<size_t, std::string_view> found{whole.longest(rest).second, rest};
      if (found.first > 0)
        found.second = rest.substr(0, found.first);
      else if (map)
        found = map->longest(rest);
      if (found.first == 0) {
        found.first = std::min(rest.size(), utf8Length(static_cast<unsigned char>(rest[0])));
        found.second = rest.substr(0, found.first);
      }
      at += found.first;
      for (char c : found.second) {
        if (c != ' ')
          result += c;
        else if (!behindSpace)
          result += space;
        behindSpace = squeeze && c == ' ';
      }
      if (result.size() > limit)
        throw UserError("the tokenizer's character map makes a text too long");
    }
    while (squeeze && result.ends_with(space))
      result.resize(result.size() - space.size());
    return suffix ? result + space : result;
  }

private:
  bool prefix, suffix, squeeze;
  std::string space;
  std::optional<CharacterMap> map;
  ByteTrie whole; // user-defined pieces stay as they are
};

} // namespace

std::unique_ptr<Normalizer> makePrecompiledNormalizer(const std::string &base64) {
  return std::make_unique<PrecompiledNormalizer>(base64);
}

std::unique_ptr<Normalizer> makeSentencePieceNormalizer(const nlohmann::json &json) {
  return std::make_unique<SentencePieceNormalizer>(json);
}

} // namespace quern::runtime
