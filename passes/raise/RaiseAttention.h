// Back from attention as one operation (RaiseAttention.cpp).
#ifndef QUERN_PASSES_RAISE_RAISEATTENTION_H
#define QUERN_PASSES_RAISE_RAISEATTENTION_H

#include "ir/Dialect.h"

namespace quern::passes {

/// An attention without statistics, in plain operations.
void lowerAttention(ir::AttentionOp op);

} // namespace quern::passes
#endif
