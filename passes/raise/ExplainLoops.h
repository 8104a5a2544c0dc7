// Remarks: why iterations of a loop stay apart.
#ifndef QUERN_PASSES_RAISE_EXPLAINLOOPS_H
#define QUERN_PASSES_RAISE_EXPLAINLOOPS_H

#include "ir/Dialect.h"

namespace quern::passes {

/// A remark at the line in which `next`, the iteration of the same source loop after `one`, differs from it.
void explainUnrolled(ir::RepeatOp one, ir::RepeatOp next);

} // namespace quern::passes
#endif
