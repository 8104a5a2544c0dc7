// How normalized text is cut into words that the model then looks at one by one: the `pre_tokenizer` of tokenizer.json.
#ifndef QUERN_RUNTIME_TOKENIZER_PRETOKENIZER_H
#define QUERN_RUNTIME_TOKENIZER_PRETOKENIZER_H

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <string>
#include <vector>

namespace quern::runtime {

struct Piece {
  std::string text;
  bool atStart; // begins where the whole text begins
};

class PreTokenizer {
public:
  virtual ~PreTokenizer() = default;
  virtual std::vector<Piece> apply(std::vector<Piece> pieces) const = 0;
  /// null gives none (nullptr). Throws UserError for a type that is not known.
  static std::unique_ptr<PreTokenizer> fromJson(const nlohmann::json &json);
};

} // namespace quern::runtime
#endif
