// Takes: blocks of codes. Gives: the codes with their scales, and the numbers that they stand for.
#include "runtime/formats/BlockFormat.h"

#include "runtime/files/Safetensors.h"
#include "support/numbers/SmallFloats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace quern::runtime {

namespace {

constexpr int8_t nonlinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr int8_t e2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}; // doubled: whole numbers

// grid, low, high, signs, counts, unit
constexpr GridCodes
    iq2xxs = {Grid::IQ2XXS, {16, 4, 64, 8, 8}, {0, 1, 0, 0, 0}, {48, 4, 64, 7, 7}, {76, 1, 64, 0, 4}, 0.125f},
    iq2xs = {Grid::IQ2XS, {16, 1, 16, 0, 9}, {0, 1, 0, 0, 0}, {25, 1, 16, 0, 7}, {528, 1, 4, 0, 4}, 0.125f},
    iq2s = {Grid::IQ2S, {16, 1, 8, 0, 8}, {528, 1, 2, 0, 2}, {272, 1, 8, 0, 8}, {592, 1, 4, 0, 4}, 0.125f},
    iq3xxs = {Grid::IQ3XXS, {16, 1, 8, 0, 8}, {0, 1, 0, 0, 0}, {528, 4, 32, 7, 7}, {556, 1, 32, 0, 4}, 0.25f},
    iq3s = {Grid::IQ3S, {16, 1, 8, 0, 8}, {528, 1, 1, 0, 1}, {592, 1, 8, 0, 8}, {848, 1, 4, 0, 4}, 1},
    iq1s = {Grid::IQ1S, {16, 1, 8, 0, 8}, {272, 4, 16, 3, 3}, {287, 4, 16, 0, 1}, {284, 1, 16, 0, 3}, 0.125f},
    iq1m = {Grid::IQ1S, {0, 1, 8, 0, 8}, {256, 1, 4, 0, 3}, {259, 1, 4, 0, 1}, {384, 4, 16, 3, 3}, 0.125f};

constexpr CodePlane none = {0, 0, 0};
constexpr BlockFormat formats[] = {
    // name, ggml, elements, bytes, group, low plane, high plane, offset, table, scales, scaleAt, minimumAt, groupsAt, grid
    {"Q4_0", 2, 32, 18, 32, {2, 4, 16}, none, 8, nullptr, ScaleKind::One, 0, 0, 0},
    {"Q4_1", 3, 32, 20, 32, {4, 4, 16}, none, 0, nullptr, ScaleKind::Shifted, 0, 2, 0},
    {"Q5_0", 6, 32, 22, 32, {6, 4, 16}, {2, 1, 1}, 16, nullptr, ScaleKind::One, 0, 0, 0},
    {"Q5_1", 7, 32, 24, 32, {8, 4, 16}, {4, 1, 1}, 0, nullptr, ScaleKind::Shifted, 0, 2, 0},
    {"Q8_0", 8, 32, 34, 32, {2, 8, 32}, none, 0, nullptr, ScaleKind::One, 0, 0, 0},
    {"Q2_K", 10, 256, 84, 16, {16, 2, 32}, none, 0, nullptr, ScaleKind::Nibbles, 80, 82, 0},
    {"Q3_K", 11, 256, 110, 16, {32, 2, 32}, {0, 1, 32}, 4, nullptr, ScaleKind::SixBitsOnly, 108, 0, 96},
    {"Q4_K", 12, 256, 144, 32, {16, 4, 32}, none, 0, nullptr, ScaleKind::SixBits, 0, 2, 4},
    {"Q5_K", 13, 256, 176, 32, {48, 4, 32}, {16, 1, 32}, 0, nullptr, ScaleKind::SixBits, 0, 2, 4},
    {"Q6_K", 14, 256, 210, 16, {0, 4, 64}, {128, 2, 32}, 32, nullptr, ScaleKind::Bytes, 208, 0, 192},
    {"IQ2_XXS", 16, 256, 66, 32, none, none, 0, nullptr, ScaleKind::Odd, 0, 0, 0, &iq2xxs},
    {"IQ2_XS", 17, 256, 74, 16, none, none, 0, nullptr, ScaleKind::Odd, 0, 0, 0, &iq2xs},
    {"IQ3_XXS", 18, 256, 98, 32, none, none, 0, nullptr, ScaleKind::Odd, 0, 0, 0, &iq3xxs},
    {"IQ1_S", 19, 256, 50, 32, none, none, 0, nullptr, ScaleKind::Odd, 0, 0, 0, &iq1s},
    {"IQ4_NL", 20, 32, 18, 32, {2, 4, 16}, none, 0, nonlinear, ScaleKind::One, 0, 0, 0},
    {"IQ3_S", 21, 256, 110, 32, none, none, 0, nullptr, ScaleKind::Odd, 0, 0, 0, &iq3s},
    {"IQ2_S", 22, 256, 82, 16, none, none, 0, nullptr, ScaleKind::Odd, 0, 0, 0, &iq2s},
    {"IQ4_XS", 23, 256, 136, 32, {8, 4, 16}, none, 0, nonlinear, ScaleKind::SplitBits, 0, 0, 4},
    {"IQ1_M", 29, 256, 56, 16, none, none, 0, nullptr, ScaleKind::SplitOdd, 48, 0, 0, &iq1m},
    {"TQ1_0", 34, 256, 54, 256, none, none, 1, nullptr, ScaleKind::One, 52, 0, 0},
    {"TQ2_0", 35, 256, 66, 256, {0, 2, 32}, none, 1, nullptr, ScaleKind::One, 64, 0, 0},
    {"MXFP4", 39, 32, 17, 32, {1, 4, 16}, none, 0, e2m1, ScaleKind::Exponent, 0, 0, 0},
    {"NVFP4", 40, 64, 36, 16, {4, 4, 8}, none, 0, e2m1, ScaleKind::ByteFloats, 0, 0, 0},
};

