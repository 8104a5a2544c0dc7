// --remarks: what the compiler did or did not do, at the spec's lines.
#ifndef QUERN_TOOLS_SPEC_REMARKS_H
#define QUERN_TOOLS_SPEC_REMARKS_H

#include "mlir/IR/MLIRContext.h"

namespace quern::tools {

/// From now on remarks of this context (mlir/IR/Remarks.h: `mlir::remark::missed(loc, opts) << ...`) are printed on
/// stderr, each once, as `quern check` prints mistakes. Without this call they cost nothing and say nothing.
void enableRemarks(mlir::MLIRContext &context);

} // namespace quern::tools
#endif
