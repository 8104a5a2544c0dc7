// Takes: weights. Gives: prefixes of their order, and the token at a point of one. A pass counts and sums classes of like weights;
// whole classes are then passed over, and only those where a prefix or a point ends are sorted.
#include "runtime/sampling/Ranking.h"

#include "runtime/sampling/Draw.h"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace quern::runtime {

static constexpr int unread = 47; ///< of a weight's bits: 5 behind the exponent make 32 classes for each power of two

static size_t classOf(double weight) {
  return size_t((std::bit_cast<uint64_t>(weight) - std::bit_cast<uint64_t>(1.0)) >> unread);
}

/// No weight of the class is less.
static double leastOf(size_t number) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(1.0) + (uint64_t(number) << unread));
}

Ranking::Ranking(std::span<const double> weights, std::span<const int> tokens)
    : weights(weights), tokens(tokens), classes(classOf(heaviest) + 1) {
  for (double weight : weights)
    if (weight > 0) {
      Prefix &like = classes[classOf(weight)];
      ++like.count;
      like.sum += weight;
    }
  for (const Prefix &like : classes)
    whole = {whole.count + like.count, whole.sum + like.sum};
}

std::vector<Choices::Choice> Ranking::inOrder(size_t number) const {
  Choices like;
  for (size_t i = 0; i < weights.size(); ++i)
    if (weights[i] > 0 && classOf(weights[i]) == number)
      like.list.push_back({weights[i], tokens[i]});
  like.sort();
  return like.list;
}

/// From the heaviest on: `skip(before, number)` says whether all of a class belongs to what is wanted, `take(before, choice)`
/// whether one token does. The last of `within` is always asked for by itself.
template <typename Skip, typename Take>
Ranking::Prefix Ranking::walk(const Prefix &within, Skip skip, Take take) const {
  Prefix before;
  for (size_t number = classes.size(); number-- > 0;) {
    const Prefix &like = classes[number];
    if (like.count == 0)
      continue;
    if (before.count + like.count < within.count && skip(before, number)) {
      before = {before.count + like.count, before.sum + like.sum};
      continue;
    }
    for (const Choices::Choice &choice : inOrder(number)) {
      if (before.count == within.count || !take(before, choice))
        return before;
      before = {before.count + 1, before.sum + choice.weight};
    }
  }
  return before;
}

Ranking::Prefix Ranking::first(const Prefix &within, size_t count) const {
  return walk({std::min(count, within.count)}, [](auto &&...) { return true; }, [](auto &&...) { return true; });
}

Ranking::Prefix Ranking::reaching(const Prefix &within, double sum) const {
  return walk(
      within, [&](const Prefix &before, size_t number) { return before.sum + classes[number].sum < sum; },
      [&](const Prefix &before, const Choices::Choice &) { return before.count == 0 || before.sum < sum; });
}

Ranking::Prefix Ranking::from(const Prefix &within, double least) const {
  return walk(
      within, [&](const Prefix &, size_t number) { return leastOf(number) >= least; },
      [&](const Prefix &before, const Choices::Choice &choice) { return before.count == 0 || choice.weight >= least; });
}

Choices::Choice Ranking::at(const Prefix &within, double point) const {
  Choices::Choice last{};
  auto beyond = [&](double weight) {
    const bool is = point >= weight;
    point -= is ? weight : 0;
    return is;
  };
  walk(
      within, [&](const Prefix &, size_t number) { return beyond(classes[number].sum); },
      [&](const Prefix &before, const Choices::Choice &choice) {
        last = choice;
        return before.count + 1 < within.count && beyond(choice.weight);
      });
  return last;
}

} // namespace quern::runtime
