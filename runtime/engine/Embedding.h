// Texts as vectors.
#ifndef QUERN_RUNTIME_ENGINE_EMBEDDING_H
#define QUERN_RUNTIME_ENGINE_EMBEDDING_H

#include "runtime/engine/Session.h"

namespace quern::runtime {

/// The function from tokens [B, T] to one vector a text [B, D]; -1 if there is none.
int findEmbedding(const Description &description);
/// The vector of one text. Throws UserError for a text without tokens.
std::vector<float> embedTokens(Session &session, int function, const std::vector<int> &tokens);

} // namespace quern::runtime
#endif
