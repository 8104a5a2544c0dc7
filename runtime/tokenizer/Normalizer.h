// What happens to text before it is split: the `normalizer` of tokenizer.json.
#ifndef QUERN_RUNTIME_TOKENIZER_NORMALIZER_H
#define QUERN_RUNTIME_TOKENIZER_NORMALIZER_H

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <string>

namespace quern::runtime {

/// Valid UTF-8 to valid UTF-8.
class Normalizer {
public:
  virtual ~Normalizer() = default;
  std::string apply(std::string text) const;
  /// A step of a chain: throws UserError where a replacement makes more than `limit` bytes of the text.
  virtual std::string step(std::string text, size_t limit) const = 0;
  /// null gives none (nullptr). Throws UserError for a type that is not known.
  static std::unique_ptr<Normalizer> fromJson(const nlohmann::json &json);
};

/// SentencePiece's precompiled map (nmt_nfkc and others): base64 of a double array and of the texts that it leads to.
std::unique_ptr<Normalizer> makePrecompiledNormalizer(const std::string &base64);
/// A whole normalizer_spec (files/SentencePiece.cpp): {"map": base64 or "", "prefix", "suffix", "squeeze", "escape",
/// "user_defined"}.
std::unique_ptr<Normalizer> makeSentencePieceNormalizer(const nlohmann::json &json);

} // namespace quern::runtime
#endif
