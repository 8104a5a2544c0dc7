// What `generate` needs for one prompt and for several.
#ifndef QUERN_RUNTIME_CLI_GENERATEOPTIONS_H
#define QUERN_RUNTIME_CLI_GENERATEOPTIONS_H

#include "runtime/cli/Commands.h"
#include "runtime/cli/Options.h"
#include "runtime/sampling/Sampler.h"

#include <nlohmann/json.hpp>

#include <set>

namespace quern::runtime {

/// The numbers of a field of config.json that is a number or a list of them.
std::set<int> idsOf(const nlohmann::json &config, const char *name);
/// The length that config.json states, by its usual names; 0 if it states none.
int64_t statedContext(const nlohmann::json &config);
/// Throws UserError for a token that the model has no embedding of.
void checkTokens(const std::vector<int> &tokens, int64_t bound);
SamplerOptions samplerOptions(const Options &options);

/// Several prompts (GenerateMany.cpp).
int generateMany(const Command &command, const Options &options);

} // namespace quern::runtime
#endif
