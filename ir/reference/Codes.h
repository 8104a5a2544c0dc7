// Codes of few bits for numbers that share scales: what `quern.quantize` does, and how a packed weight of them is laid out in memory
// (support/CodedGroups.h).
#ifndef QUERN_IR_REFERENCE_CODES_H
#define QUERN_IR_REFERENCE_CODES_H

#include "support/Storage.h"

#include <vector>

namespace quern::ir {

/// At most a block of numbers (support::blockOf) as codes of `storage`, and what these stand for: f32 holds that. Of numbers
/// that codes stand for the codes are the same. `paired`: as quern.quantize says.
std::vector<double> codedNumbers(support::Storage storage, const std::vector<float> &numbers, bool paired = false);

/// A packed weight [stacked ..., rows, depth] as kernels read it, of numbers in row-major order: where each block's bytes
/// go in memory that is zero before.
void packCodes(support::Storage storage, const std::vector<int64_t> &shape, int64_t tile, const double *numbers,
               uint8_t *to);

} // namespace quern::ir
#endif
