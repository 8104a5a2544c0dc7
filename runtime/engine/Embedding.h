// Texts as vectors.
#ifndef QUERN_RUNTIME_ENGINE_EMBEDDING_H
#define QUERN_RUNTIME_ENGINE_EMBEDDING_H

#include "runtime/engine/Session.h"

#include <functional>

namespace quern::runtime {

/// A result [B, D] of a function that needs no more than tokens [B, T].
struct EmbeddingResult {
  int function = -1;
  std::string output;
};

/// The result of that name, or the first if `name` is empty. Throws UserError, with the names that there are.
EmbeddingResult findEmbedding(const Description &description, const std::string &name = "");
/// The vectors of texts, in their order. Texts of about the same length are computed together, up to some hundred tokens
/// at a time, as products of many rows cost less for each; shorter ones are padded where the function takes a mask.
/// `done` hears how many tokens more were computed. Throws UserError for a text without tokens.
std::vector<std::vector<float>> embedTokens(Session &session, const EmbeddingResult &result,
                                            const std::vector<std::vector<int>> &texts,
                                            const std::function<void(size_t)> &done = {});

} // namespace quern::runtime
#endif
