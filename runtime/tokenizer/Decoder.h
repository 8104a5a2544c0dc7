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
  /// Whether the text of tokens stays what it is when more follow, but for a character that is cut. Only then can it be
  /// shown while it grows.
  virtual bool streams() const { return true; }
  /// Whether what comes out is one text, so that later parts of a chain see tokens no more.
  virtual bool joins() const { return false; }
  /// Whether it changes a text by what stands in all of it.
  virtual bool looksAhead() const { return false; }
  /// null gives none (nullptr). Throws UserError for a type that is not known.
  static std::unique_ptr<Decoder> fromJson(const nlohmann::json &json);
};

} // namespace quern::runtime
#endif
