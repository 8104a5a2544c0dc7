// A kernel of attention, or of its gradient, as blocks of rows see it: both are sums over keys of weights times values.
#ifndef QUERN_CODEGEN_TILE_ATTEND_ATTENTIONFORM_H
#define QUERN_CODEGEN_TILE_ATTEND_ATTENTIONFORM_H

#include "codegen/kernel/AttentionGradient.h"
#include "codegen/tile/Places.h"

namespace quern::codegen::tile {

struct AttentionForm {
  AttentionPattern frame;        ///< of a gradient `key` is what is summed over, `query` what is kept
  std::vector<GradientSum> sums; ///< of an attention one, without weights (-1)
  bool softmax = false;
  std::vector<Dim> rows; ///< a block's: positions, then what shares their keys
};

/// Throws Refusal for a kernel that has several attentions, other products beside them, or sums along diagonals.
AttentionForm formOf(const KernelGraph &graph);

} // namespace quern::codegen::tile
#endif
