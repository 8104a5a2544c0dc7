// What calls on a device need beside arena and caches: weights, inputs and results in its memory.
#ifndef QUERN_RUNTIME_ENGINE_DEVICESIDE_H
#define QUERN_RUNTIME_ENGINE_DEVICESIDE_H

#include "runtime/abi/Description.h"
#include "runtime/machine/Memory.h"
#include "runtime/weights/Weights.h"

#include <map>
#include <utility>
#include <vector>

namespace quern::runtime {

class DeviceSide {
public:
  /// Sends all weights, which stay. Throws MachineError where the device has no room for them.
  DeviceSide(Device &device, const Description &description, const Weights &weights);

  /// For quern_call: slots()[slot][turn].
  const void *const *const *slots() const { return slotPointers.data(); }
  /// Input `number` of a function. What was sent for the call before (an encoder's result, a mask) is not sent again.
  const void *input(int function, size_t number, const std::vector<uint8_t> &bytes);
  /// Room for result `number` of a call, until the next.
  void *output(size_t number, size_t bytes);

private:
  struct Input {
    Buffer memory;
    std::vector<uint8_t> sent;
  };
  Device &device;
  Buffer weightMemory;
  std::vector<std::vector<const void *>> turnPointers;
  std::vector<const void *const *> slotPointers;
  std::map<std::pair<int, size_t>, Input> inputs;
  std::vector<Buffer> outputs;
};

} // namespace quern::runtime
#endif
