// Where batches come from: a stream of tokens, or tensors by name.
#ifndef QUERN_RUNTIME_TRAINING_DATA_H
#define QUERN_RUNTIME_TRAINING_DATA_H

#include "runtime/engine/Session.h"

#include <memory>
#include <vector>

namespace quern::runtime {

/// Batches by number: nothing is remembered between calls, so a resumed run sees what the uninterrupted one saw.
class Data {
public:
  virtual ~Data() = default;
  /// The inputs of the loss.
  virtual Values batch(uint64_t number, int64_t rows) const = 0;
  /// Number of batches in one pass.
  virtual double batches(int64_t rows) const = 0;
  /// "1003854 tokens".
  virtual std::string describe() const = 0;
  /// False: every batch has its own number of rows.
  virtual bool hasRows() const { return true; }
};

/// Windows of `length` tokens and what follows each token. With a seed in a new order in each pass, every pass cut at
/// another place; without (validation), one after the other from the start.
std::unique_ptr<Data> makeStream(std::vector<int32_t> tokens, std::string input, int64_t length,
                                 std::optional<uint64_t> seed);

/// The function's inputs by name: rows to be mixed, or whole batches (one dimension more), which come in order.
/// `nextToken`: without labels a text is its own.
std::unique_ptr<Data> makeExamples(const std::string &path, const Description &description,
                                   const FunctionInfo &function, bool nextToken, std::optional<uint64_t> seed);

/// A permutation of 0 .. count - 1 that `seed` chooses, place by place.
uint64_t permuted(uint64_t place, uint64_t count, uint64_t seed);

} // namespace quern::runtime
#endif
