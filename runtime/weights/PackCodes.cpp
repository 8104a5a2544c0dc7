// Takes: a group of a weight's numbers. Gives: its scale and codes where kernels read them. Why through GGUF's blocks: the
// numbers are those of Q8_0 and Q4_0, so what a file has in these is only moved.
#include "runtime/weights/PackCodes.h"

#include "runtime/formats/BlockFormat.h"

#include <cstring>

namespace quern::runtime {

const char *blockNameOf(Storage storage) {
  return storage == Storage::Int8 ? "Q8_0" : "Q4_0";
}

void packGroup(Storage storage, const uint8_t *block, const float *numbers, int64_t tile, uint16_t *to) {
  uint8_t made[2 + support::codedGroup];
  const bool wide = storage == Storage::Int8;
  if (!block) {
    wide ? encodeQ8_0(numbers, support::codedGroup, made) : encodeQ4_0(numbers, support::codedGroup, made);
    block = made;
  }
  std::memcpy(to, block, 2);
  const uint8_t *codes = block + 2;
  // Q4_0 has 8 more than the code, the first sixteen in the low bits.
  auto nibble = [&](int i) { return unsigned(i < 16 ? codes[i] & 15 : codes[i - 16] >> 4) ^ 8; };
  for (int i = 0, each = wide ? 2 : 4; i < support::codedGroup; i += each) {
    to += tile;
    *to = wide ? uint16_t(codes[i] | codes[i + 1] << 8)
               : uint16_t(nibble(i) | nibble(i + 1) << 4 | nibble(i + 2) << 8 | nibble(i + 3) << 12);
  }
}

} // namespace quern::runtime
