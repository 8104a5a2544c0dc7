// Takes: numbers. Gives: codes with their scales. Why beside the loader's own: this is the judge of what it and the kernels
// that read codes do.
#include "ir/reference/Codes.h"

#include "support/numbers/SmallFloats.h"
#include "support/numbers/SuperWords.h"

#include "llvm/ADT/APFloat.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

using namespace quern;
using namespace quern::ir;
using llvm::APFloat;
using support::Storage;
using support::SuperBlocks;

namespace {

APFloat asHalf(float scale, APFloat::roundingMode rounding = APFloat::rmNearestTiesToEven) {
  APFloat value(scale);
  bool inexact;
  value.convert(APFloat::IEEEhalf(), rounding, &inexact);
  return value;
}

uint32_t bitsOf(const APFloat &half) {
  return static_cast<uint32_t>(half.bitcastToAPInt().getZExtValue());
}

// ---- groups that have a scale in f16

struct CodedGroup {
  float scale = 0; ///< a number that f16 has
  std::array<int8_t, support::longCodedGroup> codes{};
  double number(size_t i) const { return double(scale) * codes[i]; } // exact in f32
};

CodedGroup codedGroup(int bits, const std::vector<float> &numbers, bool paired = false) {
  CodedGroup group;
  float largest = 0; // the first of the largest magnitude
  for (float x : numbers)
    if (std::fabs(x) > std::fabs(largest))
      largest = x;
  for (size_t i = 0; paired && i + 1 < numbers.size(); i += 2)
    largest = std::max(std::fabs(largest), std::fabs(numbers[i]) + std::fabs(numbers[i + 1]));
  float scale = bits == 8 ? std::fabs(largest) / 127 : largest / -8, inverse = scale == 0 ? 0 : 1 / scale;
  group.scale = asHalf(scale).convertToFloat();
  for (size_t i = 0; i < numbers.size(); ++i) {
    float steps = numbers[i] * inverse;
    group.codes[i] = static_cast<int8_t>(bits == 8 ? std::round(steps) : std::min(std::floor(steps + 8.5f) - 8, 7.0f));
  }
  return group;
}

void packGroup(Storage storage, const std::vector<float> &numbers, int64_t tile, int64_t column, uint8_t *to) {
  const int bits = bitsOfCode(storage);
  const CodedGroup group = codedGroup(bits, numbers);
  const uint32_t scale = bitsOf(asHalf(group.scale));
  const int64_t each = support::codesInStep(bits);
  to[column] = static_cast<uint8_t>(scale);
  to[tile + column] = static_cast<uint8_t>(scale >> 8);
  for (int64_t i = 0; i < support::groupOf(storage); ++i) {
    uint8_t *byte = to + 2 * tile + i / each * 4 * tile + column * 4 + i % 4;
    *byte = static_cast<uint8_t>(*byte | (group.codes[i] + (1 << (bits - 1))) << i % each / 4 * 4);
  }
}

// ---- floats of one byte

struct CodedFloats {
  float scale = 0;
  std::vector<APFloat> codes;
  float number(size_t i) const { return scale * codes[i].convertToFloat(); }
};

const llvm::fltSemantics &semanticsOf(Storage storage) {
  return storage == Storage::F8E4M3 ? APFloat::Float8E4M3FN() : APFloat::Float8E5M2();
}

/// The nearest codes for a scale; nothing where they must be exact and are not.
std::optional<CodedFloats> inScale(const llvm::fltSemantics &semantics, const std::vector<float> &numbers, float scale,
                                   bool exactly) {
  const float most = APFloat::getLargest(semantics).convertToFloat();
  CodedFloats group{scale, std::vector<APFloat>(support::floatGroup, APFloat::getZero(semantics))};
  for (size_t i = 0; i < numbers.size() && scale > 0; ++i) {
    bool inexact;
    group.codes[i] = APFloat(std::clamp(numbers[i] / scale, -most, most));
    group.codes[i].convert(semantics, APFloat::rmNearestTiesToEven, &inexact);
    if (exactly && group.number(i) != numbers[i])
      return std::nullopt;
  }
  return group;
}

CodedFloats codedFloats(Storage storage, const std::vector<float> &numbers) {
  const llvm::fltSemantics &semantics = semanticsOf(storage);
  const float most = APFloat::getLargest(semantics).convertToFloat();
  float largest = 0;
  for (float x : numbers)
    largest = std::isnan(x) ? x : std::max(largest, std::fabs(x));
  float usual = support::bf16ToFloat(support::floatToBF16(largest / most));
  if (!std::isfinite(usual))
    usual = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> scales = {usual};
  const int mantissas = 1 << (APFloat::semanticsPrecision(semantics) - 1);
  for (int mantissa = mantissas; mantissa < 2 * mantissas && usual > 0; ++mantissa) {
    const float scale =
        largest / std::ldexp(static_cast<float>(mantissa),
                             static_cast<int>(std::floor(std::log2(most / static_cast<float>(mantissa)))));
    for (int away : {0, 1, -1, 2, -2})
      scales.push_back(std::bit_cast<float>(std::bit_cast<uint32_t>(scale) + static_cast<uint32_t>(away)));
  }
  for (float scale : scales)
    if (std::optional<CodedFloats> exact = inScale(semantics, numbers, scale, true))
      return std::move(*exact);
  return *inScale(semantics, numbers, usual, false);
}

void packFloats(Storage storage, const std::vector<float> &numbers, int64_t tile, int64_t column, uint8_t *to) {
  const CodedFloats group = codedFloats(storage, numbers);
  const uint32_t scale = std::bit_cast<uint32_t>(group.scale * support::floatCodesOf(storage)->unit);
  for (int64_t i = 0; i < 4; ++i)
    to[i * tile + column] = static_cast<uint8_t>(scale >> 8 * i);
  for (int64_t i = 0; i < support::floatGroup; ++i)
    to[(4 + i) * tile + column] = static_cast<uint8_t>(group.codes[i].bitcastToAPInt().getZExtValue());
}

// ---- super-blocks

struct CodedBlock {
  APFloat unit = APFloat::getZero(APFloat::IEEEhalf()), unitOfMinimums = unit; ///< in f16
  std::array<int, support::longestSuperBlock> scales{}, minimums{}, codes{};   ///< of groups, of groups, of numbers
  int group = 1;
  float scale(size_t g) const { return unit.convertToFloat() * static_cast<float>(scales[g]); }
  float minimum(size_t g) const { return unitOfMinimums.convertToFloat() * static_cast<float>(minimums[g]); }
  double number(size_t i) const { return scale(i / group) * static_cast<float>(codes[i]) - minimum(i / group); }
};

/// What the largest is counted in. A little more than its share, as what has been rounded may have become a little less.
APFloat unitFor(float largest, int most) {
  return asHalf(largest / static_cast<float>(most) * 1.00002f, APFloat::rmTowardZero);
}

int unitsIn(float x, const APFloat &unit, int most) {
  return unit.isZero()
             ? 0
             : static_cast<int>(std::min(std::floor(x / unit.convertToFloat() + 0.01f), static_cast<float>(most)));
}

CodedBlock codedBlock(const SuperBlocks &form, const std::vector<float> &numbers) {
  constexpr int mostScale = 127, mostMinimum = 255;
  CodedBlock block;
  block.group = form.group;
  const size_t groups = (numbers.size() + form.group - 1) / form.group;
  std::vector<float> least(groups), greatest(groups),
      scales(groups); // the greatest by magnitude where codes have a sign
  for (size_t i = 0; i < numbers.size(); ++i) {
    const size_t g = i / form.group;
    least[g] = std::min(least[g], numbers[i]);
    if (form.hasSign ? std::fabs(numbers[i]) > std::fabs(greatest[g]) : i % form.group == 0 || numbers[i] > greatest[g])
      greatest[g] = numbers[i];
  }
  if (!form.hasSign) {
    block.unitOfMinimums = unitFor(-*std::min_element(least.begin(), least.end()), mostMinimum);
    for (size_t g = 0; g < groups; ++g)
      block.minimums[g] = unitsIn(-least[g], block.unitOfMinimums, mostMinimum);
  }
  for (size_t g = 0; g < groups; ++g)
    scales[g] = form.hasSign ? std::fabs(greatest[g]) / static_cast<float>(-form.least())
                             : std::max((greatest[g] + block.minimum(g)) / static_cast<float>(form.most()), 0.0f);
  block.unit = unitFor(*std::max_element(scales.begin(), scales.end()), mostScale);
  for (size_t g = 0; g < groups; ++g)
    block.scales[g] = unitsIn(scales[g], block.unit, mostScale) * (form.hasSign && greatest[g] > 0 ? -1 : 1);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const float scale = block.scale(i / form.group), steps = (numbers[i] + block.minimum(i / form.group)) / scale;
    if (scale != 0)
      block.codes[i] = static_cast<int>(
          std::clamp(std::floor(steps + 0.5f), static_cast<float>(form.least()), static_cast<float>(form.most())));
  }
  return block;
}

