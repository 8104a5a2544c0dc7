// Takes: a tile program, lengths and memory. Gives: the results, block by block and copy by copy as the program says, an
// element after the other. No instruction of a GPU occurs, so what it gets wrong the program gets wrong.
#include "codegen/tile/HostRun.h"

#include "codegen/tile/attend/HostAttend.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace quern::codegen::tile {

namespace {
class Runner : private HostValues {
public:
  using HostValues::HostValues;
  using HostValues::size;
  void run(const Variant &variant) {
    for (const Stage &stage : variant.stages)
      stage.form == Stage::Form::Map      ? map(stage)
      : stage.form == Stage::Form::Reduce ? reduce(stage)
      : stage.form == Stage::Form::Dots   ? dots(stage)
      : stage.form == Stage::Form::Attend ? runAttend(stage, *this)
                                          : product(stage); // asynchronous or not
  }

private:
  void map(const Stage &s) {
    for (int64_t r = 0, rows = size(s.rows.extent()); r < rows; ++r)
      for (int64_t c = 0, columns = size(s.columns.extent()); c < columns; ++c) {
        stand(r, c, 0, 0);
        for (const Store &one : s.stores)
          if (!one.to || (r >= size(one.from) && r < size(*one.to)))
            store(one);
      }
  }

  /// Of the value at each column of a row.
  float reduced(int value, Reduction reduction, int64_t row, int64_t columns, int64_t matrix) {
    bool adds = reduction == Reduction::Sum || reduction == Reduction::Mean;
    double made = adds ? 0 : reduction == Reduction::Max ? -INFINITY : INFINITY;
    for (int64_t c = 0; c < columns; ++c) {
      stand(row, c, matrix, 0);
      double one = get(value);
      made = adds ? made + one : reduction == Reduction::Max ? std::max(made, one) : std::min(made, one);
    }
    return float(reduction == Reduction::Mean ? made / double(columns) : made);
  }

  void reduce(const Stage &s) {
    for (int64_t r = 0, rows = size(s.rows.extent()), columns = size(s.columns.extent()); r < rows; ++r)
      memory(s.stores[0].buffer)[r] = reduced(s.stores[0].value, s.reduction, r, columns, 0);
  }

  void dots(const Stage &s) {
    int64_t rows = size(s.rows.extent()), columns = size(s.columns.extent()), depth = size(s.depth), line = 0;
    int64_t part = (depth + s.split - 1) / s.split, pitch = (columns + 7) / 8 * 8;
    std::map<std::array<int64_t, 3>, std::vector<double>> whole;
    for (int split = 0; split < s.split; ++split)
      for (int64_t m = 0, matrices = size(s.matrices.extent()); m < matrices; ++m)
        for (int64_t r = 0; r < rows; ++r, line += pitch) {
          statistics.clear();
          for (const Statistic &one : s.statistics)
            statistics.push_back(double(reduced(one.value, one.reduction, r, size(one.extent), m)));
          for (int64_t c = 0; c < columns; ++c) {
            std::vector<double> made;
            for (const Operand &w : s.w) {
              double sum = 0;
              for (int64_t k = split * part; k < std::min(depth, (split + 1) * part); ++k) {
                stand(r, c, m, k);
                sum += get(s.xValue) * load(w.buffer, w.at);
              }
              made.push_back(double(float(sum)));
            }
            if (s.sums >= 0 && s.stores.empty())
              memory(s.sums)[line + c] = float(made[0]);
            if ((s.split > 1 || s.together) && !s.stores.empty()) { // each part's sum, until the last one has them all
              std::vector<double> &all = whole[{m, r, c}];
              all.resize(made.size());
              for (size_t part = 0; part < made.size(); ++part)
                made[part] = all[part] = double(float(all[part] + made[part]));
              if (split + 1 < s.split || s.together)
                continue;
            }
            stand(r, c, m, 0);
            sums = std::move(made);
            for (const Store &one : s.stores)
              store(one);
          }
        }
    for (int64_t r = 0; s.together && r < rows; ++r) {
      sumsOfRow.clear();
      for (int64_t c = 0; c < columns; ++c)
        sumsOfRow.push_back(whole[{0, r, c}][0]);
      for (int64_t c = 0; c < columns; ++c) {
        stand(r, c, 0, 0);
        for (const Store &one : s.stores)
          if (c >= size(one.from) && c < size(*one.to))
            store(one);
      }
    }
  }

