// What `generate` gets: by its options, by config.json and by generation_config.json.
#ifndef QUERN_RUNTIME_CLI_GENERATEOPTIONS_H
#define QUERN_RUNTIME_CLI_GENERATEOPTIONS_H

#include "runtime/cli/Commands.h"
#include "runtime/cli/Options.h"
#include "runtime/engine/BeamSearch.h"
#include "runtime/engine/StopRules.h"
#include "runtime/sampling/Sampler.h"

namespace quern::runtime {

/// All options of `generate`: its own and one for each sampling rule.
std::vector<Options::Known> generateOptions();

struct GenerateSettings {
  SamplerOptions sampling;
  StopRules stop;
  std::vector<int> begin; // what a text begins with where the prompt is empty, or where a decoder starts
  int64_t context = 0;    // the longest prompt; 0: only the model's tables limit it
  bool json = false, scores = false, echo = true, cache = true;
  int results = 1;                  // continuations of each prompt
  std::optional<BeamOptions> beams; // instead of choosing token by token
};

/// `isText`: prompts are texts, which stop at the end-of-text token unless an option says otherwise.
GenerateSettings readSettings(const Command &command, const Options &options, bool isText);

/// Throws UserError for a token that the model has no embedding of.
void checkTokens(const std::vector<int> &tokens, int64_t bound);

} // namespace quern::runtime
#endif
