// Memory in a kernel's layout, for whoever runs single kernels.
#ifndef QUERN_CODEGEN_KERNELBUFFER_H
#define QUERN_CODEGEN_KERNELBUFFER_H

#include "codegen/kernel/Storage.h"

#include <functional>

namespace quern::codegen {

class KernelBuffer {
public:
  /// Zero-filled. `shape`: lengths of the dimensions, outermost first.
  KernelBuffer(const Layout &layout, Storage storage, std::vector<int64_t> shape);
  KernelBuffer(const KernelBuffer &) = delete;

  const std::vector<int64_t> &shape() const { return lengths; }
  uint8_t *base() { return reinterpret_cast<uint8_t *>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64); }
  /// From `base` on.
  size_t bytes() const { return memory.size() - 64; }

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
  std::vector<uint8_t> memory;
  std::vector<halide_dimension_t> dims;
};

} // namespace quern::codegen
#endif
