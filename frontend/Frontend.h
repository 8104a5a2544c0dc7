// The frontend's entry points: what tools call.
#ifndef QUERN_FRONTEND_FRONTEND_H
#define QUERN_FRONTEND_FRONTEND_H

#include "frontend/Language.h"
#include "frontend/build/NamedValue.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

namespace quern::frontend {

/// The spec as a module in phase `resolved`, or null with the reasons in `diagnostics` (also warnings on success).
/// Loads the dialects it needs into the context.
///
/// Functions carry `quern.batch` and `quern.time` (labels of dimensions); arguments `quern.name` and, where they may be
/// left out, `quern.default` (the symbol of a function without arguments that computes the value); results
/// `quern.name`. The module carries `quern.model`, `quern.config` (bound fields, JSON), `quern.file_config` (the config
/// file, JSON) and `quern.ignore` (globs of checkpoint tensors that are no parameters), and `quern.train` where
/// training was asked for; then @loss is the spec's, or the default one (DefaultLoss.h), with `quern.next_token` where
/// a row of tokens is its own labels. `names` receives the named values of all functions in the order of the
/// statements; they hold until a pass runs.
mlir::OwningOpRef<mlir::ModuleOp> elaborate(mlir::MLIRContext &context, const SpecInput &input,
                                            Diagnostics &diagnostics, std::vector<NamedValue> *names = nullptr);

} // namespace quern::frontend
#endif
