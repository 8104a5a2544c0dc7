// Tiles of a packed weight in codes (support/CodedGroups.h), from numbers or from blocks of the same numbers.
#ifndef QUERN_RUNTIME_WEIGHTS_PACKCODES_H
#define QUERN_RUNTIME_WEIGHTS_PACKCODES_H

#include "runtime/abi/Description.h"

#include <functional>
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

/// Tiles [first, first + count), into the zeros at `to`. `block(element, length, numbers)` fills in a block's numbers, from an
/// element of the stored tensor on, or returns where it is stored.
void packCodes(const PackedLayout &layout, int64_t first, int64_t count,
               const std::function<FoundBlock(int64_t element, int64_t length, float *numbers)> &block, uint8_t *to);

} // namespace quern::runtime
#endif
