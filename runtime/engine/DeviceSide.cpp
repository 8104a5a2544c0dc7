// Takes: weights in the host's memory as kernels want them, tensors of a call. Gives: the same in a device's memory.
#include "runtime/engine/DeviceSide.h"

#include "runtime/Error.h"

#include <algorithm>

namespace quern::runtime {

/// Of all that a slot holds in one turn of a loop.
static size_t bytesOf(const Description &d, const SlotInfo &slot, const std::vector<int> &parameters) {
  size_t bytes = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const WeightLayout &layout = slot.layout(i);
    if (const auto *packed = std::get_if<PackedLayout>(&layout))
      bytes += size_t(packed->bytes());
    else
      bytes += size_t(d.parameters[size_t(parameters[i])].elements()) *
               (std::holds_alternative<NarrowLayout>(layout) ? sizeof(uint16_t) : sizeof(float));
  }
  return bytes;
}

DeviceSide::DeviceSide(Device &device, const Description &d, const Weights &weights)
    : device(device), weightMemory(device) {
  constexpr size_t alignment = 128;
  std::map<const void *, std::pair<size_t, size_t>> places; // by the host's: offset, bytes; a tied head is sent once
  size_t needed = 0;
  for (size_t s = 0; s < d.slots.size(); ++s)
    for (size_t t = 0; t < d.slots[s].turns.size(); ++t) {
      size_t bytes = bytesOf(d, d.slots[s], d.slots[s].turns[t]);
      auto [place, isNew] = places.try_emplace(weights.slots()[s][t], needed, bytes);
      if (!isNew && place->second.second >= bytes)
        continue;
      place->second = {needed, bytes};
      needed += (bytes + alignment - 1) / alignment * alignment;
    }
  weightMemory.reset(needed);
  for (const auto &[host, place] : places)
    device.copy(weightMemory.data() + place.first, host, place.second);
  for (size_t s = 0; s < d.slots.size(); ++s) {
    std::vector<const void *> pointers;
    for (size_t t = 0; t < d.slots[s].turns.size(); ++t)
      pointers.push_back(weightMemory.data() + places.at(weights.slots()[s][t]).first);
    turnPointers.push_back(std::move(pointers));
  }
  for (const std::vector<const void *> &pointers : turnPointers)
    slotPointers.push_back(pointers.data());
}

const void *DeviceSide::input(int function, size_t number, const std::vector<uint8_t> &bytes) {
  Input &input = inputs.try_emplace({function, number}, Input{Buffer(device), {}}).first->second;
  if (input.memory.size() && input.sent == bytes)
    return input.memory.data();
  if (bytes.size() > input.memory.size())
    input.memory.reset(bytes.size() + bytes.size() / 8);
  device.copy(input.memory.data(), bytes.data(), bytes.size());
  input.sent = bytes;
  return input.memory.data();
}

void *DeviceSide::output(size_t number, size_t bytes) {
  while (outputs.size() <= number)
    outputs.emplace_back(device);
  outputs[number].ensure(std::max<size_t>(bytes, 1));
  return outputs[number].data();
}

} // namespace quern::runtime
