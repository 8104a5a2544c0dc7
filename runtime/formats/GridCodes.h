// Codes of less than two bits or little more: points of a grid, eight (or four) codes by one number (GGUF's IQ1, IQ2 and IQ3),
// and ternary ones.
#ifndef QUERN_RUNTIME_FORMATS_GRIDCODES_H
#define QUERN_RUNTIME_FORMATS_GRIDCODES_H

#include <cstdint>

namespace quern::runtime {

/// Fields in a block's bits: `each` of them, `step` bits apart, in every `stride` bits from bit `first` on.
struct BitFields {
  uint16_t first;
  uint8_t each, stride, step, width; // at most 9 bits; 0: all fields are 0

  unsigned at(const uint8_t *block, int field) const {
    const int bit = first + field / each * stride + field % each * step, within = bit % 8;
    unsigned bits = block[bit / 8];
    if (within + width > 8) // a field may be the last of the block
      bits |= unsigned(block[bit / 8 + 1]) << 8;
    return bits >> within & ((1u << width) - 1);
  }
};

enum class Grid : uint8_t { IQ2XXS, IQ2XS, IQ2S, IQ3XXS, IQ3S, IQ1S };

struct GridCodes {
  Grid grid;
  BitFields low, high; // of a point's number
  BitFields
      signs; // of eight codes: 8 bits; 7, whose parity is the eighth; or 1, which says what is added to all: 1 or -1
  BitFields counts; // of a group: 2 n + 1 units
  float unit;       // of the block's scale
};

/// The 256 codes of a block.
void readGridCodes(const GridCodes &form, const uint8_t *block, int8_t *codes);
/// The same of TQ1_0: bytes are fractions of 256, and codes their digits to the base of 3, less 1. Five in each of the first 48 bytes, in
/// runs of 32 and 16, four in each of the last four.
void readTernaryCodes(const uint8_t *block, int8_t *codes);

} // namespace quern::runtime
#endif
