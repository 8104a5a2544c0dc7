// Options that `generate` and `chat` share: how tokens are chosen, and what a checkpoint says about it.
#ifndef QUERN_RUNTIME_CLI_SAMPLINGOPTIONS_H
#define QUERN_RUNTIME_CLI_SAMPLINGOPTIONS_H

#include "runtime/cli/Commands.h"
#include "runtime/sampling/Sampler.h"

#include <nlohmann/json.hpp>

namespace quern::runtime {

/// One for each sampling rule, --logit-bias and --seed.
void addSamplingOptions(std::vector<Options::Known> &known);
/// What they say.
SamplerOptions samplerOptions(const Options &options);
/// Fills in what generation_config.json recommends and the options leave open, if it recommends to sample at all.
void addRecommended(SamplerOptions &sampling, const nlohmann::json &generation);

/// generation_config.json beside the weights; an empty object if there is none.
nlohmann::json readGenerationConfig(const Command &command, const Options &options);
/// The length that config.json states, by its usual names; 0 if it states none.
int64_t statedContext(const nlohmann::json &config);

} // namespace quern::runtime
#endif
