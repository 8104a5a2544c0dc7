// Takes: an attention of a tile program. Gives: its results, tile by tile of keys, by plain loops.
#include "codegen/tile/attend/HostAttend.h"

#include "support/numbers/SmallFloats.h"

#include <algorithm>
#include <cmath>

namespace quern::codegen::tile {

namespace {
using Numbers = std::vector<float>;

/// The bf16 numbers that a number is.
Numbers piecesOf(double value, int count) {
  Numbers pieces;
  for (float rest = float(value); count-- > 0;) {
    pieces.push_back(support::bf16ToFloat(support::floatToBF16(rest)));
    rest = std::isinf(pieces.back()) ? 0 : rest - pieces.back();
  }
  return pieces;
}

/// A tile of a factor: [piece][row or key][inner].
struct Tile {
  const Factor &factor;
  int64_t rows;
  std::vector<Numbers> pieces;
  Tile(const Factor &factor, int64_t rows)
      : factor(factor), rows(rows), pieces(size_t(factor.pieces), Numbers(size_t(rows * factor.padded()))) {}
  void set(int64_t row, int64_t inner, double value) {
    Numbers own = piecesOf(value, factor.pieces);
    for (size_t i = 0; i < own.size(); ++i)
      pieces[i][size_t(row * factor.padded() + inner)] = own[i];
  }
  float at(int piece, int64_t row, int64_t inner) const {
    return pieces[size_t(piece)][size_t(row * factor.padded() + inner)];
  }
};

class Runner {
public:
  Runner(const Stage &stage, HostValues &h) : s(stage), a(stage.attend), h(h) {}

  void run() {
    rows = h.size(s.rows.extent()), keys = h.size(a.keys.extent());
    for (int64_t m = 0, matrices = h.size(s.matrices.extent()); m < matrices; ++m)
      for (int64_t r0 = 0; r0 < rows; r0 += a.rows)
        for (int64_t part = 0; part < std::max(1, a.split); ++part)
          block(m, r0, part);
  }

private:
  const Stage &s;
  const Attend &a;
  HostValues &h;
  int64_t rows = 0, keys = 0, matrix = 0, row0 = 0;
  int64_t wholeFrom = 0, wholeEnd = 0; ///< keys that all rows of the block see
  std::vector<Tile> q, k, v;
  std::vector<Numbers> totals; ///< [total][row][column]
  Numbers most, sum;           ///< of rows

  int64_t rowOf(int64_t i) const { return std::min(row0 + i, rows - 1); }

  void block(int64_t m, int64_t r0, int64_t part) {
    matrix = m, row0 = r0;
    auto clamped = [&](int value, int64_t row, int64_t more) {
      h.stand(row, 0, m, 0);
      return std::clamp<int64_t>(int64_t(h.get(value)) + more, 0, keys);
    };
    int64_t begin = a.from >= 0 ? clamped(a.from, row0, 0) : 0,
            end = a.to >= 0 ? clamped(a.to, rowOf(a.rows - 1), 1) : keys;
    wholeFrom = a.from >= 0 ? clamped(a.from, rowOf(a.rows - 1), 0) : 0;
    wholeEnd = std::min(end, a.to >= 0 ? clamped(a.to, row0, 1) : keys);
    if (a.split) {
      int64_t tiles = (std::max<int64_t>(end - begin, 0) + a.keysTogether - 1) / a.keysTogether,
              each = (tiles + a.split - 1) / a.split * a.keysTogether;
      begin += part * each, end = std::min(end, begin + each), wholeEnd = std::min(end, wholeEnd);
    }
    q.clear(), k.clear(), v.clear(), totals.clear();
    for (const Attend::Dot &dot : a.dots) {
      q.emplace_back(dot.q, a.rows), k.emplace_back(dot.k, a.keysTogether);
      for (int64_t i = 0; i < a.rows; ++i)
        for (int64_t d = 0; d < dot.q.inner; ++d) {
          h.stand(rowOf(i), 0, m, d);
          q.back().set(i, d, h.get(dot.q.value));
        }
    }
    for (const Attend::Total &total : a.totals) {
      v.emplace_back(total.v, a.keysTogether);
      totals.emplace_back(size_t(a.rows * total.v.padded()));
    }
    most.assign(size_t(a.rows), -INFINITY), sum.assign(size_t(a.rows), 0);
    for (int64_t k0 = begin; k0 < end; k0 += a.keysTogether)
      tile(k0, end);
    for (int64_t i = 0; i < a.rows && row0 + i < rows; ++i)
      finish(i, part);
  }

