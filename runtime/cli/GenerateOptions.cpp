// Takes: options of `generate` and the config. Gives: what one prompt and several need alike.
#include "runtime/cli/GenerateOptions.h"

#include "runtime/Error.h"

namespace quern::runtime {

/// The numbers of a field of config.json that is a number or a list of them.
std::set<int> idsOf(const nlohmann::json &config, const char *name) {
  std::set<int> ids;
  auto field = config.find(name);
  if (field == config.end())
    return ids;
  for (const nlohmann::json &value : field->is_array() ? *field : nlohmann::json::array({*field}))
    if (value.is_number_integer())
      ids.insert(value.get<int>());
  return ids;
}

/// The length that config.json states, by its usual names; 0 if it states none.
int64_t statedContext(const nlohmann::json &config) {
  for (const char *name : {"max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"})
    if (auto field = config.find(name); field != config.end() && field->is_number_integer())
      return field->get<int64_t>();
  return 0;
}

void checkTokens(const std::vector<int> &tokens, int64_t bound) {
  for (int token : tokens)
    if (token < 0 || token >= bound)
      throw UserError(format("the token %d is unknown: the model's vocabulary has %lld, from 0 to %lld", token,
                             static_cast<long long>(bound), static_cast<long long>(bound - 1)));
}

SamplerOptions samplerOptions(const Options &options) {
  SamplerOptions result;
  bool chooses = options.has("--top-k") || options.has("--top-p") || options.has("--min-p");
  result.temperature = options.number("--temp", chooses ? 1 : 0, 0, 1e6);
  result.topK = options.integer("--top-k", 0, 0, INT32_MAX);
  result.topP = options.number("--top-p", 1, 0, 1);
  result.minP = options.number("--min-p", 0, 0, 1);
  result.seed = uint64_t(options.integer("--seed", 0, INT64_MIN, INT64_MAX));
  return result;
}

} // namespace quern::runtime
