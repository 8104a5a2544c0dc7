// Takes: a block of a weight's numbers. Gives: its scales and codes where kernels read them. Why through GGUF's blocks: the
// numbers are those of its formats, so what a file has in these is only moved.
#include "runtime/weights/PackCodes.h"

#include "runtime/formats/ByteFloats.h"
#include "runtime/formats/SuperWords.h"

#include <algorithm>
#include <cstring>

namespace quern::runtime {

namespace {

constexpr const char *bytes[] = {"Q8_0"}, *nibbles[] = {"Q4_0"}, *longGroups[] = {"int8_g128"};
constexpr const char *eightBits[] = {"q8_k", "IQ4_XS", "IQ3_S", "q5_k", "Q5_K", "q4_k", "Q4_K"}; // groups of 32
constexpr const char *sixBits[] = {"q6_k", "Q6_K", "q5_k", "Q5_K", "q4_k", "Q4_K", "Q3_K", "Q2_K", "IQ3_S"};
constexpr const char *fiveBits[] = {"q5_k", "Q5_K", "q4_k", "Q4_K"}; // codes without a sign, groups of 32
constexpr const char *fourBits[] = {"q4_k", "Q4_K"};
constexpr const char *shortFour[] = {"q4_1", "Q4_1"}, *shortFive[] = {"q5_1", "Q5_1", "q4_1", "Q4_1"};
constexpr const char *withZeros[] = {"q4_z"};
constexpr const char *floats[] = {"f8_e4m3"}, *wideFloats[] = {"f8_e5m2"};

void packGroup(Storage storage, const uint8_t *block, const float *numbers, int64_t tile, int64_t row, uint8_t *to) {
  const int64_t group = support::groupOf(storage);
  const bool wide = bitsOfCode(storage) == 8;
  uint8_t made[2 + support::longCodedGroup];
  if (!block) {
    wide ? encodeByteGroup(numbers, group, made) : encodeQ4_0(numbers, group, made);
    block = made;
  }
  to[row] = block[0];
  to[tile + row] = block[1];
  const uint8_t *codes = block + 2;
  // Q4_0 has 8 more than the code, as here; the first sixteen in the low halves.
  auto half = [&](int i) { return i < 16 ? codes[i] & 15 : codes[i - 16] >> 4; };
  to += 2 * tile + row * 4;
  for (int i = 0, each = wide ? 4 : 8; i < group; i += each, to += 4 * tile)
    for (int part = 0; part < 4; ++part)
      to[part] = wide ? uint8_t(codes[i + part] ^ 0x80) : uint8_t(half(i + part) | half(i + 4 + part) << 4);
}

void spreadWords(const support::SuperBlocks &form, const uint32_t *words, int64_t tile, int64_t row, uint8_t *to) {
  for (int word = 0; word < form.words(); ++word)
    std::memcpy(to + (word * tile + row) * 4, &words[word], 4);
}

void packFloats(Storage storage, const uint8_t *block, const float *numbers, int64_t count, int64_t tile, int64_t row,
                uint8_t *to) {
  uint8_t made[bytesOfFloatGroup];
  if (!block) {
    encodeFloatGroup(storage, numbers, count, made);
    block = made;
  }
  for (int64_t i = 0; i < bytesOfFloatGroup; ++i)
    to[i * tile + row] = block[i];
}

/// A super-block that is in a format of GGUF, or in words of its own.
SuperCodes superCodesOf(const FoundBlock &stored) {
  if (const BlockFormat *format = findBlockFormat(stored.format))
    return unpackSuperBlock(*format, stored.bytes);
  uint32_t words[support::longestSuperBlock];
  const support::SuperBlocks &form = *support::superBlocksOf(*support::storageByName(stored.format));
  std::memcpy(words, stored.bytes, size_t(form.words()) * 4);
  return unpackWords(form, words);
}

} // namespace

std::span<const char *const> blockNamesOf(Storage storage) {
  switch (storage) {
  case Storage::Int8:
    return bytes;
  case Storage::Int8G128:
    return longGroups;
  case Storage::Int4:
    return nibbles;
  case Storage::Q8K:
    return eightBits;
  case Storage::Q6K:
    return sixBits;
  case Storage::Q5K:
    return fiveBits;
  case Storage::Q41:
    return shortFour;
  case Storage::Q51:
    return shortFive;
  case Storage::Q4Z:
    return withZeros;
  case Storage::F8E4M3:
    return floats;
  case Storage::F8E5M2:
    return wideFloats;
  default:
    return fourBits;
  }
}

namespace {

/// The scales and codes of one row of a tile, into the tile's block at `to`. Without a stored block it is made of `count`
/// `numbers`, at most support::blockOf, behind which there are zeros.
void packBlock(Storage storage, FoundBlock stored, const float *numbers, int64_t count, int64_t tile, int64_t row,
               uint8_t *to) {
  if (support::floatCodesOf(storage))
    return packFloats(storage, stored.bytes, numbers, count, tile, row, to);
  const support::SuperBlocks *form = support::superBlocksOf(storage);
  if (!form)
    return packGroup(storage, stored.bytes, numbers, tile, row, to);
  uint32_t words[support::longestSuperBlock];
  if (stored.bytes && support::storageByName(stored.format) == storage) // they are the kernel's
    std::memcpy(words, stored.bytes, size_t(form->words()) * 4);
  else
    packWords(*form, stored.bytes ? superCodesOf(stored) : encodeSuperBlock(*form, numbers, count), words);
  spreadWords(*form, words, tile, row, to);
}

} // namespace

void packCodes(const PackedLayout &layout, int64_t first, int64_t count,
               const std::function<FoundBlock(int64_t element, int64_t length, float *numbers)> &block, uint8_t *to) {
  const int64_t each = support::blockOf(layout.storage);
  for (int64_t tile = first; tile < first + count; ++tile, to += layout.tileBytes()) {
    const int64_t outer = tile * layout.tile, rows = std::min(layout.tile, layout.outer - outer);
    uint8_t *place = to;
    for (int64_t i = 0; i < layout.inner; i += each) {
      const int64_t length = std::min(each, layout.inner - i);
      for (int64_t r = 0; r < rows; ++r) {
        float numbers[support::longestSuperBlock] = {};
        const FoundBlock stored =
            block(layout.offset + (outer + r) * layout.outerStride + i * layout.innerStride, length, numbers);
        packBlock(layout.storage, stored, numbers, length, layout.tile, r, place);
      }
      place += support::bytesOf(layout.storage, each) * layout.tile;
    }
  } // rows beyond the last stay zero, as the memory came
}

} // namespace quern::runtime
