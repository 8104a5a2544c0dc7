// Takes: elements of a base and an adapter. Gives: their sum. A file of its own, as it is not compiled for size.
#include "runtime/weights/LowRankSum.h"

#include <algorithm>

namespace quern::runtime {

void LowRankSum::read(int64_t first, int64_t count, float *to) const {
  toFloat(base, first, count, to);
  for (int64_t row = first / columns, from = first % columns; count > 0; ++row, from = 0) {
    const int64_t width = std::min(count, columns - from);
    for (int64_t k = 0; k < rank; ++k) {
      const float factor = u[size_t(row * rank + k)], *source = v.data() + k * columns + from;
      for (int64_t i = 0; i < width; ++i)
        to[i] += factor * source[i];
    }
    to += width;
    count -= width;
  }
}

} // namespace quern::runtime
