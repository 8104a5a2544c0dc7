// What calls on a device need beside arena and caches: weights, inputs and results in its memory.
#ifndef QUERN_RUNTIME_ENGINE_DEVICESIDE_H
#define QUERN_RUNTIME_ENGINE_DEVICESIDE_H

#include "runtime/abi/Description.h"
#include "runtime/machine/Memory.h"
#include "runtime/weights/Weights.h"

#include <vector>

namespace quern::runtime {

/// Memory of the host whose content a device has already, kept there by somebody else.
struct Mirror {
  const uint8_t *host;
  size_t bytes;
  const uint8_t *device;
};

class DeviceSide {
public:
  virtual ~DeviceSide() = default;
  /// Sends all weights but those in mirrors again, after they changed.
  virtual void send() = 0;
  /// For quern_call: slots()[slot][iteration].
  virtual const void *const *const *slots() const = 0;
  /// Input `number` of a function. What was sent for the call before (an encoder's result, a mask) is not sent again.
  virtual const void *input(int function, size_t number, const std::vector<uint8_t> &bytes) = 0;
  /// Room for result `number` of a call, until the next.
  virtual void *output(size_t number, size_t bytes) = 0;
};

} // namespace quern::runtime

/// Sends all weights but those in mirrors, which stay. Throws MachineError where the device has no room for them. Of the
/// archives of runtime/device; absent from programs for the processor, which need nothing of it.
extern "C" __attribute__((weak)) quern::runtime::DeviceSide *
quern_make_device_side(quern::runtime::Device &device, const quern::runtime::Description &description,
                       const quern::runtime::Weights &weights, const std::vector<quern::runtime::Mirror> &mirrors);
#endif
