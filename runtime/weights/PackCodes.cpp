// Takes: a block of a weight's numbers. Gives: its scales and codes where kernels read them. Why through GGUF's blocks: the
// numbers are those of its formats, so what a file has in these is only moved.
#include "runtime/weights/PackCodes.h"

#include "runtime/formats/BlockFormat.h"
#include "support/numbers/SuperWords.h"

#include <cstring>

namespace quern::runtime {

namespace {

constexpr const char *formats[] = {"Q8_0", "Q4_0", "Q6_K", "Q5_K", "Q4_K", "Q3_K", "Q2_K"};

void packGroup(bool wide, const uint8_t *block, const float *numbers, int64_t tile, int64_t row, uint8_t *to) {
  uint8_t made[2 + support::codedGroup];
  if (!block) {
    wide ? encodeQ8_0(numbers, support::codedGroup, made) : encodeQ4_0(numbers, support::codedGroup, made);
    block = made;
  }
  to[row] = block[0];
  to[tile + row] = block[1];
  const uint8_t *codes = block + 2;
  // Q4_0 has 8 more than the code, as here; the first sixteen in the low halves.
  auto half = [&](int i) { return i < 16 ? codes[i] & 15 : codes[i - 16] >> 4; };
  to += 2 * tile + row * 4;
  for (int i = 0, each = wide ? 4 : 8; i < support::codedGroup; i += each, to += 4 * tile)
    for (int part = 0; part < 4; ++part)
      to[part] = wide ? uint8_t(codes[i + part] ^ 0x80) : uint8_t(half(i + part) | half(i + 4 + part) << 4);
}

/// Groups of `from` may be longer than those here, which then have the same scales.
void packSuperBlock(const support::SuperBlocks &form, const SuperCodes &from, int64_t tile, int64_t row, uint8_t *to) {
  uint32_t words[support::superBlock] = {from.unit | uint32_t(from.unitOfMinimums) << 16};
  for (int g = 0; g < form.groups(); ++g) {
    const int source = g * form.group / from.group;
    words[1 + g / 2] |= uint32_t(uint8_t(from.scales[source]) | from.minimums[source] << 8) << g % 2 * 16;
  }
  for (int i = 0; i < support::superBlock; ++i) {
    const int within = i % form.group;
    uint32_t *group = words + form.headWords() + i / form.group * form.wordsOfGroup();
    const uint32_t code = uint32_t(from.codes[i]) & ((1u << form.bits) - 1);
    group[within / 8] |= (code & 15) << support::lowBitOf(within);
    if (form.highBits())
      group[form.lowWords()] |= code >> 4 << support::highBitOf(form, within);
  }
  for (int word = 0; word < form.words(); ++word)
    std::memcpy(to + (word * tile + row) * 4, &words[word], 4);
}

} // namespace

std::span<const char *const> blockNamesOf(Storage storage) {
  const std::span all(formats);
  switch (storage) {
  case Storage::Int8:
    return all.subspan(0, 1);
  case Storage::Int4:
    return all.subspan(1, 1);
  case Storage::Q6K:
    return all.subspan(2);
  case Storage::Q5K: // codes without a sign, groups of 32
    return all.subspan(3, 2);
  default:
    return all.subspan(4, 1);
  }
}

void packBlock(Storage storage, FoundBlock stored, const float *numbers, int64_t count, int64_t tile, int64_t row,
               uint8_t *to) {
  const support::SuperBlocks *form = support::superBlocksOf(storage);
  if (!form)
    return packGroup(storage == Storage::Int8, stored.bytes, numbers, tile, row, to);
  packSuperBlock(*form,
                 stored.bytes ? unpackSuperBlock(*findBlockFormat(stored.format), stored.bytes)
                              : encodeSuperBlock(*form, numbers, count),
                 tile, row, to);
}

} // namespace quern::runtime
