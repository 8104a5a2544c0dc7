// Takes: weights in the host's memory as kernels want them, tensors of a call. Gives: the same in a device's memory.
#include "runtime/engine/DeviceSide.h"

#include "runtime/Error.h"

#include <algorithm>

namespace quern::runtime {

DeviceSide::DeviceSide(Device &device, const Description &d, const Weights &weights)
    : device(device), weightMemory(device) {
  constexpr size_t alignment = 128;
  struct Place {
    size_t offset = 0, bytes = 0;
  };
  std::map<const void *, Place> places; // by the host's: a tied head is sent once
  for (const WeightPiece &piece : weights.pieces()) {
    Place &place = places[piece.data];
    place.bytes = std::max(place.bytes, size_t(piece.bytes));
  }
  size_t needed = 0;
  for (auto &[host, place] : places) {
    place.offset = needed;
    needed += (place.bytes + alignment - 1) / alignment * alignment;
  }
  weightMemory.reset(needed);
  for (const auto &[host, place] : places)
    device.copy(weightMemory.data() + place.offset, host, place.bytes);
  for (size_t s = 0; s < d.slots.size(); ++s) {
    std::vector<const void *> pointers;
    for (size_t t = 0; t < d.slots[s].turns.size(); ++t)
      pointers.push_back(weightMemory.data() + places.at(weights.slots()[s][t]).offset);
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
