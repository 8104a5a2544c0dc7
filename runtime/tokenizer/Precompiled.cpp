// Takes: SentencePiece's precompiled character map. Gives: a normalizer.
//
// The blob: the byte length of a double array (uint32), the array (darts-clone units), then zero-terminated replacement
// texts; the array's values are offsets into them. Clusters of up to five bytes are looked up whole, and the *shortest*
// entry that begins the cluster replaces all of it; that is what the reference library does, and the goldens hold it to
// it.
#include "runtime/Error.h"
#include "runtime/tokenizer/Normalizer.h"
#include "runtime/tokenizer/text/Unicode.h"

#include <cstring>
#include <optional>
#include <vector>

namespace quern::runtime {

namespace {

std::string decodeBase64(const std::string &text) {
  std::string result;
  uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                : c >= 'a' && c <= 'z' ? c - 'a' + 26
                : c >= '0' && c <= '9' ? c - '0' + 52
                : c == '+'             ? 62
                : c == '/'             ? 63
                                       : -1;
    if (c == '=')
      break;
    if (value < 0)
      throw UserError("the precompiled map is no base64");
    bits = bits << 6 | uint32_t(value);
    if ((count += 6) >= 8)
      result += char(bits >> (count -= 8) & 0xff);
  }
  return result;
}

class PrecompiledNormalizer : public Normalizer {
public:
  explicit PrecompiledNormalizer(const std::string &blob) {
    uint32_t bytes = 0;
    if (blob.size() >= 4)
      std::memcpy(&bytes, blob.data(), 4);
    if (blob.size() < 4 || bytes > blob.size() - 4 || bytes % 4 != 0 || bytes == 0)
      throw UserError("the precompiled map is damaged");
    units.resize(bytes / 4);
    std::memcpy(units.data(), blob.data() + 4, bytes);
    texts = blob.substr(4 + bytes);
    if (!isValidUtf8(texts))
      throw UserError("the precompiled map is damaged: its texts are no UTF-8");
  }

  std::string step(std::string text, size_t) const override {
    std::string result;
    result.reserve(text.size());
    size_t begin = 0;
    for (size_t end : graphemeEnds(text)) {
      std::string_view cluster = std::string_view(text).substr(begin, end - begin);
      begin = end;
      if (cluster.size() < 6) {
        if (std::optional<std::string_view> replacement = lookUp(cluster)) {
          result += *replacement;
          continue;
        }
      }
      for (size_t at = 0; at < cluster.size();) {
        size_t length = utf8Length(static_cast<unsigned char>(cluster[at]));
        std::string_view character = cluster.substr(at, length);
        std::optional<std::string_view> replacement = lookUp(character);
        result += replacement ? *replacement : character;
        at += length;
      }
    }
    return result;
  }

private:
  std::vector<uint32_t> units;
  std::string texts;

  static uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }

  std::optional<std::string_view> lookUp(std::string_view key) const {
    size_t node = offset(units[0]);
    for (char c : key) {
      uint8_t byte = static_cast<uint8_t>(c);
      if (byte == 0)
        break;
      node ^= byte;
      if (node >= units.size() || (units[node] & (1u << 31 | 0xff)) != byte)
        return std::nullopt;
      bool leaf = units[node] >> 8 & 1;
      node ^= offset(units[node]);
      if (node >= units.size())
        return std::nullopt;
      if (leaf) {
        size_t begin = units[node] & 0x7fffffff;
        if (begin >= texts.size() ||
            (static_cast<unsigned char>(texts[begin]) & 0xc0) == 0x80) // never half a character
          return std::nullopt;
        return std::string_view(texts).substr(begin, texts.find('\0', begin) - begin);
      }
    }
    return std::nullopt;
  }
};

} // namespace

std::unique_ptr<Normalizer> makePrecompiledNormalizer(const std::string &base64) {
  return std::make_unique<PrecompiledNormalizer>(decodeBase64(base64));
}

} // namespace quern::runtime
