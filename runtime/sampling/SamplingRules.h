// The table of sampling rules: their names, their ranges, and how each is made.
#ifndef QUERN_RUNTIME_SAMPLING_SAMPLINGRULES_H
#define QUERN_RUNTIME_SAMPLING_SAMPLINGRULES_H

#include "runtime/sampling/LogitsProcessor.h"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace quern::runtime {

/// What was given: rules by name with their values.
using RuleValues = std::map<std::string, double>;

struct SamplingRule {
  const char *name;  // "top-k"; the option of `generate` is --top-k
  const char *value; // of the option, for its help
  const char *field; // of generation_config.json, by which a checkpoint recommends a value; null if it has none
  const char *help;
  double neutral; // with this value the rule does nothing
  double least, most;
  bool whole; // only whole numbers
  /// Null for a number that only other rules read.
  std::unique_ptr<LogitsProcessor> (*make)(double value, const RuleValues &given);
  bool atRandom = false;                       // it chooses at random: without --temp the temperature is then 1, not 0
  std::span<const std::string_view> with = {}; // the rules that read this number; without one of them it does nothing
};

/// All rules, in the order in which they are applied.
std::span<const SamplingRule> samplingRules();
/// Adds numbers to the logits of single tokens; -inf forbids one.
std::unique_ptr<LogitsProcessor> makeBias(const std::map<int, double> &bias);
/// Null if there is none of that name.
const SamplingRule *findSamplingRule(std::string_view name);

} // namespace quern::runtime
#endif
