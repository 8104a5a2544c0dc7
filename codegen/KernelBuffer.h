// Memory in a kernel's layout, for whoever runs single kernels.
#ifndef QUERN_CODEGEN_KERNELBUFFER_H
#define QUERN_CODEGEN_KERNELBUFFER_H

#include "codegen/kernel/Storage.h"

#include <functional>
#include <memory>

namespace quern::codegen {

/// Zeros between two pages that nobody may touch. Some begin where a page begins: an access before them faults. The others end where a
/// page ends, or less than 64 bytes before: an access behind them faults.
class GuardedMemory {
public:
  explicit GuardedMemory(size_t bytes);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory &) = delete;

  uint8_t *begin() const { return first; } ///< a multiple of 64
  size_t bytes() const { return length; }

private:
  void *mapping;
  size_t mapped, length;
  uint8_t *first;
};

class KernelBuffer {
public:
  /// Zero-filled. `shape`: lengths of the dimensions, outermost first.
  KernelBuffer(const Layout &layout, Storage storage, std::vector<int64_t> shape);
  KernelBuffer(const KernelBuffer &) = delete;

  const std::vector<int64_t> &shape() const { return lengths; }
  uint8_t *base() { return memory->begin(); }
  /// From `base` on.
  size_t bytes() const { return memory->bytes(); }

  /// `numbers`: in row-major order; of codes, those that codes stand for.
  void fill(const double *numbers);
  /// Reals become NaN: what a kernel forgets to write must not look right.
  void spoil();
  /// What is stored where `halide.host` says, in row-major order. Of codes nothing: no kernel stores them.
  std::vector<double> read() const;

  halide_buffer_t halide{}; ///< `host`: `base`, until somebody says otherwise

private:
  /// `visit(number in row-major order, place in memory)`, in elements.
  void forEach(const std::function<void(int64_t, int64_t)> &visit) const;
  int64_t placeOf(const std::vector<int64_t> &at) const;

  Layout layout;
  Storage storage;
  std::vector<int64_t> lengths, strides; ///< strides: of what is not packed
  std::unique_ptr<GuardedMemory> memory;
  std::vector<halide_dimension_t> dims;
};

} // namespace quern::codegen
#endif
