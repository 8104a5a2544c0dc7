// Costs with a minimum: of eight experts no more are read than there are, however many rows are routed: min(8, 2 * B * T)
// (ir/Derived.h). Only costs have such symbols, never the sizes of values.
#ifndef QUERN_IR_ANALYSIS_LEAST_H
#define QUERN_IR_ANALYSIS_LEAST_H

#include "ir/Size.h"

namespace quern::ir {

struct Least {
  int64_t most = 0;
  Size of;
};

/// min(most, size), as simple as it can be known. `size` has no such symbol itself.
Size least(int64_t most, const Size &size);
/// max(0, size), likewise.
Size notNegative(const Size &size);
/// Of a minimum; nothing for any other symbol.
std::optional<Least> leastOf(std::string_view symbol);
/// Size::substitute, also within such symbols.
Size substituteAll(const Size &cost, const std::map<std::string, Size> &table);

/// Of a cost in a loop over chunks of rows what all its iterations come to together (overAllIterations).
Size costOfAllIterations(const Size &cost);

} // namespace quern::ir
#endif
