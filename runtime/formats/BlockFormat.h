// Numbers in few bits, in blocks: the formats of GGUF (https://github.com/ggml-org/ggml) as rows of a table.
#ifndef QUERN_RUNTIME_FORMATS_BLOCKFORMAT_H
#define QUERN_RUNTIME_FORMATS_BLOCKFORMAT_H

#include "runtime/formats/GridCodes.h"
#include "support/Storage.h"

#include <cstdint>
#include <cstring>
#include <string_view>

namespace quern::runtime {

/// Bits of codes: `8 / bits` codes share a byte. Codes come in runs of `run` bytes: first the lowest bits of each byte of
/// the run, then the next ones of each, and so on.
struct CodePlane {
  uint8_t at, bits, run; // the offset in the block; no plane has 0 bits
};

/// How a group's scale and minimum are stored. All but Exponent begin with a scale in f16.
enum class ScaleKind : uint8_t {
  One,      // one scale for the block
  Shifted,  // and one value that is added, in f16
  Exponent, // a byte e: 2^(e - 128)
  Nibbles,  // a byte for each group: scale in the low, minimum in the high four bits; a scale in f16 for each of both
  SixBits,  // 12 bytes: eight scales and eight minimums of six bits; a scale in f16 for each of both
  SixBitsOnly, // 12 bytes: sixteen scales of six bits, less 32
  Bytes,       // a signed byte for each group
  SplitBits,   // scales of six bits, less 32: the low four in nibbles, the high two in 16 bits before them
  Odd,         // each group's count of units is odd: GridCodes says where it is
  SplitOdd,    // the same, with the scale in f16 in the highest four bits of four numbers of 16
  ByteFloats   // E4M3 without a sign for each group, halved
};

/// A block of `elements` numbers in `bytes` bytes, in groups that share a scale:
///     value = scale * code - minimum,  code = table[bits] or bits - offset (8 bits are signed) or of a point of a grid
/// Without planes and grid, codes are ternary: five in a byte.
struct BlockFormat {
  const char *name;
  uint8_t ggml; // the number of the type in GGUF
  int16_t elements, bytes, group;
  CodePlane low, high;
  int8_t offset;
  const int8_t *table; // of 16 codes; null: none
  ScaleKind scales;
  uint8_t scaleAt, minimumAt, groupsAt; // offsets: of the scale, the minimum or its scale, of what each group has
  const GridCodes *grid = nullptr;
};

/// Null if there is none.
const BlockFormat *findBlockFormat(std::string_view name);
const BlockFormat *findBlockFormat(uint32_t ggml);
/// "Q4_0, Q4_1, ...": for messages.
const char *blockFormatNames();

/// The largest block, and the most groups of one.
constexpr int maxBlockElements = 256, maxBlockGroups = 16;

/// A block's codes, and for each of its groups the scale and the minimum (0 where the format has none).
struct BlockCodes {
  int8_t codes[maxBlockElements];
  float scales[maxBlockGroups], minimums[maxBlockGroups];
};
void unpackBlock(const BlockFormat &format, const uint8_t *block, BlockCodes &result);

/// A super-block whose scales have two levels: units in f16 (their bits), and how many of them each group has.
struct SuperCodes {
  uint16_t unit = 0, unitOfMinimums = 0;
  int group = 0;
  int8_t scales[maxBlockGroups] = {};
  uint8_t minimums[maxBlockGroups] = {};
  int8_t codes[maxBlockElements] = {};
};
/// Of a format whose scales are so: Q2_K to Q6_K, IQ4_XS and IQ3_S, and Q4_1 and Q5_1, whose only group has one unit of each.
SuperCodes unpackSuperBlock(const BlockFormat &format, const uint8_t *block);

/// Elements [first, first + count) of a row of blocks, exactly as the format defines them in f32.
void decodeBlocks(const BlockFormat &format, const uint8_t *blocks, int64_t first, int64_t count, float *to);

/// Whether groups of 32 of Q8_0 or Q4_0 (`bits` of 8 or 4) have the numbers of this format: one scale for 32 or more, codes that
/// fit. Of MXFP4 also where exponents are within f16: `regroup` says of which blocks that is true.
bool fitsGroups(const BlockFormat &format, int bits);
/// 32 elements of a block, from `first` on, as a block of Q8_0 or Q4_0 of the same numbers; false where f16 lacks its scale.
bool regroup(const BlockFormat &format, const uint8_t *block, int first, int bits, uint8_t *to);
/// The same from 32 codes, of 8 bits perhaps more, and the bits of a scale in f16; `code(i)` gives the i-th.
template <typename Code>
void joinGroup(uint16_t scale, int bits, Code code, uint8_t *to, int64_t count = support::codedGroup) {
  std::memcpy(to, &scale, 2);
  // Q4_0: 8 more than the code, the first half of them in the low halves.
  for (int i = 0; i < (bits == 8 ? count : count / 2); ++i)
    to[2 + i] = bits == 8 ? uint8_t(code(i)) : uint8_t((code(i) + 8) | (code(i + 16) + 8) << 4);
}

/// Rows of blocks from numbers: Q8_0 (rounded to the nearest, halves away from 0) or Q4_0 (the number of largest
/// magnitude becomes -8), bit for bit as ggml makes them. `count` is a multiple of 32.
void encodeQ8_0(const float *from, int64_t count, uint8_t *blocks); // NOLINT: the format's own name
void encodeQ4_0(const float *from, int64_t count, uint8_t *blocks); // NOLINT: the format's own name
/// One group of `count` as Q8_0 has it for 32: a scale in f16, then the codes.
void encodeByteGroup(const float *from, int64_t count, uint8_t *group);

/// At most form.length numbers, as `quern.quantize` says (ir/ElementwiseOps.td): rounded to the nearest of scales that are rounded
/// down. What is beyond has codes of 0.
SuperCodes encodeSuperBlock(const support::SuperBlocks &form, const float *from, int64_t count);

} // namespace quern::runtime
#endif
