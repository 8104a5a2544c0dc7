// Choosing the next token.
#ifndef QUERN_RUNTIME_SAMPLING_SAMPLER_H
#define QUERN_RUNTIME_SAMPLING_SAMPLER_H

#include <cstdint>
#include <vector>

namespace quern::runtime {

struct SamplerOptions {
  double temperature = 0; // 0: greedy
  int64_t topK = 0;       // 0: all
  double topP = 1;        // 1: all
  double minP = 0;        // 0: all
  uint64_t seed = 0;
};

/// Temperature first, then of what is left the k likeliest, the least set whose probability reaches p, and those of at
/// least min-p times the likeliest. Greedy takes the first of equals. The same logits, options and seed give the same
/// tokens on every machine.
class Sampler {
public:
  explicit Sampler(const SamplerOptions &options);
  /// Throws UserError if no logit is a number.
  int next(const float *logits, int64_t count);

private:
  SamplerOptions options;
  uint64_t state[4];
  struct Choice {
    double weight;
    int token;
  };
  std::vector<Choice> choices;
  double uniform();
};

} // namespace quern::runtime
#endif
