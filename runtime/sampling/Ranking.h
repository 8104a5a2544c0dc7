// Tokens in the order of their weights, put in order only as far as somebody asks: a choice by weight needs a few of them.
#ifndef QUERN_RUNTIME_SAMPLING_RANKING_H
#define QUERN_RUNTIME_SAMPLING_RANKING_H

#include "runtime/sampling/LogitsProcessor.h"

#include <cstddef>
#include <span>
#include <vector>

namespace quern::runtime {

/// The heaviest first, of equals the smaller number. Weights are whole numbers from 0 to `heaviest` (Draw.h), so that sums are
/// exact; those of weight 0 are left out.
class Ranking {
public:
  /// The first tokens of the order.
  struct Prefix {
    size_t count = 0;
    double sum = 0; ///< of their weights
  };

  /// A weight for each of `tokens`, whose numbers ascend. Both must outlive this.
  Ranking(std::span<const double> weights, std::span<const int> tokens);

  const Prefix &all() const { return whole; }
  /// At most so many of a prefix.
  Prefix first(const Prefix &within, size_t count) const;
  /// As few of a prefix, but at least one, as weigh so much together.
  Prefix reaching(const Prefix &within, double sum) const;
  /// Those of a prefix, but at least one, that weigh so much each.
  Prefix from(const Prefix &within, double least) const;
  /// The choice of a prefix where the sum of the weights up to it exceeds `point`; else the last.
  Choices::Choice at(const Prefix &within, double point) const;

private:
  std::span<const double> weights;
  std::span<const int> tokens;
  /// Weights of one exponent and the same first bits behind it; a heavier one has a larger number.
  std::vector<Prefix> classes;
  Prefix whole;

  std::vector<Choices::Choice> inOrder(size_t number) const;
  template <typename Skip, typename Take> Prefix walk(const Prefix &within, Skip skip, Take take) const;
};

} // namespace quern::runtime
#endif