float halfAt(const uint8_t *at) {
  uint16_t bits;
  std::memcpy(&bits, at, 2);
  return support::halfToFloat(bits);
}

/// Adds a plane's bits to `codes`, `shift` bits up.
void addPlane(CodePlane plane, int shift, const uint8_t *block, int elements, uint8_t *codes) {
  const uint8_t *bytes = block + plane.at;
  const unsigned mask = (1u << plane.bits) - 1;
  for (int at = 0; at < elements; bytes += plane.run)
    for (unsigned low = 0; low < 8; low += plane.bits, at += plane.run)
      for (int i = 0; i < plane.run; ++i)
        codes[at + i] = uint8_t(codes[at + i] | (bytes[i] >> low & mask) << shift);
}

/// E4M3 without a sign, halved, as GGUF has it: 0x7f is 0.
float halvedByteFloat(uint8_t bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  if (bits == 0x7f)
    return 0;
  return exponent ? std::ldexp(float(8 + mantissa), exponent - 11) : float(mantissa) / 1024;
}

/// Of kinds whose groups count units.
void readCounts(const BlockFormat &format, const uint8_t *block, int8_t *scales, uint8_t *minimums) {
  const int groups = format.elements / format.group;
  const uint8_t *q = block + format.groupsAt;
  switch (format.scales) {
  case ScaleKind::Nibbles:
    for (int g = 0; g < groups; ++g) {
      scales[g] = int8_t(q[g] & 15);
      minimums[g] = q[g] >> 4;
    }
    return;
  case ScaleKind::SixBits:
    for (int g = 0; g < groups; ++g) {
      scales[g] = int8_t(g < 4 ? q[g] & 63 : (q[g + 4] & 15) | (q[g - 4] >> 6) << 4);
      minimums[g] = uint8_t(g < 4 ? q[g + 4] & 63 : q[g + 4] >> 4 | (q[g] >> 6) << 4);
    }
    return;
  case ScaleKind::SixBitsOnly:
    for (int g = 0; g < groups; ++g)
      scales[g] = int8_t(((q[g % 8] >> g / 8 * 4 & 15) | (q[8 + g % 4] >> g / 4 * 2 & 3) << 4) - 32);
    return;
  case ScaleKind::Bytes:
    std::memcpy(scales, q, size_t(groups));
    return;
  case ScaleKind::Shifted:
    scales[0] = 1;
    minimums[0] = 1;
    return;
  case ScaleKind::SplitBits: {
    uint16_t high;
    std::memcpy(&high, q - 2, 2);
    for (int g = 0; g < groups; ++g)
      scales[g] = int8_t(((q[g / 2] >> g % 2 * 4 & 15) | (high >> 2 * g & 3) << 4) - 32);
    return;
  }
  case ScaleKind::Odd:
  case ScaleKind::SplitOdd:
    for (int g = 0; g < groups; ++g)
      scales[g] = int8_t(2 * format.grid->counts.at(block, g) + 1);
    return;
  default:
    return;
  }
}

/// The block's scale in f16.
float scaleOf(const BlockFormat &format, const uint8_t *block) {
  const uint8_t *at = block + format.scaleAt;
  if (format.scales != ScaleKind::SplitOdd)
    return halfAt(at);
  unsigned bits = 0;
  for (int i = 0; i < 4; ++i)
    bits |= unsigned(at[2 * i + 1] >> 4) << 4 * i;
  return support::halfToFloat(uint16_t(bits));
}

/// Whether a second number in f16 is the unit of minimums.
bool countsMinimums(const BlockFormat &format) {
  return format.scales == ScaleKind::Nibbles || format.scales == ScaleKind::SixBits;
}

