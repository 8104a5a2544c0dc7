// Takes: scores and values of a row. Gives: its attention, rounded as tensor cores want their factors.
#include "tests/codegen/support/Rounding.h"

#include "support/numbers/SmallFloats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace quern::codegen {

double inPieces(double x, int pieces) {
  if (!pieces)
    return x;
  double made = 0;
  for (float rest = static_cast<float>(x); pieces-- > 0; rest = static_cast<float>(x - made))
    made += support::bf16ToFloat(support::floatToBF16(rest));
  return made;
}

double undecided(double weight, int pieces) {
  constexpr double bits =
      0x1p-20; // e^x by the unit for it is within two of f32's last bits; the rest is of its argument
  return pieces == 1 ? std::fabs(inPieces(weight * (1 + bits), 1) - inPieces(weight * (1 - bits), 1)) : 0;
}

namespace {
constexpr double inf = std::numeric_limits<double>::infinity();

struct Sums {
  double most = -inf, all = 0, values = 0, slack = 0;
  void raise(double top) {
    double keeps = most == top ? 1 : std::exp(most - top);
    most = top, all *= keeps, values *= keeps, slack *= keeps;
  }
};
} // namespace

Attended attend(const std::vector<double> &scores, const std::vector<double> &values, const std::vector<double> &sinks,
                const Rounding &rounding) {
  const size_t keys = rounding.pieces ? static_cast<size_t>(rounding.keys) : std::max<size_t>(1, scores.size());
  const size_t tiles = (scores.size() + keys - 1) / keys, parts = static_cast<size_t>(rounding.parts),
               each = (tiles + parts - 1) / parts;
  double largest = 0; // by so much a sum of weights that is another moves what is divided by it
  for (double value : values)
    largest = std::max(largest, std::fabs(value));
  std::vector<Sums> ofParts(parts);
  double most = -inf;
  for (size_t tile = 0; tile < tiles; ++tile) {
    const size_t begin = tile * keys, end = std::min(begin + keys, scores.size());
    Sums &sums = ofParts[tile / each];
    double top = sums.most;
    for (size_t k = begin; k < end; ++k)
      top = std::max(top, scores[k]);
    if (top == -inf)
      continue;
    if (rounding.ofGraph)
      top = std::ceil(top / std::numbers::ln2) * std::numbers::ln2;
    sums.raise(top), most = std::max(most, top);
    for (size_t k = begin; k < end; ++k) {
      double weight = std::exp(scores[k] - top), value = inPieces(values[k], rounding.pieces);
      const double rounded = inPieces(weight, rounding.pieces);
      sums.all += rounding.ofGraph ? rounded : weight, sums.values += rounded * value;
      sums.slack += undecided(weight, rounding.pieces) * (std::fabs(value) + (rounding.ofGraph ? largest : 0));
    }
  }
  for (double sink : sinks)
    most = std::max(most, sink);
  if (most == -inf)
    return {};
  Sums whole;
  for (Sums &sums : ofParts) {
    sums.raise(most);
    whole.all += sums.all, whole.values += sums.values, whole.slack += sums.slack;
  }
  for (double sink : sinks)
    whole.all += std::exp(sink - most);
  return {whole.values / whole.all, most, 1 / whole.all, whole.slack / whole.all};
}

} // namespace quern::codegen
