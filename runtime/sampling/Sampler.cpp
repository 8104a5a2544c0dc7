// Takes: logits and the tokens so far. Gives: a token, and how likely the model found it.
// Why an own exponential, logarithm and generator: those of a C library differ between versions and processors in the last
// bit, and one bit is enough to choose another token. They use only operations that IEEE 754 fixes.
#include "runtime/sampling/Sampler.h"

#include "runtime/Error.h"
#include "runtime/sampling/SamplingRules.h"

#include <algorithm>
#include <cmath>

namespace quern::runtime {

namespace {

/// e^x for x <= 0 within 1e-15: 2^n times a series of the rest.
double portableExp(double x) {
  if (!(x > -700))
    return 0;
  double n = std::floor(x * 1.4426950408889634 + 0.5);
  double r = x - n * 0.693147180369123816490 - n * 1.90821492927058770002e-10; // ln 2 in two parts
  double term = 1, sum = 1;
  for (int k = 1; k <= 14; ++k) {
    term = term * r / k;
    sum = sum + term;
  }
  return std::ldexp(sum, int(n));
}

/// ln x for x >= 1 within 1e-15: x is m times a power of 2, m near 1; of m the series of 2 artanh((m - 1) / (m + 1)).
double portableLog(double x) {
  int n = 0;
  double m = std::frexp(x, &n);
  if (m < 0.70710678118654752440) {
    m *= 2;
    --n;
  }
  double s = (m - 1) / (m + 1), power = s, sum = 0;
  for (int k = 1; k <= 23; k += 2) {
    sum = sum + power / k;
    power = power * s * s;
  }
  return 2 * sum + n * 0.693147180559945309417;
}

uint64_t rotate(uint64_t x, int bits) {
  return x << bits | x >> (64 - bits);
}

/// The first of the largest numbers; -1 if there is no number at all.
template <typename T> int likeliest(std::span<const T> logits) {
  int best = -1;
  for (size_t i = 0; i < logits.size(); ++i)
    if (!std::isnan(logits[i]) && (best < 0 || logits[i] > logits[size_t(best)]))
      best = int(i);
  return best;
}

} // namespace

double SamplerOptions::temperature() const {
  if (auto given = rules.find("temp"); given != rules.end())
    return given->second;
  bool picks = rules.count("top-k") || rules.count("top-p") || rules.count("min-p");
  return picks ? 1 : 0;
}

Sampler::Sampler(const SamplerOptions &options) {
  for (const auto &[name, value] : options.rules) {
    const SamplingRule *rule = findSamplingRule(name);
    if (!rule)
      throw UserError("there is no sampling rule " + quote(name));
    if (!(value >= rule->least && value <= rule->most) || (rule->whole && value != std::floor(value)))
      throw UserError(format("%s must be a %snumber from %g to %g, not %g", rule->name, rule->whole ? "whole " : "",
                             rule->least, rule->most, value));
  }
  greedy = options.temperature() == 0;
  for (const SamplingRule &rule : samplingRules()) {
    auto given = options.rules.find(rule.name);
    if (given == options.rules.end() || given->second == rule.neutral)
      continue;
    std::unique_ptr<LogitsProcessor> made = rule.make(given->second);
    if (!greedy || made->reorders())
      processors.push_back(std::move(made));
  }
  uint64_t x = options.seed; // splitmix64 spreads the seed, as the generator's authors advise
  for (uint64_t &word : state) {
    uint64_t z = x += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    word = z ^ z >> 31;
  }
}

/// In [0, 1): xoshiro256** (Blackman and Vigna 2018).
double Sampler::uniform() {
  uint64_t result = rotate(state[1] * 5, 7) * 9, t = state[1] << 17;
  state[2] ^= state[0];
  state[3] ^= state[1];
  state[1] ^= state[2];
  state[0] ^= state[3];
  state[2] ^= t;
  state[3] = rotate(state[3], 45);
  return double(result >> 11) * 0x1p-53;
}

int Sampler::draw() {
  double point = uniform() * choices.sum;
  for (const Choices::Choice &choice : choices.list) {
    point -= choice.weight;
    if (point < 0)
      return choice.token;
  }
  return choices.list.back().token;
}

int Sampler::next(std::span<const int> history, std::span<const float> logits) {
  int best = likeliest(logits);
  if (best < 0 || std::isinf(logits[size_t(best)]))
    throw UserError("the model gives no finite logits here; are the weights sound?");
  if (greedy && processors.empty())
    return best;

  scores.assign(logits.begin(), logits.end());
  for (const std::unique_ptr<LogitsProcessor> &processor : processors)
    processor->adjust(history, scores);
  best = likeliest(std::span<const double>(scores));
  if (greedy)
    return best;
  double largest = scores[size_t(best)];
  choices.list.clear();
  for (size_t i = 0; i < scores.size(); ++i)
    if (double weight = std::isnan(scores[i]) ? 0 : portableExp(scores[i] - largest); weight > 0)
      choices.list.push_back({weight, int(i)});
  auto heavier = [](const Choices::Choice &a, const Choices::Choice &b) {
    return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
  };
  std::sort(choices.list.begin(), choices.list.end(), heavier);
  choices.sum = 0;
  for (const Choices::Choice &choice : choices.list)
    choices.sum += choice.weight;
  for (const std::unique_ptr<LogitsProcessor> &processor : processors)
    processor->filter(history, choices);
  return draw();
}

Chosen Sampler::nextScored(std::span<const int> history, std::span<const float> logits) {
  int token = next(history, logits);
  return {token, logProbability(logits, token)};
}

double logProbability(std::span<const float> logits, int token) {
  double largest = logits[size_t(likeliest(logits))], sum = 0;
  for (float logit : logits)
    if (!std::isnan(logit))
      sum += portableExp(double(logit) - largest);
  return double(logits[size_t(token)]) - largest - portableLog(sum);
}

} // namespace quern::runtime
