// What a length that only a run knows counts for, where a choice must be made before. It changes what a choice is, never
// a result.
#ifndef QUERN_IR_ANALYSIS_ASSUMEDLENGTHS_H
#define QUERN_IR_ANALYSIS_ASSUMEDLENGTHS_H

#include "ir/Size.h"

namespace quern::ir {

/// One text of 512 tokens after 512: B is 1, the room of caches what both need, every other length 512.
int64_t assumedLength(const std::string &symbol);

inline int64_t atAssumedLengths(const Size &size) {
  return size.evaluate(assumedLength);
}

} // namespace quern::ir
#endif
