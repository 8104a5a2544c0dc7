// One block of a training run: parameters, gradients or moments, all tensors one behind the other. Kernels see it where they
// compute; files and adapters see it in the host's memory.
#ifndef QUERN_RUNTIME_TRAINING_FLATMEMORY_H
#define QUERN_RUNTIME_TRAINING_FLATMEMORY_H

#include "runtime/engine/DeviceSide.h"
#include "runtime/machine/Memory.h"

namespace quern::runtime {

/// On the processor both are one. On a device each side is brought up to date when somebody asks for it, so a step that
/// nobody looks at copies nothing.
template <typename T> class FlatMemory {
public:
  explicit FlatMemory(Device &where) : where(&where), kernels(where) {}
  /// Zeros.
  void reset(size_t elements) {
    host.reset(elements * sizeof(T));
    if (!where->isHost())
      kernels.reset(elements * sizeof(T));
    newer = Side::Neither;
  }
  size_t size() const { return host.size() / sizeof(T); }

  /// For kernels that read.
  T *seen() const {
    if (newer == Side::Host) {
      where->copy(kernels.data(), host.data(), host.size());
      newer = Side::Neither;
    }
    return where->isHost() ? host.template as<T>() : kernels.template as<T>();
  }
  /// For kernels that write, all or a part.
  T *filled() {
    T *at = seen();
    if (!where->isHost())
      newer = Side::Kernels;
    return at;
  }
  const T *read() const {
    if (newer == Side::Kernels) {
      where->copy(host.data(), kernels.data(), host.size());
      newer = Side::Neither;
    }
    return host.template as<T>();
  }
  T *write() {
    read();
    if (!where->isHost())
      newer = Side::Host;
    return host.template as<T>();
  }
  /// Where the host's side is, whoever is newer.
  const T *place() const { return host.template as<T>(); }
  /// For a session whose weights are here.
  Mirror mirror() const { return {host.data(), host.size(), kernels.data()}; }

private:
  enum class Side { Neither, Host, Kernels };
  Device *where;
  Buffer host, kernels;
  mutable Side newer = Side::Neither;
};

} // namespace quern::runtime
#endif