  /// A tile of an operand: `count` rows or columns by the cut's depth, as its copies leave it.
  std::vector<float> copy(const Stage &s, const Operand &from, bool isX, int64_t first, int64_t count, int64_t limit,
                          int64_t matrix, int64_t k0) {
    std::vector<float> tile(size_t(count * s.cut.depth));
    int64_t depth = size(s.depth);
    for (int64_t i = 0; i < count; ++i)
      for (int64_t k = k0; k < k0 + s.cut.depth; ++k) {
        int64_t own = std::min(first + i, limit - 1);
        stand(isX ? own : 0, isX ? 0 : own, matrix, std::min(k, depth - 1));
        tile[size_t(i * s.cut.depth + k - k0)] = k < depth ? float(load(from.buffer, from.at)) : 0;
      }
    return tile;
  }

  void product(const Stage &s) {
    int64_t rows = size(s.rows.extent()), columns = size(s.columns.extent()), depth = size(s.depth);
    const Cut &cut = s.cut;
    int64_t each = ((depth + cut.depth - 1) / cut.depth + s.split - 1) / s.split * cut.depth; // a part of the depth
    for (int64_t m = 0, matrices = size(s.matrices.extent()); m < matrices; ++m)
      for (int64_t r0 = 0; r0 < rows; r0 += cut.rows)
        for (int64_t c0 = 0; c0 < columns; c0 += cut.columns) {
          std::vector<std::vector<float>> parts(s.w.size(), std::vector<float>(size_t(cut.rows * cut.columns)));
          for (int64_t k0 = s.split > 1 ? m * each : 0; k0 < std::min(depth, s.split > 1 ? (m + 1) * each : depth);
               k0 += cut.depth) {
            std::vector<float> x = copy(s, s.x, true, r0, cut.rows, rows, m, k0);
            for (size_t part = 0; part < s.w.size(); ++part) {
              std::vector<float> w = copy(s, s.w[part], false, c0, cut.columns, columns, m, k0);
              for (int i = 0; i < cut.rows; ++i)
                for (int j = 0; j < cut.columns; ++j)
                  for (int k = 0; k < cut.depth; k += 16)
                    addSixteen(
                        parts[part][size_t(i) * size_t(cut.columns) + size_t(j)], k,
                        [&](int64_t in) { return x[size_t(i) * size_t(cut.depth) + size_t(in)]; },
                        [&](int64_t in) { return w[size_t(j) * size_t(cut.depth) + size_t(in)]; });
            }
          }
          for (int64_t r = r0; r < std::min(rows, r0 + cut.rows); ++r)
            for (int64_t c = c0; c < std::min(columns, c0 + cut.columns); ++c) {
              stand(r, c, m, 0);
              sums.clear();
              for (const std::vector<float> &part : parts)
                sums.push_back(part[size_t((r - r0) * cut.columns + c - c0)]);
              for (const Store &one : s.stores)
                store(one);
            }
        }
  }
};
} // namespace

void runOnHost(const Program &program, const std::map<std::string, int64_t> &lengths, std::vector<HostBuffer> buffers,
               std::optional<size_t> variant) {
  Runner runner(program, lengths, std::move(buffers));
  for (size_t i = 0; i < program.variants.size(); ++i) {
    const Variant &one = program.variants[i];
    if (variant ? *variant == i : !one.mostRows || runner.size(one.rows) <= one.mostRows)
      return runner.run(one);
  }
}

} // namespace quern::codegen::tile
