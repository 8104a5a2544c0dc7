// Takes: blocks whose codes are points of a grid, or digits to the base of 3. Gives: the codes.
//
// A grid is a set of points, and a point's number is its place among them. A bit for each point that may be is half of what a list takes
// in every program; the lists are made when the first block is read.
#include "runtime/formats/GridCodes.h"

#include <array>
#include <bit>
#include <cstring>
#include <span>

namespace quern::runtime {

namespace {

#include "runtime/formats/GridPoints.inc"

constexpr int8_t thirds[] = {8, 25, 43}, odd[] = {1, 3, 5, 7, 9, 11, 13, 15},
                 nearlyOdd[] = {4, 12, 20, 28, 36, 44, 52, 62},
                 ternary[] = {-8, 0, 8}; // eighths, of which one is added

struct Points {
  std::span<const uint64_t> bits;
  std::span<const int8_t> values; // of a digit
  int digits;
};
constexpr Points grids[] = {{pointsIQ2XXS, thirds, 8},    {pointsIQ2XS, thirds, 8}, {pointsIQ2S, thirds, 8},
                            {pointsIQ3XXS, nearlyOdd, 4}, {pointsIQ3S, odd, 4},     {pointsIQ1S, ternary, 8}};

/// The codes of all points of all grids.
struct Lists {
  int8_t codes[(256 + 512 + 1024 + 2048) * 8 + (256 + 512) * 4];
  const int8_t *begin[std::size(grids)];

  Lists() {
    int8_t *to = codes;
    for (size_t grid = 0; grid < std::size(grids); ++grid) {
      const Points &points = grids[grid];
      begin[grid] = to;
      for (size_t number = 0; number < points.bits.size() * 64; ++number) {
        size_t left = number;
        if (points.bits[number / 64] >> number % 64 & 1)
          for (int i = 0; i < points.digits; ++i, left /= points.values.size())
            *to++ = points.values[left % points.values.size()];
      }
    }
  }
};

} // namespace

void readGridCodes(const GridCodes &form, const uint8_t *block, int8_t *codes) {
  static const Lists lists;
  const int8_t *points = lists.begin[int(form.grid)];
  const int digits = grids[int(form.grid)].digits;
  for (int i = 0; i < 256 / digits; ++i) {
    const unsigned number = form.low.at(block, i) | form.high.at(block, i) << form.low.width;
    std::memcpy(codes + i * digits, points + number * unsigned(digits), size_t(digits));
  }
  for (int i = 0; i < 256 / 8; ++i, codes += 8) {
    unsigned signs = form.signs.at(block, i);
    if (form.signs.width == 7)
      signs |= unsigned(std::popcount(signs) & 1) << 7;
    for (int k = 0; k < 8; ++k)
      if (form.signs.width == 1)
        codes[k] = int8_t(codes[k] + (signs ? -1 : 1));
      else if (signs >> k & 1)
        codes[k] = int8_t(-codes[k]);
  }
}

void readTernaryCodes(const uint8_t *block, int8_t *codes) {
  for (const auto &[at, run, digits] : {std::array{0, 32, 5}, {32, 16, 5}, {48, 4, 4}})
    for (int digit = 0, power = 1; digit < digits; ++digit, power *= 3)
      for (int i = 0; i < run; ++i)
        *codes++ = int8_t((uint8_t(block[at + i] * power) * 3 >> 8) - 1);
}

} // namespace quern::runtime
