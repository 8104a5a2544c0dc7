// Takes: numbers. Gives: codes with a scale for each group. Why beside the loader's own: this is the judge of what it and
// the kernels that read codes do.
#include "ir/reference/Codes.h"

#include "llvm/ADT/APFloat.h"

#include <algorithm>
#include <cmath>

using namespace quern;
using namespace quern::ir;

static llvm::APFloat asHalf(float scale) {
  llvm::APFloat value(scale);
  bool inexact;
  value.convert(llvm::APFloat::IEEEhalf(), llvm::APFloat::rmNearestTiesToEven, &inexact);
  return value;
}

CodedGroup quern::ir::codedGroup(int bits, const std::vector<float> &numbers) {
  CodedGroup group;
  float largest = 0; // the first of the largest magnitude
  for (float x : numbers)
    if (std::fabs(x) > std::fabs(largest))
      largest = x;
  float scale = bits == 8 ? std::fabs(largest) / 127 : largest / -8, inverse = scale == 0 ? 0 : 1 / scale;
  group.scale = asHalf(scale).convertToFloat();
  for (size_t i = 0; i < numbers.size(); ++i) {
    float steps = numbers[i] * inverse;
    group.codes[i] = static_cast<int8_t>(bits == 8 ? std::round(steps) : std::min(std::floor(steps + 8.5f) - 8, 7.0f));
  }
  return group;
}

void quern::ir::packCodes(int bits, const std::vector<int64_t> &shape, int64_t tile, const double *numbers,
                          uint8_t *to) {
  const int64_t depth = shape.back(), rows = shape[shape.size() - 2], tiles = (rows + tile - 1) / tile,
                each = support::codesInStep(bits), bytes = support::bytesOfGroup(bits) * tile;
  int64_t all = rows;
  for (size_t d = 0; d + 2 < shape.size(); ++d)
    all *= shape[d];
  for (int64_t row = 0; row < all; ++row) {
    const int64_t matrix = row / rows, within = row % rows, column = within % tile;
    uint8_t *place = to + (matrix * tiles + within / tile) * support::codedBytes(bits, depth) * tile;
    for (int64_t first = 0; first < depth; first += support::codedGroup, place += bytes) {
      const double *from = numbers + row * depth + first;
      std::vector<float> some(from, from + std::min(support::codedGroup, depth - first));
      CodedGroup group = quern::ir::codedGroup(bits, some);
      const uint64_t scale = asHalf(group.scale).bitcastToAPInt().getZExtValue();
      place[column] = static_cast<uint8_t>(scale);
      place[tile + column] = static_cast<uint8_t>(scale >> 8);
      for (int64_t i = 0; i < support::codedGroup; ++i) {
        uint8_t *byte = place + 2 * tile + i / each * 4 * tile + column * 4 + i % 4;
        *byte = static_cast<uint8_t>(*byte | (group.codes[i] + (1 << (bits - 1))) << i % each / 4 * 4);
      }
    }
  }
}
