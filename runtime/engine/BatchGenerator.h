// Logits for several texts at once, of different lengths: one step gives each its next token.
#ifndef QUERN_RUNTIME_ENGINE_BATCHGENERATOR_H
#define QUERN_RUNTIME_ENGINE_BATCHGENERATOR_H

#include "runtime/engine/Session.h"

#include <span>
#include <vector>

namespace quern::runtime {

/// Texts that grow together. The shorter ones begin later: all end at the same slot of the caches.
class BatchGenerator {
public:
  /// Whether the program can: a causal function over one text alone, compiled with ragged rows.
  static bool serves(const Description &description);
  /// `room`: positions to make room for at once.
  BatchGenerator(Session &session, int64_t room);

  /// Logits [texts][vocabulary] of what follows each text. Each begins with the text of the call before, one token
  /// longer; or all begin anew.
  std::span<const float> next(const std::vector<std::vector<int>> &texts);

private:
  Session &session;
  int64_t room, newRows = 0;
  int ragged = -1, few = -1; // few: for steps of few rows, where there is one
  std::vector<std::vector<int>> remembered;
  std::vector<uint64_t> epochs;
  std::vector<Value> outputs;
  static constexpr int64_t chunk = 512;

  std::vector<int64_t> sizesFor(size_t rows, int64_t past, int64_t count) const;
  void run(const std::vector<std::vector<int>> &texts, int64_t length, int64_t past, int64_t count);
};

} // namespace quern::runtime
#endif
