// Takes: weights in the host's memory as kernels want them, tensors of a call. Gives: the same in a device's memory.
#include "runtime/engine/DeviceSide.h"

#include "runtime/Error.h"

#include <algorithm>
#include <map>
#include <utility>

namespace quern::runtime {

namespace {
class SentSide : public DeviceSide {
public:
  SentSide(Device &device, const Description &description, const Weights &weights, const std::vector<Mirror> &mirrors);
  void send() override;
  const void *const *const *slots() const override { return slotPointers.data(); }
  const void *input(int function, size_t number, const std::vector<uint8_t> &bytes) override;
  void *output(size_t number, size_t bytes) override;

private:
  struct Input {
    Buffer memory;
    std::vector<uint8_t> sent;
  };
  struct Place {
    size_t offset = 0, bytes = 0;
  };
  Device &device;
  std::map<const void *, Place> places; // of what is sent, by the host's address: a tied head is sent once
  Buffer weightMemory;
  std::vector<std::vector<const void *>> iterationPointers;
  std::vector<const void *const *> slotPointers;
  std::map<std::pair<int, size_t>, Input> inputs;
  std::vector<Buffer> outputs;
};
} // namespace

static const uint8_t *mirrored(const std::vector<Mirror> &mirrors, const void *host) {
  const auto *at = static_cast<const uint8_t *>(host);
  for (const Mirror &mirror : mirrors)
    if (at >= mirror.host && at < mirror.host + mirror.bytes)
      return mirror.device + (at - mirror.host);
  return nullptr;
}

SentSide::SentSide(Device &device, const Description &d, const Weights &weights, const std::vector<Mirror> &mirrors)
    : device(device), weightMemory(device) {
  constexpr size_t alignment = 128;
  for (const WeightPiece &piece : weights.pieces()) {
    if (mirrored(mirrors, piece.data))
      continue;
    Place &place = places[piece.data];
    place.bytes = std::max(place.bytes, size_t(piece.bytes));
  }
  size_t needed = 0;
  for (auto &[host, place] : places) {
    place.offset = needed;
    needed += (place.bytes + alignment - 1) / alignment * alignment;
  }
  weightMemory.reset(needed);
  send();
  for (size_t s = 0; s < d.slots.size(); ++s) {
    std::vector<const void *> pointers;
    for (size_t t = 0; t < d.slots[s].iterations.size(); ++t) {
      const void *host = weights.slots()[s][t], *there = mirrored(mirrors, host);
      pointers.push_back(there ? there : weightMemory.data() + places.at(host).offset);
    }
    iterationPointers.push_back(std::move(pointers));
  }
  for (const std::vector<const void *> &pointers : iterationPointers)
    slotPointers.push_back(pointers.data());
}

void SentSide::send() {
  for (const auto &[host, place] : places)
    device.copy(weightMemory.data() + place.offset, host, place.bytes);
}

const void *SentSide::input(int function, size_t number, const std::vector<uint8_t> &bytes) {
  Input &input = inputs.try_emplace({function, number}, Input{Buffer(device), {}}).first->second;
  if (input.memory.size() && input.sent == bytes)
    return input.memory.data();
  if (bytes.size() > input.memory.size())
    input.memory.reset(bytes.size() + bytes.size() / 8);
  device.copy(input.memory.data(), bytes.data(), bytes.size());
  input.sent = bytes;
  return input.memory.data();
}

void *SentSide::output(size_t number, size_t bytes) {
  while (outputs.size() <= number)
    outputs.emplace_back(device);
  outputs[number].ensure(std::max<size_t>(bytes, 1));
  return outputs[number].data();
}

} // namespace quern::runtime

quern::runtime::DeviceSide *quern_make_device_side(quern::runtime::Device &device,
                                                   const quern::runtime::Description &description,
                                                   const quern::runtime::Weights &weights,
                                                   const std::vector<quern::runtime::Mirror> &mirrors) {
  return new quern::runtime::SentSide(device, description, weights, mirrors);
}
