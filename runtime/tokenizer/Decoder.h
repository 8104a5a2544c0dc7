// How token texts become text again: the `decoder` of tokenizer.json.
#ifndef QUERN_RUNTIME_TOKENIZER_DECODER_H
#define QUERN_RUNTIME_TOKENIZER_DECODER_H

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <string>
#include <vector>

namespace quern::runtime {

class Decoder {
public:
  virtual ~Decoder() = default;
  /// Texts that, joined, are the result; a chain passes them on.
  virtual std::vector<std::string> apply(std::vector<std::string> tokens) const = 0;
  /// null gives none (nullptr). Throws UserError for a type that is not known.
  static std::unique_ptr<Decoder> fromJson(const nlohmann::json &json);
};

} // namespace quern::runtime
#endif
