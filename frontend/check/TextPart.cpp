// Takes: a config.json. Gives: that of its text part.
// Why the outer object comes first for some fields: transformers ties the head of a multimodal model as the outer object says,
// and the inner one often has the default instead.
#include "frontend/check/TextPart.h"

namespace quern::frontend {

using Json = nlohmann::ordered_json;

std::optional<Json> textPartOf(const Json &config) {
  auto inner = config.find(textPart);
  if (inner == config.end() || !inner->is_object())
    return std::nullopt;
  Json result = *inner;
  result.erase("architectures");
  for (const char *name : {"tie_word_embeddings", "quantization_config"})
    if (auto outer = config.find(name); outer != config.end() && !outer->is_null())
      result[name] = *outer;
  for (const char *name : {"bos_token_id", "eos_token_id", "pad_token_id"})
    if (auto outer = config.find(name); outer != config.end() && (!result.contains(name) || result[name].is_null()))
      result[name] = *outer;
  return result;
}

} // namespace quern::frontend
