// The likeliest texts instead of the likeliest next token.
#ifndef QUERN_RUNTIME_ENGINE_BEAMSEARCH_H
#define QUERN_RUNTIME_ENGINE_BEAMSEARCH_H

#include "runtime/engine/Batch.h"

#include <functional>
#include <memory>
#include <set>

namespace quern::runtime {

/// When a search ends before its length: as soon as as many texts have ended as there are beams; if the best running
/// one, at its present length, is no better than the worst of these; or only if it could not become better at any
/// length.
enum class EarlyStop { Full, Unlikely, Impossible };

struct BeamOptions {
  int beams = 4;
  double lengthPenalty = 1; // a text's score is its log probability divided by this power of its new tokens' number
  EarlyStop early = EarlyStop::Unlikely;
  SamplerOptions sampling; // the rules that change logits act on log probabilities; nothing is chosen at random
  std::set<int> ends;      // tokens that end a text
  int64_t most = 128;      // new tokens
};

struct Beam {
  std::vector<int> made; // with the token that ended it
  std::vector<double> logProbabilities;
  double score = 0;
};

/// The best texts that begin as `begin` does, the best first. Of two equally good ones the earlier beam's comes first,
/// then the smaller token's. The numbers are those of transformers' beam search. `begin` is used up.
/// `make` gives a fresh text of the same engine.
std::vector<Beam> searchBeams(Engine &engine, std::unique_ptr<Sequence> begin,
                              const std::function<std::unique_ptr<Sequence>()> &make, const BeamOptions &options);

} // namespace quern::runtime
#endif
