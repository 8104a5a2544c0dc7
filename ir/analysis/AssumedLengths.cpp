// Takes: a run-time length by its name. Gives: the number that choices made when compiling count with.
// Why one place: what is fused, saved, remembered and placed together must count with the same text.
#include "ir/analysis/AssumedLengths.h"

#include "ir/Chunk.h"
#include "ir/analysis/Window.h"
#include "support/Machine.h"

using namespace quern;
using namespace quern::ir;

int64_t quern::ir::assumedLength(const std::string &symbol) {
  constexpr int64_t length = support::assumed::text;
  if (symbol == "B")
    return 1;
  if (symbol == "cap")
    return 2 * length;
  if (std::optional<int64_t> window = windowOf(symbol))
    return std::min(length, *window);
  if (std::optional<int64_t> window = windowOf(symbol, Derived::Form::Room))
    return std::min(2 * length, *window + length);
  if (std::optional<Chunk> chunk = chunkOf(symbol))
    return std::min(chunk->most, atAssumedLengths(chunk->rows));
  return length;
}
