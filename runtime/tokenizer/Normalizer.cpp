// Takes: the `normalizer` object of tokenizer.json. Gives: a chain of text transformations.
// What each type means follows the `tokenizers` library; where its documentation is silent, its goldens decide
// (tests/data/tokenizers).
#include "runtime/tokenizer/Normalizer.h"

#include "runtime/Error.h"
#include "runtime/tokenizer/text/ByteChars.h"
#include "runtime/tokenizer/text/Pattern.h"
#include "runtime/tokenizer/text/Unicode.h"

#include <nlohmann/json.hpp>

#include <functional>
#include <vector>

namespace quern::runtime {

namespace {

using Json = nlohmann::json;
using Chars = std::vector<char32_t>;

class FunctionNormalizer : public Normalizer {
public:
  using Function = std::function<std::string(std::string, size_t limit)>;
  explicit FunctionNormalizer(Function function) : function(std::move(function)) {}
  std::string step(std::string text, size_t limit) const override { return function(std::move(text), limit); }

private:
  Function function;
};

template <typename Function> std::unique_ptr<Normalizer> onText(Function function) {
  return std::make_unique<FunctionNormalizer>(
      [function](std::string text, size_t) { return function(std::move(text)); });
}
template <typename Function> std::unique_ptr<Normalizer> onChars(Function function) {
  return onText([function](std::string text) { return toUtf8(function(toChars(text))); });
}

class Sequence : public Normalizer {
public:
  std::vector<std::unique_ptr<Normalizer>> parts;
  std::string step(std::string text, size_t limit) const override {
    for (const std::unique_ptr<Normalizer> &part : parts)
      text = part->step(std::move(text), limit);
    return text;
  }
};

Chars removeIf(const Chars &chars, bool (*drop)(char32_t)) {
  Chars result;
  for (char32_t c : chars)
    if (!drop(c))
      result.push_back(c);
  return result;
}

Chars lower(const Chars &chars) {
  Chars result;
  result.reserve(chars.size());
  for (char32_t c : chars)
    appendLower(result, c);
  return result;
}

bool isChinese(char32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
         (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

/// BERT's: controls dropped, any white space a space, spaces around CJK ideographs, accents off, lower case.
Chars bert(const Chars &chars, bool clean, bool chinese, bool strip, bool lowercase) {
  Chars result;
  result.reserve(chars.size());
  for (char32_t c : chars) {
    if (clean) {
      bool plain = c == '\t' || c == '\n' || c == '\r';
      if (c == 0 || c == 0xfffd || (!plain && isBertControl(c)))
        continue;
      if (isWhiteSpace(c))
        c = ' ';
    }
    if (chinese && isChinese(c)) {
      result.insert(result.end(), {U' ', c, U' '});
    } else {
      result.push_back(c);
    }
  }
  if (strip)
    result = removeIf(decompose(result, false), isBertAccent);
  return lowercase ? lower(result) : result;
}

/// SentencePiece's "nmt" cleaning: controls dropped, exotic spaces plain.
Chars nmt(const Chars &chars) {
  Chars result;
  for (char32_t c : chars) {
    if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f)
      continue;
    bool space = c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
                 c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
    result.push_back(space ? U' ' : c);
  }
  return result;
}

std::string strip(std::string_view text, bool left, bool right) {
  size_t begin = 0, end = text.size();
  while (left && begin < end) {
    size_t at = begin;
    if (!isWhiteSpace(nextChar(text, at)))
      break;
    begin = at;
  }
  while (right && end > begin) {
    size_t at = end - 1;
    while (at > begin && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80)
      --at;
    size_t after = at;
    if (!isWhiteSpace(nextChar(text, after)))
      break;
    end = at;
  }
  return std::string(text.substr(begin, end - begin));
}

} // namespace

std::string Normalizer::apply(std::string text) const {
  size_t limit = Pattern::limitFor(text.size());
  return step(std::move(text), limit);
}

std::unique_ptr<Normalizer> Normalizer::fromJson(const Json &json) {
  if (json.is_null())
    return nullptr;
  std::string type = json.at("type").get<std::string>();
  if (type == "Sequence") {
    auto sequence = std::make_unique<Sequence>();
    for (const Json &part : json.at("normalizers"))
      if (std::unique_ptr<Normalizer> made = fromJson(part))
        sequence->parts.push_back(std::move(made));
    return sequence;
  }
  if (type == "BertNormalizer") {
    bool clean = json.value("clean_text", true), chinese = json.value("handle_chinese_chars", true),
         lowercase = json.value("lowercase", true);
    bool stripAccents = json.contains("strip_accents") && json["strip_accents"].is_boolean()
                            ? json["strip_accents"].get<bool>()
                            : lowercase;
    return onChars([=](const Chars &chars) { return bert(chars, clean, chinese, stripAccents, lowercase); });
  }
  if (type == "Prepend") {
    std::string prefix = json.at("prepend").get<std::string>();
    return onText([prefix](std::string text) { return text.empty() ? text : prefix + text; });
  }
  if (type == "Replace") {
    Pattern pattern = Pattern::fromJson(json.at("pattern"));
    std::string content = json.at("content").get<std::string>();
    return std::make_unique<FunctionNormalizer>(
        [pattern, content](const std::string &text, size_t limit) { return pattern.replace(text, content, limit); });
  }
  if (type == "Strip" || type == "StripNormalizer") {
    bool left = json.value("strip_left", true), right = json.value("strip_right", true);
    return onText([=](std::string text) { return strip(text, left, right); });
  }
  if (type == "NFD")
    return onChars([](const Chars &chars) { return decompose(chars, false); });
  if (type == "NFKD")
    return onChars([](const Chars &chars) { return decompose(chars, true); });
  if (type == "NFC")
    return onText([](std::string text) { return composed(std::move(text)); });
  if (type == "NFKC")
    return onChars([](const Chars &chars) { return compose(decompose(chars, true)); });
  if (type == "Lowercase")
    return onChars([](const Chars &chars) { return lower(chars); });
  if (type == "StripAccents")
    return onChars([](const Chars &chars) { return removeIf(chars, isCombiningMark); });
  if (type == "Nmt")
    return onChars([](const Chars &chars) { return nmt(chars); });
  if (type == "ByteLevel")
    return onText([](std::string text) { return toByteChars(text); });
  if (type == "Precompiled")
    return makePrecompiledNormalizer(json.at("precompiled_charsmap").get<std::string>());
  if (type == "SentencePiece") // no type of the library's
    return makeSentencePieceNormalizer(json);
  throw UserError("the normalizer type " + quote(type) + " is not known");
}

} // namespace quern::runtime
