// Tiles of a packed weight in codes (support/CodedGroups.h), from numbers or from blocks of the same numbers.
#ifndef QUERN_RUNTIME_WEIGHTS_PACKCODES_H
#define QUERN_RUNTIME_WEIGHTS_PACKCODES_H

#include "runtime/abi/Description.h"

#include <algorithm>
#include <span>

namespace quern::runtime {

/// The formats whose numbers the storage holds: "Q8_0"; "Q4_0"; "int8_g128", a scale and codes as Q8_0 has them; of super-blocks GGUF's and own ones with as many bits or fewer; of
/// floats its own.
std::span<const char *const> blockNamesOf(Storage storage);

/// Where a block is, and in which of these formats; or nowhere.
struct FoundBlock {
  const uint8_t *bytes = nullptr;
  const char *format = nullptr;
};

/// The scales and codes of one row of a tile, into the tile's block at `to`. Without a stored block it is made of `count`
/// `numbers`, at most support::blockOf, behind which there are zeros.
void packBlock(Storage storage, FoundBlock stored, const float *numbers, int64_t count, int64_t tile, int64_t row,
               uint8_t *to);

/// Tiles [first, first + count). `block(element, length, numbers)` fills in a block's numbers, from an element of the
/// stored tensor on, or returns where it is stored.
template <typename Block>
void packCodes(const PackedLayout &layout, int64_t first, int64_t count, Block block, uint8_t *to) {
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
#endif
