// A stored matrix with a low-rank adapter added.
#ifndef QUERN_RUNTIME_WEIGHTS_LOWRANKSUM_H
#define QUERN_RUNTIME_WEIGHTS_LOWRANKSUM_H

#include "runtime/files/Safetensors.h"

namespace quern::runtime {

/// base + U V, where U is [rows, rank] and V [rank, columns].
struct LowRankSum : TensorReader {
  StoredTensor base;
  std::string label;
  std::vector<float> u, v;
  int64_t rank = 0, columns = 0;

  const char *type() const override { return label.c_str(); }
  void read(int64_t first, int64_t count, float *to) const override;
};

} // namespace quern::runtime
#endif
