// Choosing the next token.
#ifndef QUERN_RUNTIME_SAMPLING_SAMPLER_H
#define QUERN_RUNTIME_SAMPLING_SAMPLER_H

#include "runtime/sampling/Draw.h"
#include "runtime/sampling/LogitsProcessor.h"
#include "runtime/sampling/Ranking.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace quern::runtime {

/// Which rules with which values (SamplingRules.cpp has their names), what is added to the logits of single tokens, and
/// the seed.
struct SamplerOptions {
  std::map<std::string, double> rules;
  uint64_t seed = 0;
  std::map<int, double> bias = {};

  /// 0 is greedy. Where nothing is said: 1 if a rule that chooses at random is given, else 0.
  double temperature() const;
};

inline constexpr const char *noFiniteLogits = "the model gives no finite logits here; are the weights sound?";

/// A token and its log probability in the model's own distribution, before any rule.
struct Chosen {
  int token = -1;
  double logProbability = 0;
};

/// The rules in the order of their table, then a random choice by weight; at temperature 0 the likeliest, the first of
/// equals. The same logits, history, options and seed give the same tokens on every machine.
class Sampler {
public:
  /// Throws UserError for an unknown rule or a value out of range.
  explicit Sampler(const SamplerOptions &options);
  /// `history`: the tokens so far. Throws UserError if no logit is a number.
  int next(std::span<const int> history, std::span<const float> logits);
  /// The same with the log probability, which costs an exponential for each word of the vocabulary.
  Chosen nextScored(std::span<const int> history, std::span<const float> logits);
  /// The next choice for whoever can make it of the logits alone, with the same token as `next` (a finite sum of weights is
  /// exact there and here). Nothing where a rule looks at more: at the tokens so far, at a bias.
  std::optional<Draw> draw();
  /// What the rules make of these numbers (logits, or their logarithms of probabilities) before one is chosen.
  void adjust(std::span<const int> history, std::span<double> numbers);

private:
  bool greedy = false;
  std::optional<Draw> alone;  // the rules, if they look at the logits alone
  std::optional<Draw> prefix; // those that keep some, if what they keep are always the heaviest
  std::vector<std::unique_ptr<LogitsProcessor>> processors;
  uint64_t state[4];
  std::vector<double> scores;
  std::vector<int> tokens; ///< whose weights `scores` become
  Choices choices;
  double uniform();
  int chosen(const Choices::Choice &choice, double sum);
  int pickOf(const Ranking &ranking, const Draw &rules);
  int pick();
};

/// log(softmax(logits))[token].
double logProbability(std::span<const float> logits, int token);
/// The same for all tokens; NaN has no probability and gives -inf.
void logProbabilities(std::span<const float> logits, std::vector<double> &result);

} // namespace quern::runtime
#endif
