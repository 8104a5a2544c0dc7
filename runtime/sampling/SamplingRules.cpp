// Takes: a rule's value. Gives: the rule. To add one, write its class and its line in `rules`: the option of `generate`,
// its help, its range, `quern_set` of the C library and what generation_config.json says follow from the line.
#include "runtime/sampling/SamplingRules.h"

#include "runtime/sampling/Draw.h"
#include "runtime/sampling/PortableMath.h"

#include <boost/sort/spreadsort/integer_sort.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace quern::runtime {

void Choices::sort() {
  std::sort(list.begin(), list.end(), [](const Choice &a, const Choice &b) {
    return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
  });
}

void Choices::sortWhole() {
  std::vector<uint64_t> keys;
  keys.reserve(list.size());
  for (const Choice &choice : list)
    keys.push_back(uint64_t(heaviest - choice.weight) << 32 | uint32_t(choice.token));
  boost::sort::spreadsort::integer_sort(keys.begin(), keys.end());
  for (size_t i = 0; i < keys.size(); ++i)
    list[i] = {heaviest - double(keys[i] >> 32), int(uint32_t(keys[i]))};
}

void Choices::keep(size_t count) {
  if (count >= list.size())
    return;
  list.resize(count);
  sum = 0;
  for (const Choice &choice : list)
    sum += choice.weight;
}

void LogitsProcessor::adjust(std::span<const int>, std::span<double>) {}
void LogitsProcessor::chosen(int, double) {}