void packBlock(const SuperBlocks &form, const std::vector<float> &numbers, int64_t tile, int64_t column, uint8_t *to) {
  const CodedBlock block = codedBlock(form, numbers);
  auto add = [&](int word, uint32_t bits) {
    uint8_t *at = to + (word * tile + column) * 4;
    uint32_t value;
    std::memcpy(&value, at, 4);
    value |= bits;
    std::memcpy(at, &value, 4);
  };
  add(0, bitsOf(block.unit) | bitsOf(block.unitOfMinimums) << 16);
  for (int g = 0; g < form.groups(); ++g)
    add(1 + g / 2, ((block.scales[g] & 255u) | static_cast<uint32_t>(block.minimums[g]) << 8) << g % 2 * 16);
  for (int i = 0; i < form.length; ++i) {
    const int within = i % form.group, words = form.headWords() + i / form.group * form.wordsOfGroup();
    const uint32_t code = static_cast<uint32_t>(block.codes[i]) & ((1u << form.bits) - 1);
    add(words + within / 8, (code & 15) << support::lowBitOf(within));
    if (form.highBits())
      add(words + support::highWordOf(form, within), (code >> 4) << support::highBitOf(form, within));
  }
}

} // namespace

std::vector<double> quern::ir::codedNumbers(Storage storage, const std::vector<float> &numbers, bool paired) {
  std::vector<double> result(numbers.size());
  auto numbersOf = [&](const auto &coded) {
    for (size_t i = 0; i < numbers.size(); ++i)
      result[i] = coded.number(i);
  };
  if (const SuperBlocks *form = support::superBlocksOf(storage))
    numbersOf(codedBlock(*form, numbers));
  else if (support::floatCodesOf(storage))
    numbersOf(codedFloats(storage, numbers));
  else
    numbersOf(codedGroup(bitsOfCode(storage), numbers, paired));
  return result;
}

void quern::ir::packCodes(Storage storage, const std::vector<int64_t> &shape, int64_t tile, const double *numbers,
                          uint8_t *to) {
  const int64_t depth = shape.back(), rows = shape[shape.size() - 2], tiles = (rows + tile - 1) / tile,
                each = support::blockOf(storage);
  int64_t all = rows;
  for (size_t d = 0; d + 2 < shape.size(); ++d)
    all *= shape[d];
  for (int64_t row = 0; row < all; ++row) {
    const int64_t matrix = row / rows, within = row % rows;
    uint8_t *place = to + (matrix * tiles + within / tile) * support::bytesOf(storage, depth) * tile;
    for (int64_t first = 0; first < depth; first += each, place += support::bytesOf(storage, each) * tile) {
      const double *from = numbers + row * depth + first;
      std::vector<float> some(from, from + std::min(each, depth - first));
      if (const SuperBlocks *form = support::superBlocksOf(storage))
        packBlock(*form, some, tile, within % tile, place);
      else if (support::floatCodesOf(storage))
        packFloats(storage, some, tile, within % tile, place);
      else
        packGroup(storage, some, tile, within % tile, place);
    }
  }
}
