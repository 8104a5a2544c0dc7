// Tiles of a packed weight in codes (support/CodedGroups.h), from numbers or from blocks of the same numbers.
#ifndef QUERN_RUNTIME_WEIGHTS_PACKCODES_H
#define QUERN_RUNTIME_WEIGHTS_PACKCODES_H

#include "runtime/abi/Description.h"
#include "support/CodedGroups.h"

#include <algorithm>

namespace quern::runtime {

/// GGUF's format with the same groups and numbers: "Q8_0" or "Q4_0".
const char *blockNameOf(Storage storage);

/// The scale and codes of one row of a tile, into the tile's group at `to`. `block`: in the format of GGUF that has the
/// same numbers; null: it is made of the 32 `numbers`.
void packGroup(Storage storage, const uint8_t *block, const float *numbers, int64_t tile, int64_t row, uint8_t *to);

/// Tiles [first, first + count). `group(element, length, numbers)` fills in a group's numbers, from an element of the
/// stored tensor on, or returns their block.
template <typename Group>
void packCodes(const PackedLayout &layout, int64_t first, int64_t count, Group group, uint8_t *to) {
  for (int64_t tile = first; tile < first + count; ++tile, to += layout.tileBytes()) {
    const int64_t outer = tile * layout.tile, rows = std::min(layout.tile, layout.outer - outer);
    uint8_t *place = to;
    for (int64_t i = 0; i < layout.inner; i += support::codedGroup) {
      const int64_t length = std::min(support::codedGroup, layout.inner - i);
      for (int64_t r = 0; r < rows; ++r) {
        float numbers[support::codedGroup] = {};
        const uint8_t *block =
            group(layout.offset + (outer + r) * layout.outerStride + i * layout.innerStride, length, numbers);
        packGroup(layout.storage, block, numbers, layout.tile, r, place);
      }
      place += support::bytesOfGroup(bitsOfCode(layout.storage)) * layout.tile;
    }
  } // rows beyond the last stay zero, as the memory came
}

} // namespace quern::runtime
#endif
