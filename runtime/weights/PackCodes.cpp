// Takes: a group of a weight's numbers. Gives: its scale and codes where kernels read them. Why through GGUF's blocks: the
// numbers are those of Q8_0 and Q4_0, so what a file has in these is only moved.
#include "runtime/weights/PackCodes.h"

#include "runtime/formats/BlockFormat.h"

#include <cstring>

namespace quern::runtime {

const char *blockNameOf(Storage storage) {
  return storage == Storage::Int8 ? "Q8_0" : "Q4_0";
}

void packGroup(Storage storage, const uint8_t *block, const float *numbers, int64_t tile, int64_t row, uint8_t *to) {
  uint8_t made[2 + support::codedGroup];
  const bool wide = storage == Storage::Int8;
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

} // namespace quern::runtime
