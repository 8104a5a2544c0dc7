// Takes: a rule's value. Gives: the rule. To add one, write its class and its line in `rules`: the option of `generate`,
// its help, its range and `quern_set` of the C library follow from the line.
#include "runtime/sampling/SamplingRules.h"

#include <algorithm>

namespace quern::runtime {

void Choices::keep(size_t count) {
  if (count >= list.size())
    return;
  list.resize(count);
  sum = 0;
  for (const Choice &choice : list)
    sum += choice.weight;
}

void LogitsProcessor::adjust(std::span<const int>, std::span<double>) {}
void LogitsProcessor::filter(std::span<const int>, Choices &) {}

namespace {

/// Makes tokens that were used already less likely (Keskar et al. 2019): positive logits are divided, others multiplied.
class RepeatPenalty : public LogitsProcessor {
public:
  explicit RepeatPenalty(double penalty) : penalty(penalty) {}
  bool reorders() const override { return true; }
  void adjust(std::span<const int> history, std::span<double> logits) override {
    used.assign(logits.size(), 0);
    for (int token : history) {
      if (size_t(token) >= logits.size() || used[size_t(token)])
        continue;
      used[size_t(token)] = 1;
      double &logit = logits[size_t(token)];
      logit = logit > 0 ? logit / penalty : logit * penalty;
    }
  }

private:
  double penalty;
  std::vector<char> used;
};

/// Logits relative to the largest, so that dividing loses nothing.
class Temperature : public LogitsProcessor {
public:
  explicit Temperature(double temperature) : temperature(temperature) {}
  void adjust(std::span<const int>, std::span<double> logits) override {
    double largest = -__builtin_inf();
    for (double logit : logits)
      largest = logit > largest ? logit : largest;
    for (double &logit : logits)
      logit = (logit - largest) / temperature;
  }

private:
  double temperature;
};

class TopK : public LogitsProcessor {
public:
  explicit TopK(double count) : count(size_t(count)) {}
  void filter(std::span<const int>, Choices &choices) override { choices.keep(count); }

private:
  size_t count;
};

/// The least set whose probability reaches p (Holtzman et al. 2019).
class TopP : public LogitsProcessor {
public:
  explicit TopP(double p) : p(p) {}
  void filter(std::span<const int>, Choices &choices) override {
    double reached = 0;
    size_t kept = 0;
    while (kept < choices.list.size() && (kept == 0 || reached < p * choices.sum))
      reached += choices.list[kept++].weight;
    choices.list.resize(kept);
    choices.sum = reached;
  }

private:
  double p;
};

/// Those of at least p times the likeliest's probability.
class MinP : public LogitsProcessor {
public:
  explicit MinP(double p) : p(p) {}
  void filter(std::span<const int>, Choices &choices) override {
    double least = p * choices.list[0].weight;
    while (choices.list.size() > 1 && choices.list.back().weight < least) {
      choices.sum -= choices.list.back().weight;
      choices.list.pop_back();
    }
  }

private:
  double p;
};

template <typename Rule> std::unique_ptr<LogitsProcessor> make(double value) {
  return std::make_unique<Rule>(value);
}

constexpr double many = 2147483647;
constexpr SamplingRule rules[] = {
    {"repeat-penalty", "X", "make tokens that were used before less likely (1: do not)", 1, 0.01, 100, false,
     make<RepeatPenalty>},
    {"temp", "X", "temperature; 0: always the likeliest (0, or 1 with top-k, top-p or min-p)", 1, 0, 1e6, false,
     make<Temperature>},
    {"top-k", "K", "only among the K likeliest", 0, 0, many, true, make<TopK>},
    {"top-p", "P", "only among the least set that reaches probability P", 1, 0, 1, false, make<TopP>},
    {"min-p", "P", "only among those of P times the likeliest's probability", 0, 0, 1, false, make<MinP>},
};

} // namespace

std::span<const SamplingRule> samplingRules() {
  return rules;
}

const SamplingRule *findSamplingRule(std::string_view name) {
  for (const SamplingRule &rule : rules)
    if (name == rule.name)
      return &rule;
  return nullptr;
}

} // namespace quern::runtime
