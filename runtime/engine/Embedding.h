// Texts as vectors.
#ifndef QUERN_RUNTIME_ENGINE_EMBEDDING_H
#define QUERN_RUNTIME_ENGINE_EMBEDDING_H

#include "runtime/engine/Session.h"

namespace quern::runtime {

/// A result [B, D] of a function that needs no more than tokens [B, T].
struct EmbeddingResult {
  int function = -1;
  std::string output;
};

/// The result of that name, or the first if `name` is empty. Throws UserError, with the names that there are.
EmbeddingResult findEmbedding(const Description &description, const std::string &name = "");
/// The vector of one text. Throws UserError for a text without tokens.
std::vector<float> embedTokens(Session &session, const EmbeddingResult &result, const std::vector<int> &tokens);

} // namespace quern::runtime
#endif
