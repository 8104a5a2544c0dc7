// Where a kernel's graph holds attention, and which keys its mask lets a query see.
#ifndef QUERN_CODEGEN_ATTENTIONPATTERN_H
#define QUERN_CODEGEN_ATTENTIONPATTERN_H

#include "codegen/KernelGraph.h"

namespace quern::codegen {

struct AttentionPattern {
  int dot = 0, softmax = 0, result = 0; ///< nodes: q k, its softmax, the weighted sum
  int q = 0, k = 0, v = 0;
  std::vector<Dim> depth; ///< summed in the scores
  Dim key, query, column;
  std::vector<int> between; ///< elementwise nodes from the scores to the softmax
  /// index(key) <= index(query) + upper, index(key) >= index(query) + lower, where the mask says so.
  std::optional<ir::Size> upper, lower;
  /// Keys before this one are a ring's: any of them may be seen, so `lower` holds only where there are none.
  std::optional<ir::Size> ring;
};

std::vector<AttentionPattern> findAttention(const KernelGraph &graph);

} // namespace quern::codegen
#endif
