// Tensors of the reference interpreter: named dimensions with known sizes, numbers in double precision or int64.
#ifndef QUERN_IR_REFERENCE_ARRAY_H
#define QUERN_IR_REFERENCE_ARRAY_H

#include "ir/Dialect.h"

#include <array>
#include <cassert>
#include <memory>

namespace quern::ir {

struct NamedSize {
  std::string name;
  int64_t size;
  bool operator==(const NamedSize &other) const { return name == other.name && size == other.size; }
};

/// Dimensions (row-major, the last innermost), a kind and numbers. Copies share their numbers, so an array may be
/// written only while one owner has it: right after it was made.
class Array {
public:
  Array() = default;
  /// All zeros (false).
  Array(Kind kind, std::vector<NamedSize> dims);
  /// `numbers` must have as many elements as the dimensions make.
  Array(std::vector<NamedSize> dims, std::vector<double> numbers);
  /// Int or Bool (0 and 1).
  Array(Kind kind, std::vector<NamedSize> dims, std::vector<int64_t> numbers);

  Kind getKind() const { return kind; }
  /// Whether its numbers are doubles: also of what is stored in fewer bits, whose numbers are those that it stands for.
  bool isReal() const { return kind == Kind::Real; }
  const std::vector<NamedSize> &getDims() const { return dims; }
  int64_t getCount() const;
  /// Position of a name, or -1.
  int find(llvm::StringRef name) const;
  int64_t sizeOf(llvm::StringRef name) const { return dims[find(name)].size; }

  const double *reals() const { return assert(isReal()), real->data(); }
  const int64_t *ints() const { return assert(!isReal()), integer->data(); }
  double *writeReals() { return assert(isReal() && real.use_count() == 1), real->data(); }
  int64_t *writeInts() { return assert(!isReal() && integer.use_count() == 1), integer->data(); }
  double number(int64_t i) const { return isReal() ? (*real)[i] : static_cast<double>((*integer)[i]); }

  /// The same numbers in the same order under other dimensions that make as many elements.
  Array relabelled(std::vector<NamedSize> to) const;
  /// In another order of dimensions; those that this array lacks are repeated.
  Array aligned(const std::vector<NamedSize> &to) const;
  /// Int and bool as real; all others as they are.
  Array asReal() const;
  /// For each dimension of `loop` the step from one position to the next in this array; 0 where it lacks the dimension.
  std::vector<int64_t> stridesIn(const std::vector<NamedSize> &loop) const;

private:
  Kind kind = Kind::Real;
  std::vector<NamedSize> dims;
  std::shared_ptr<std::vector<double>> real;
  std::shared_ptr<std::vector<int64_t>> integer;
};

int64_t countOf(const std::vector<NamedSize> &dims);
/// "[B = 2, T = 5]", for messages.
std::string describe(const std::vector<NamedSize> &dims);

/// Calls `body(i, offsets)` for each position of `loop` in row-major order: i counts them, `offsets` are the places in
/// N arrays with the strides given.
template <size_t N, class Body>
void forEachPosition(const std::vector<NamedSize> &loop, const std::array<std::vector<int64_t>, N> &strides,
                     Body body) {
  int64_t total = countOf(loop);
  int rank = loop.size();
  std::vector<int64_t> position(rank, 0);
  std::array<int64_t, N> offsets{};
  for (int64_t i = 0; i < total; ++i) {
    body(i, offsets);
    for (int d = rank - 1; d >= 0; --d) {
      for (size_t n = 0; n < N; ++n)
        offsets[n] += strides[n][d];
      if (++position[d] < loop[d].size)
        break;
      for (size_t n = 0; n < N; ++n)
        offsets[n] -= strides[n][d] * loop[d].size;
      position[d] = 0;
    }
  }
}

} // namespace quern::ir
#endif