  double number(const Factor &factor) {
    return factor.copied ? h.load(factor.copied->buffer, factor.copied->at) : h.get(factor.value);
  }
  /// Keys beyond the last count nothing.
  void fill(int64_t k0, int64_t end) {
    for (int64_t j = 0; j < a.keysTogether; ++j) {
      int64_t key = k0 + j;
      for (Tile &tile : k)
        for (int64_t d = 0; d < tile.factor.inner; ++d) {
          h.stand(0, std::min(key, keys - 1), matrix, d);
          tile.set(j, d, key < end ? number(tile.factor) : 0);
        }
      for (Tile &tile : v)
        for (int64_t c = 0; c < tile.factor.inner; ++c) {
          h.stand(0, c, matrix, std::min(key, keys - 1));
          tile.set(j, c, key < end ? number(tile.factor) : 0);
        }
    }
  }
  template <typename X, typename W>
  static void multiply(float &sum, int64_t depth, int piecesX, int piecesW, const X &x, const W &w) {
    for (int64_t d = 0; d < depth; d += 16)
      for (int i = 0; i < piecesX; ++i)
        for (int j = 0; j < piecesW && i + j < std::max(piecesX, piecesW); ++j)
          addSixteen(sum, d, [&](int64_t in) { return x(i, in); }, [&](int64_t in) { return w(j, in); });
  }

  void tile(int64_t k0, int64_t end) {
    fill(k0, end);
    bool isWhole = k0 + a.keysTogether <= wholeEnd && k0 >= wholeFrom;
    for (int64_t i = 0; i < a.rows; ++i) {
      std::vector<Numbers> weights(a.totals.size(), Numbers(size_t(a.keysTogether)));
      for (int64_t j = 0; j < a.keysTogether; ++j) {
        std::vector<double> products;
        for (size_t d = 0; d < a.dots.size(); ++d) {
          float product = 0;
          multiply(
              product, q[d].factor.padded(), q[d].factor.pieces, k[d].factor.pieces,
              [&](int piece, int64_t in) { return q[d].at(piece, i, in); },
              [&](int piece, int64_t in) { return k[d].at(piece, j, in); });
          products.push_back(product);
        }
        h.stand(rowOf(i), std::min(k0 + j, keys - 1), matrix, 0);
        h.sums = products;
        bool inside = k0 + j < end;
        if (a.score >= 0)
          weights[0][size_t(j)] = inside ? float(a.scale * h.get(isWhole ? a.whole : a.score)) : -INFINITY;
        for (size_t t = 0; t < a.totals.size() && a.score < 0; ++t)
          weights[t][size_t(j)] = inside ? float(h.get(isWhole ? a.totals[t].whole : a.totals[t].weights)) : 0;
      }
      if (a.score >= 0)
        soften(i, weights[0]);
      for (size_t t = 0; t < a.totals.size(); ++t)
        add(i, t, weights[t]);
    }
  }
  /// What the sums so far count beside a larger score, and the weights of the tile's scores.
  void soften(int64_t i, Numbers &scores) {
    float before = most[size_t(i)], top = before;
    for (float score : scores)
      top = std::fmax(top, score);
    float shift = top == -INFINITY ? 0 : top, keeps = std::exp(before - shift);
    most[size_t(i)] = top;
    float &all = sum[size_t(i)];
    all *= keeps;
    for (float &score : scores)
      all += score = std::exp(score - shift);
    for (int64_t c = 0; c < v[0].factor.padded(); ++c)
      totals[0][size_t(i * v[0].factor.padded() + c)] *= keeps;
  }
  void add(int64_t i, size_t t, const Numbers &weights) {
    const Tile &values = v[t];
    int pieces = a.totals[t].pieces;
    std::vector<Numbers> split;
    for (float weight : weights)
      split.push_back(piecesOf(weight, pieces));
    for (int64_t c = 0; c < values.factor.inner; ++c)
      multiply(
          totals[t][size_t(i * values.factor.padded() + c)], a.keysTogether, pieces, values.factor.pieces,
          [&](int piece, int64_t in) { return split[size_t(in)][size_t(piece)]; },
          [&](int piece, int64_t in) { return values.at(piece, in, c); });
  }

  void finish(int64_t i, int64_t part) {
    float shift = 0, share = 1, keeps = 1;
    if (a.score >= 0 && !a.split) {
      h.stand(row0 + i, 0, matrix, part);
      float top = most[size_t(i)];
      for (int sink : a.sinks)
        top = std::fmax(top, float(h.get(sink)));
      shift = top == -INFINITY ? 0 : top, keeps = std::exp(most[size_t(i)] - shift);
      float all = sum[size_t(i)] * keeps;
      for (int sink : a.sinks)
        all += std::exp(float(h.get(sink)) - shift);
      share = all == 0 ? 0 : 1 / all;
    }
    for (size_t t = 0; t < a.totals.size(); ++t)
      for (int64_t c = 0; c < a.totals[t].v.inner; ++c) {
        h.stand(row0 + i, c, matrix, part);
        h.sums = {totals[t][size_t(i * a.totals[t].v.padded() + c)] * keeps * share, shift, share};
        for (const Store &store : a.totals[t].stores)
          h.store(store);
      }
    h.stand(row0 + i, 0, matrix, part);
    h.sums = {0, a.split ? most[size_t(i)] : shift, a.split ? sum[size_t(i)] : share};
    for (const Store &store : a.rowStores)
      h.store(store);
  }
};
} // namespace

void runAttend(const Stage &stage, HostValues &values) {
  Runner(stage, values).run();
}

} // namespace quern::codegen::tile
