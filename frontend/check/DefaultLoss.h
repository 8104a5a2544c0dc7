// The loss of a model that declares none.
#ifndef QUERN_FRONTEND_CHECK_DEFAULTLOSS_H
#define QUERN_FRONTEND_CHECK_DEFAULTLOSS_H

#include "frontend/syntax/Ast.h"

namespace quern::frontend {

/// What training a model without `loss` means.
struct DefaultLoss {
  const FunctionDecl *function = nullptr; ///< null: the model has one, or its functions say nothing of a vocabulary
  /// The text is its own label: position t predicts t + 1, so the function runs on all but the last token of a row.
  bool nextToken = false;
};

/// `forward` to [B, T, V] trains on the cross-entropy of the next token, `decode` on that of `labels`. The declaration
/// is made of the model's own ones, in `ast`.
DefaultLoss defaultLoss(const ModelDecl &model, Ast &ast);

} // namespace quern::frontend
#endif