void readScales(const BlockFormat &format, const uint8_t *block, float *scales, float *minimums) {
  const int groups = format.elements / format.group;
  std::fill_n(minimums, groups, 0.0f);
  if (format.scales == ScaleKind::Exponent) {
    // 2^(e - 128), also where that is a denormal number
    uint32_t e = block[format.scaleAt];
    scales[0] = std::bit_cast<float>(e < 2 ? uint32_t(0x200000) << e : (e - 1) << 23);
    return;
  }
  if (format.scales == ScaleKind::ByteFloats) {
    for (int g = 0; g < groups; ++g)
      scales[g] = halvedByteFloat(block[format.groupsAt + g]);
    return;
  }
  const float scale = scaleOf(format, block) * (format.grid ? format.grid->unit : 1);
  if (format.scales == ScaleKind::One || format.scales == ScaleKind::Shifted) {
    scales[0] = scale;
    if (format.scales == ScaleKind::Shifted)
      minimums[0] = -halfAt(block + format.minimumAt);
    return;
  }
  int8_t counts[maxBlockGroups];
  uint8_t countsOfMinimums[maxBlockGroups];
  readCounts(format, block, counts, countsOfMinimums);
  const float unit = countsMinimums(format) ? halfAt(block + format.minimumAt) : 0;
  for (int g = 0; g < groups; ++g) {
    scales[g] = scale * float(counts[g]);
    if (countsMinimums(format))
      minimums[g] = unit * float(countsOfMinimums[g]);
  }
}

void readCodes(const BlockFormat &format, const uint8_t *block, int8_t *codes) {
  if (format.grid)
    return readGridCodes(*format.grid, block, codes);
  if (!format.low.bits)
    return readTernaryCodes(block, codes);
  uint8_t bits[maxBlockElements] = {};
  addPlane(format.low, 0, block, format.elements, bits);
  if (format.high.bits)
    addPlane(format.high, format.low.bits, block, format.elements, bits);
  for (int i = 0; i < format.elements; ++i)
    codes[i] = format.table ? format.table[bits[i]] : int8_t(bits[i] - format.offset);
}

} // namespace

const BlockFormat *findBlockFormat(std::string_view name) {
  auto found =
      std::find_if(std::begin(formats), std::end(formats), [&](const BlockFormat &f) { return f.name == name; });
  return found == std::end(formats) ? nullptr : found;
}

const BlockFormat *findBlockFormat(uint32_t ggml) {
  auto found =
      std::find_if(std::begin(formats), std::end(formats), [&](const BlockFormat &f) { return f.ggml == ggml; });
  return found == std::end(formats) ? nullptr : found;
}

const char *blockFormatNames() {
  return "Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, "
         "IQ3_S, IQ4_NL, IQ4_XS, TQ1_0, TQ2_0, MXFP4, NVFP4";
}

void unpackBlock(const BlockFormat &format, const uint8_t *block, BlockCodes &result) {
  readScales(format, block, result.scales, result.minimums);
  readCodes(format, block, result.codes);
}

SuperCodes unpackSuperBlock(const BlockFormat &format, const uint8_t *block) {
  SuperCodes result;
  std::memcpy(&result.unit, block + format.scaleAt, 2);
  if (countsMinimums(format) || format.scales == ScaleKind::Shifted)
    std::memcpy(&result.unitOfMinimums, block + format.minimumAt, 2);
  if (format.scales == ScaleKind::Shifted)
    result.unitOfMinimums ^= 0x8000; // what is added is subtracted here
  result.group = format.group;
  readCounts(format, block, result.scales, result.minimums);
  readCodes(format, block, result.codes);
  return result;
}

bool fitsGroups(const BlockFormat &format, int bits) {
  if (format.scales != ScaleKind::One && format.scales != ScaleKind::Exponent)
    return false;
  const int most = (1 << (format.low.bits + format.high.bits)) - 1, end = 1 << (bits - 1);
  auto fits = [&](int code) { return code >= -end && code < end; };
  if (format.table)
    return std::all_of(format.table, format.table + 16, fits);
  return bits == 8 || (format.low.bits < 8 && fits(-format.offset) && fits(most - format.offset));
}

bool regroup(const BlockFormat &format, const uint8_t *block, int first, int bits, uint8_t *to) {
  BlockCodes codes;
  unpackBlock(format, block, codes);
  const float scale = codes.scales[first / format.group];
  const uint16_t half = support::floatToHalf(scale);
  joinGroup(half, bits, [&](int i) { return codes.codes[first + i]; }, to);
  return support::halfToFloat(half) == scale;
}

void decodeBlocks(const BlockFormat &format, const uint8_t *blocks, int64_t first, int64_t count, float *to) {
  BlockCodes block;
  const int64_t end = first + count;
  for (int64_t number = first / format.elements; number * format.elements < end; ++number) {
    unpackBlock(format, blocks + number * format.bytes, block);
    const int64_t base = number * format.elements;
    const int begin = int(std::max(first - base, int64_t(0))),
              stop = int(std::min(end - base, int64_t(format.elements)));
    for (int i = begin; i < stop;) {
      const int group = i / format.group, last = std::min(stop, (group + 1) * format.group);
      const float scale = block.scales[group], minimum = block.minimums[group];
      for (; i < last; ++i)
        *to++ = scale * float(block.codes[i]) - minimum;
    }
  }
}

} // namespace quern::runtime
