// Codes and scale of a group that lose least where it counts.
#ifndef QUERN_TOOLS_QUANTIZE_WEIGHTEDROUNDING_H
#define QUERN_TOOLS_QUANTIZE_WEIGHTEDROUNDING_H

#include "support/CodedGroups.h"
#include "support/Storage.h"

#include <cstdint>

namespace quern::tools {

/// A group's codes, less what is added to them in storage, and its scale in f16.
struct RoundedGroup {
  uint16_t scale = 0;
  int8_t codes[support::longCodedGroup] = {};
};

/// The sum of the squares of what is rounded away, each times its weight.
double lossOf(const RoundedGroup &group, const float *numbers, const float *weights, int64_t count);

/// The best of `usual` and of other scales around it, each with the codes and the scale that follow from one another.
/// `storage`: Int8, Int8G128 or Int4; `weights`: at least 0.
RoundedGroup roundWeighted(const RoundedGroup &usual, const float *numbers, const float *weights, int64_t count,
                           support::Storage storage);

} // namespace quern::tools
#endif
