// Takes: logits. Gives: a token.
// Why an own exponential and an own generator: those of a C library differ between versions and processors in the last
// bit, and one bit is enough to choose another token. Both use only operations that IEEE 754 fixes.
#include "runtime/sampling/Sampler.h"

#include "runtime/Error.h"

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

uint64_t rotate(uint64_t x, int bits) {
  return x << bits | x >> (64 - bits);
}

} // namespace

Sampler::Sampler(const SamplerOptions &options) : options(options) {
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

int Sampler::next(const float *logits, int64_t count) {
  int64_t best = -1;
  for (int64_t i = 0; i < count; ++i)
    if (!std::isnan(logits[i]) && (best < 0 || logits[i] > logits[best]))
      best = i;
  if (best < 0 || std::isinf(logits[best]))
    throw UserError("the model gives no finite logits here; are the weights sound?");
  if (options.temperature == 0)
    return int(best);

  double largest = logits[best];
  choices.clear();
  for (int64_t i = 0; i < count; ++i)
    if (double weight = std::isnan(logits[i]) ? 0 : portableExp((logits[i] - largest) / options.temperature);
        weight > 0)
      choices.push_back({weight, int(i)});
  auto heavier = [](const Choice &a, const Choice &b) {
    return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
  };
  std::sort(choices.begin(), choices.end(), heavier);
  if (options.topK > 0 && int64_t(choices.size()) > options.topK)
    choices.resize(size_t(options.topK));
  double sum = 0;
  for (const Choice &choice : choices)
    sum += choice.weight;
  if (options.topP < 1) {
    double reached = 0;
    size_t kept = 0;
    while (kept < choices.size() && (kept == 0 || reached < options.topP * sum))
      reached += choices[kept++].weight;
    choices.resize(kept);
    sum = reached;
  }
  if (options.minP > 0) {
    double least = options.minP * choices[0].weight;
    while (choices.size() > 1 && choices.back().weight < least) {
      sum -= choices.back().weight;
      choices.pop_back();
    }
  }
  double point = uniform() * sum;
  for (const Choice &choice : choices) {
    point -= choice.weight;
    if (point < 0)
      return choice.token;
  }
  return choices.back().token;
}

} // namespace quern::runtime
