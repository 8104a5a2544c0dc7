// Takes: logits and the tokens so far. Gives: a token, and how likely the model found it.
#include "runtime/sampling/Sampler.h"

#include "runtime/Error.h"
#include "runtime/machine/ThreadPool.h"
#include "runtime/sampling/PortableMath.h"
#include "runtime/sampling/SamplingRules.h"

#include <algorithm>
#include <cmath>

namespace quern::runtime {

namespace {

uint64_t rotate(uint64_t x, int bits) {
  return x << bits | x >> (64 - bits);
}

/// The weight of what is this much less likely, as a logarithm, is 0: e^22 is more than 3.5e9.
constexpr double lightest = -22;
static_assert(heaviest < 3.5e9);

/// The first of the largest numbers; -1 if there is no number at all.
template <typename T> int likeliest(std::span<const T> logits) {
  int best = -1;
  for (size_t i = 0; i < logits.size(); ++i)
    if (!std::isnan(logits[i]) && (best < 0 || logits[i] > logits[size_t(best)]))
      best = int(i);
  return best;
}

/// Of each, in its place: on all threads, of which none has a kernel to run while a token is chosen.
void exponentials(std::span<double> x) {
  constexpr size_t piece = 1024; // tens of microseconds
  ThreadPool::instance().forEach(int((x.size() + piece - 1) / piece), [&](int i) {
    const size_t begin = size_t(i) * piece;
    portableExp(x.subspan(begin, std::min(piece, x.size() - begin)));
  });
}

} // namespace

double SamplerOptions::temperature() const {
  if (auto given = rules.find("temp"); given != rules.end())
    return given->second;
  bool atRandom = std::any_of(rules.begin(), rules.end(), [](const auto &given) {
    const SamplingRule *rule = findSamplingRule(given.first);
    return rule && rule->atRandom;
  });
  return atRandom ? 1 : 0;
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
  Draw rules{.temperature = options.temperature()};
  bool others = !options.bias.empty(), filters = false;
  if (!options.bias.empty())
    processors.push_back(makeBias(options.bias));
  for (const SamplingRule &rule : samplingRules()) {
    auto given = options.rules.find(rule.name);
    if (given == options.rules.end() || given->second == rule.neutral || !rule.make)
      continue;
    std::unique_ptr<LogitsProcessor> made = rule.make(given->second, options.rules);
    if (greedy && !made->reorders())
      continue;
    processors.push_back(std::move(made));
    std::string_view name = rule.name;
    if (name == "top-k")
      rules.topK = int64_t(given->second);
    else if (name == "top-p")
      rules.topP = given->second;
    else if (name == "min-p")
      rules.minP = given->second;
    else {
      others |= name != "temp";
      filters |= processors.back()->filter() != nullptr;
    }
  }
  if (!others)
    alone = rules;
  if (!filters)
    prefix = rules;
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

std::optional<Draw> Sampler::draw() {
  std::optional<Draw> next = alone;
  if (next && !greedy)
    next->point = uniform();
  return next;
}

/// Tells the rules.
int Sampler::chosen(const Choices::Choice &choice, double sum) {
  for (const std::unique_ptr<LogitsProcessor> &processor : processors)
    processor->chosen(choice.token, choice.weight / sum);
  return choice.token;
}

int Sampler::pickOf(const Ranking &ranking, const Draw &rules) {
  Ranking::Prefix kept = ranking.all();
  if (rules.topK)
    kept = ranking.first(kept, size_t(rules.topK));
  if (rules.topP < 1)
    kept = ranking.reaching(kept, rules.topP * kept.sum);
  if (rules.minP > 0)
    kept = ranking.from(kept, rules.minP * heaviest);
  return chosen(ranking.at(kept, uniform() * kept.sum), kept.sum);
}

int Sampler::pick() {
  double point = uniform() * choices.sum;
  size_t at = 0;
  while (at + 1 < choices.list.size() && (point -= choices.list[at].weight) >= 0)
    ++at;
  return chosen(choices.list[at], choices.sum);
}

void Sampler::adjust(std::span<const int> history, std::span<double> numbers) {
  for (const std::unique_ptr<LogitsProcessor> &processor : processors)
    processor->adjust(history, numbers);
}

int Sampler::next(std::span<const int> history, std::span<const float> logits) {
  int best = likeliest(logits);
  if (best < 0 || std::isinf(logits[size_t(best)]))
    throw UserError(noFiniteLogits);
  if (greedy && processors.empty())
    return best;

  scores.assign(logits.begin(), logits.end());
  adjust(history, scores);
  best = likeliest(std::span<const double>(scores));
  double largest = best < 0 ? -__builtin_inf() : scores[size_t(best)];
  if (std::isinf(largest))
    throw UserError("the sampling rules forbid every token here");
  if (greedy)
    return best;
  tokens.clear();
  for (size_t i = 0; i < scores.size(); ++i)
    if (double below = scores[i] - largest; below > lightest) { // not NaN
      scores[tokens.size()] = below;
      tokens.push_back(int(i));
    }
  scores.resize(tokens.size());
  exponentials(scores);
  for (double &score : scores)
    score = double(int64_t(score * heaviest)); // its floor
  if (prefix)
    return pickOf(Ranking(scores, tokens), *prefix);
  choices.list.clear();
  for (size_t i = 0; i < scores.size(); ++i)
    if (scores[i] > 0)
      choices.list.push_back({scores[i], tokens[i]});
  choices.sortWhole();
  choices.sum = 0;
  for (const Choices::Choice &choice : choices.list)
    choices.sum += choice.weight;
  for (const std::unique_ptr<LogitsProcessor> &processor : processors)
    if (ChoiceFilter *filter = processor->filter())
      filter->take(history, choices);
  return pick();
}

Chosen Sampler::nextScored(std::span<const int> history, std::span<const float> logits) {
  int token = next(history, logits);
  return {token, logProbability(logits, token)};
}

/// log(sum(exp(logits))).
static double logSum(std::span<const float> logits) {
  double largest = logits[size_t(likeliest(logits))], sum = 0;
  std::vector<double> apart(logits.begin(), logits.end());
  for (double &logit : apart)
    logit -= largest;
  exponentials(apart);
  for (double each : apart) // NaN has none
    sum += each;
  return largest + portableLog(sum);
}

void logProbabilities(std::span<const float> logits, std::vector<double> &result) {
  double shift = logSum(logits);
  result.clear();
  for (float logit : logits)
    result.push_back(std::isnan(logit) ? -__builtin_inf() : double(logit) - shift);
}

double logProbability(std::span<const float> logits, int token) {
  return double(logits[size_t(token)]) - logSum(logits);
}

} // namespace quern::runtime