namespace {

double numberOf(const RuleValues &given, const char *name, double otherwise) {
  auto at = given.find(name);
  return at == given.end() ? otherwise : at->second;
}

class Bias : public LogitsProcessor {
public:
  explicit Bias(const std::map<int, double> &bias) : bias(bias) {}
  bool reorders() const override { return true; }
  void adjust(std::span<const int>, std::span<double> logits) override {
    for (auto [token, added] : bias)
      if (size_t(token) < logits.size())
        logits[size_t(token)] += added;
  }

private:
  std::map<int, double> bias;
};

/// Changes the logits of the tokens that were used, by how often they were.
class Repetition : public LogitsProcessor {
public:
  explicit Repetition(const RuleValues &given) : window(size_t(numberOf(given, "repeat-window", 0))) {}
  bool reorders() const override { return true; }
  void adjust(std::span<const int> history, std::span<double> logits) override {
    if (window && history.size() > window)
      history = history.last(window);
    uses.assign(logits.size(), 0);
    for (int token : history)
      if (size_t(token) < logits.size())
        ++uses[size_t(token)];
    for (size_t token = 0; token < logits.size(); ++token)
      if (uses[token])
        logits[token] = changed(logits[token], uses[token]);
  }

private:
  size_t window; // 0: the whole text
  std::vector<int> uses;
  virtual double changed(double logit, int uses) const = 0;
};

/// Keskar et al. 2019: positive logits are divided, others multiplied.
class RepeatPenalty : public Repetition {
public:
  RepeatPenalty(double penalty, const RuleValues &given) : Repetition(given), penalty(penalty) {}

private:
  double penalty;
  double changed(double logit, int) const override { return logit > 0 ? logit / penalty : logit * penalty; }
};

class FrequencyPenalty : public Repetition {
public:
  FrequencyPenalty(double penalty, const RuleValues &given) : Repetition(given), penalty(penalty) {}

private:
  double penalty;
  double changed(double logit, int uses) const override { return logit - penalty * uses; }
};

class PresencePenalty : public Repetition {
public:
  PresencePenalty(double penalty, const RuleValues &given) : Repetition(given), penalty(penalty) {}

private:
  double penalty;
  double changed(double logit, int) const override { return logit - penalty; }
};

/// No sequence of `length` tokens comes twice (Paulus et al. 2017).
class NoRepeat : public LogitsProcessor {
public:
  explicit NoRepeat(double length) : length(size_t(length)) {}
  bool reorders() const override { return true; }
  void adjust(std::span<const int> history, std::span<double> logits) override {
    if (history.size() < length)
      return;
    std::span<const int> end = history.last(length - 1);
    for (size_t at = 0; at + length <= history.size(); ++at)
      if (int next = history[at + length - 1];
          std::equal(end.begin(), end.end(), history.begin() + at) && size_t(next) < logits.size())
        logits[size_t(next)] = -__builtin_inf();
  }

private:
  size_t length;
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

/// Those whose logit is at most n standard deviations below the largest (Tang et al. 2024). The temperature scales both
/// sides, so it does not change which are kept.
class TopNSigma : public LogitsProcessor {
public:
  explicit TopNSigma(double n) : n(n) {}
  void adjust(std::span<const int>, std::span<double> logits) override {
    double largest = -__builtin_inf(), sum = 0, squares = 0;
    size_t count = 0;
    for (double logit : logits)
      if (std::isfinite(logit)) {
        largest = logit > largest ? logit : largest;
        sum += logit;
        ++count;
      }
    double mean = sum / double(count);
    for (double logit : logits)
      if (std::isfinite(logit))
        squares += (logit - mean) * (logit - mean);
    double furthest = n * n * squares / double(count); // squared: a root would be libm's
    for (double &logit : logits)
      if ((largest - logit) * (largest - logit) > furthest)
        logit = -__builtin_inf();
  }

private:
  double n;
};

class TopK : public ChoiceFilter {
public:
  explicit TopK(double count) : count(size_t(count)) {}
  void take(std::span<const int>, Choices &choices) override { choices.keep(count); }

private:
  size_t count;
};

/// The least set whose probability reaches p (Holtzman et al. 2019).
class TopP : public ChoiceFilter {
public:
  explicit TopP(double p) : p(p) {}
  void take(std::span<const int>, Choices &choices) override {
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
class MinP : public ChoiceFilter {
public:
  explicit MinP(double p) : p(p) {}
  void take(std::span<const int>, Choices &choices) override {
    double least = p * choices.list[0].weight;
    while (choices.list.size() > 1 && choices.list.back().weight < least) {
      choices.sum -= choices.list.back().weight;
      choices.list.pop_back();
    }
  }

private:
  double p;
};

/// The mean surprise of a choice, in nats.
double entropyOf(const Choices &choices) {
  double entropy = 0;
  for (const Choices::Choice &one : choices.list)
    entropy -= one.weight / choices.sum * portableLog(one.weight / choices.sum);
  return entropy;
}

/// Tokens whose surprise is nearest to what the distribution lets expect, until their probability reaches p (Meister et
/// al. 2022).
class Typical : public ChoiceFilter {
public:
  explicit Typical(double p) : p(p) {}
  void take(std::span<const int>, Choices &choices) override {
    double entropy = entropyOf(choices);
    Choices nearest; // of minus the distance from it as weight
    for (size_t i = 0; i < choices.list.size(); ++i)
      nearest.list.push_back({-std::fabs(-portableLog(choices.list[i].weight / choices.sum) - entropy), int(i)});
    std::vector<Choices::Choice> found = nearest.list;
    nearest.sort();
    double reached = 0;
    size_t last = 0;
    while (last + 1 < found.size() &&
           (reached += choices.list[size_t(nearest.list[last].token)].weight / choices.sum) < p)
      ++last;
    size_t kept = 0;
    choices.sum = 0;
    for (size_t i = 0; i < found.size(); ++i)
      if (found[i].weight >= nearest.list[last].weight) {
        choices.list[kept++] = choices.list[i];
        choices.sum += choices.list[i].weight;
      }
    choices.list.resize(kept);
  }

private:
  double p;
};

/// Those of at least this probability (Hewitt et al. 2022).
class EpsilonCutoff : public ChoiceFilter {
public:
  explicit EpsilonCutoff(double least) : least(least) {}
  void take(std::span<const int>, Choices &choices) override {
    size_t kept = 1;
    while (kept < choices.list.size() && choices.list[kept].weight >= least * choices.sum)
      ++kept;
    choices.keep(kept);
  }

private:
  double least;
};

/// The same with a limit that falls where the distribution is flat: the smaller of `most` and its root times e^-entropy
/// (Hewitt et al. 2022).
class EtaCutoff : public ChoiceFilter {
public:
  explicit EtaCutoff(double most) : most(most) {}
  void take(std::span<const int>, Choices &choices) override {
    double square = most * portableExp(-2 * entropyOf(choices)); // of the second limit: a root would be libm's
    size_t kept = 1;
    for (; kept < choices.list.size(); ++kept)
      if (double probability = choices.list[kept].weight / choices.sum;
          probability < most && probability * probability < square)
        break;
    choices.keep(kept);
  }

private:
  double most;
};

/// Keeps the mean surprise of a text, in bits a token, near a target (Basu et al. 2021, version 2): tokens above a
/// limit are left out, and the limit follows what was chosen.
class Mirostat : public ChoiceFilter {
public:
  Mirostat(double target, const RuleValues &given)
      : target(target), rate(numberOf(given, "mirostat-rate", 0.1)), limit(2 * target) {}
  void take(std::span<const int>, Choices &choices) override {
    size_t kept = 1;
    while (kept < choices.list.size() && bits(choices.list[kept].weight / choices.sum) <= limit)
      ++kept;
    choices.keep(kept);
  }
  void chosen(int, double probability) override { limit -= rate * (bits(probability) - target); }

private:
  double target, rate, limit;
  static double bits(double probability) { return -portableLog(probability) / 0.693147180559945309417; }
};

template <typename Rule> std::unique_ptr<LogitsProcessor> make(double value, const RuleValues &given) {
  if constexpr (std::is_constructible_v<Rule, double, const RuleValues &>)
    return std::make_unique<Rule>(value, given);
  else
    return std::make_unique<Rule>(value);
}

constexpr double many = 2147483647;
constexpr std::string_view repetition[] = {"repeat-penalty", "frequency-penalty", "presence-penalty"};
constexpr std::string_view mirostat[] = {"mirostat"};
constexpr SamplingRule rules[] = {
    {"repeat-penalty", "X", "repetition_penalty",
     "divide positive logits of tokens that were used before by X, multiply others (1: do not)", 1, 0.01, 100, false,
     make<RepeatPenalty>},
    {"frequency-penalty", "X", nullptr, "subtract X from a token's logit for each time that it was used", 0, -100, 100,
     false, make<FrequencyPenalty>},
    {"presence-penalty", "X", nullptr, "subtract X from the logits of tokens that were used", 0, -100, 100, false,
     make<PresencePenalty>},
    {"repeat-window", "N", nullptr, "these three penalties count the last N tokens (0: the whole text with the prompt)",
     0, 0, many, true, nullptr, false, repetition},
    {"no-repeat", "N", "no_repeat_ngram_size", "no sequence of N tokens occurs twice", 0, 0, many, true,
     make<NoRepeat>},
    {"temp", "X", "temperature", "temperature; 0: always the likeliest (0, or 1 with a rule below)", 1, 0, 1e6, false,
     make<Temperature>},
    {"top-n-sigma", "N", nullptr,
     "only among tokens whose logit is at most N standard deviations below the largest (0: off)", 0, 0, 100, false,
     make<TopNSigma>, true},
    {"top-k", "K", "top_k", "only among the K likeliest tokens", 0, 0, many, true, make<TopK>, true},
    {"top-p", "P", "top_p", "only among the smallest set of tokens that together have probability P", 1, 0, 1, false,
     make<TopP>, true},
    {"min-p", "P", "min_p", "only among tokens with at least P times the probability of the likeliest", 0, 0, 1, false,
     make<MinP>, true},
    {"typical", "P", "typical_p", "only among tokens of typical surprise that together have probability P", 1, 0, 1,
     false, make<Typical>, true},
    {"epsilon-cutoff", "P", "epsilon_cutoff", "only among tokens with a probability of at least P (0: off)", 0, 0, 1,
     false, make<EpsilonCutoff>, true},
    {"eta-cutoff", "P", "eta_cutoff",
     "only among tokens with a probability of at least P, or less where many tokens are likely (0: off)", 0, 0, 1,
     false, make<EtaCutoff>, true},
    {"mirostat", "X", nullptr, "keep the mean surprise of the text near X bits a token (0: off)", 0, 0, 100, false,
     make<Mirostat>, true},
    {"mirostat-rate", "X", nullptr, "how fast mirostat adapts (0.1)", 0.1, 0, 1, false, nullptr, false, mirostat},
};

} // namespace

std::unique_ptr<LogitsProcessor> makeBias(const std::map<int, double> &bias) {
  return std::make_unique<Bias>(bias);
}

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
