// The table of sampling rules: their names, their ranges, and how each is made.
#ifndef QUERN_RUNTIME_SAMPLING_SAMPLINGRULES_H
#define QUERN_RUNTIME_SAMPLING_SAMPLINGRULES_H

#include "runtime/sampling/LogitsProcessor.h"

#include <memory>
#include <string_view>

namespace quern::runtime {

struct SamplingRule {
  const char *name;  // "top-k"; the option of `generate` is --top-k
  const char *value; // of the option, for its help
  const char *help;
  double neutral; // with this value the rule does nothing
  double least, most;
  bool whole; // only whole numbers
  std::unique_ptr<LogitsProcessor> (*make)(double value);
};

/// All rules, in the order in which they are applied.
std::span<const SamplingRule> samplingRules();
/// Null if there is none of that name.
const SamplingRule *findSamplingRule(std::string_view name);

} // namespace quern::runtime
#endif
