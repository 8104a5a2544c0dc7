// Takes: bytes and losses of each group's formats. Gives: a row of mixes to choose from.
// Why a row: each mix is the one before with one group smaller, so less memory never means a larger file, and a larger loss
// that is allowed never means a larger file either.
#include "tools/quantize/Mix.h"

#include <algorithm>

namespace quern::tools {
namespace {

double lossOf(const FormatChoice &choice) {
  return std::max(0.0, choice.loss);
}

/// Whether nothing is gained by `choice`, beside `other`; of two equal ones the later counts.
bool isWorse(const GroupChoices &group, size_t choice, size_t other) {
  const FormatChoice &a = group.formats[choice], &b = group.formats[other];
  bool equal = a.bytes == b.bytes && lossOf(a) == lossOf(b);
  return a.bytes >= b.bytes && lossOf(a) >= lossOf(b) && (!equal || choice < other);
}

/// What may be chosen, from the largest to the smallest.
std::vector<size_t> worthwhile(const GroupChoices &group) {
  std::vector<size_t> result;
  for (size_t i = 0; i < group.formats.size(); ++i) {
    bool worse = false;
    for (size_t k = 0; k < group.formats.size(); ++k)
      worse |= k != i && isWorse(group, i, k);
    if (!worse)
      result.push_back(i);
  }
  std::sort(result.begin(), result.end(),
            [&](size_t a, size_t b) { return group.formats[a].bytes > group.formats[b].bytes; });
  return result;
}

struct Step {
  size_t group = 0, to = 0; ///< `to`: a position in the group's worthwhile formats
  double saved = 0, lost = 0;
  /// More bytes for what is lost; what loses nothing comes first.
  bool isBetter(const Step &other) const { return saved * other.lost > other.saved * lost; }
};

} // namespace

std::vector<Mix> mixesBySize(const std::vector<GroupChoices> &groups) {
  std::vector<std::vector<size_t>> allowed;
  std::vector<size_t> at(groups.size(), 0);
  for (const GroupChoices &group : groups)
    allowed.push_back(worthwhile(group));
  auto choiceOf = [&](size_t g, size_t position) -> const FormatChoice & {
    return groups[g].formats[allowed[g][position]];
  };
  std::vector<Mix> mixes;
  for (;;) {
    Mix &mix = mixes.emplace_back();
    for (size_t g = 0; g < groups.size(); ++g) {
      mix.formats.push_back(allowed[g][at[g]]);
      mix.bytes += choiceOf(g, at[g]).bytes;
      mix.loss += lossOf(choiceOf(g, at[g]));
    }
    std::optional<Step> best;
    for (size_t g = 0; g < groups.size(); ++g)
      for (size_t to = at[g] + 1; to < allowed[g].size(); ++to) {
        const FormatChoice &from = choiceOf(g, at[g]), &next = choiceOf(g, to);
        Step step{g, to, double(from.bytes - next.bytes), lossOf(next) - lossOf(from)};
        if (!best || step.isBetter(*best))
          best = step;
      }
    if (!best)
      return mixes;
    at[best->group] = best->to;
  }
}

std::optional<size_t> firstWithin(const std::vector<Mix> &mixes, uint64_t bytes) {
  for (size_t i = 0; i < mixes.size(); ++i)
    if (mixes[i].bytes <= bytes)
      return i;
  return std::nullopt;
}

std::optional<size_t> lastGood(size_t count, const std::function<bool(size_t)> &isGood) {
  std::optional<size_t> good;
  for (size_t from = 0, to = count; from < to;) {
    size_t middle = (from + to) / 2;
    if (isGood(middle)) {
      good = middle;
      from = middle + 1;
    } else {
      to = middle;
    }
  }
  return good;
}

} // namespace quern::tools
