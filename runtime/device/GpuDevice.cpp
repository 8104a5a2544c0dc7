// Takes: addresses and sizes. Gives: a driver's blocks and offsets; every address that a kernel or a copy gets is looked
// up, so that one of the host's never reaches a device.
#include "runtime/device/GpuDevice.h"

#include "runtime/Error.h"

#include <algorithm>

namespace quern::runtime {

GpuDevice::GpuDevice() {
  calls.copy = [](quern_device *, void *to, const void *from, int64_t bytes) {
    inLaunch([&](GpuDevice &self) { self.copy(to, from, size_t(bytes)); });
  };
  calls.flag = [](quern_device *, const void *at) -> int32_t {
    uint8_t flag = 0;
    inLaunch([&](GpuDevice &self) { self.copy(&flag, at, 1); });
    return flag;
  };
}

GpuDevice::Place GpuDevice::placeOf(const void *address, size_t bytes, const char *what) const {
  Place place = space.find(address);
  if (!place.block)
    throw MachineError(std::string(what) + " got an address that is not in the memory of " + name());
  if (place.left < bytes)
    throw MachineError(format("%s reaches %zu bytes beyond its memory on %s", what, bytes - place.left, name()));
  return place;
}

void *GpuDevice::allocate(size_t bytes) {
  finish(); // before a driver may reuse what was released
  void *block = takeMemory(bytes);
  if (!block)
    return nullptr;
  void *address = space.add(block, bytes);
  if (!address) {
    giveMemory(block);
    return nullptr;
  }
  ++counted.allocations;
  fillWith({block, 0, bytes}, 0, bytes);
  return address;
}

void GpuDevice::release(void *memory, size_t) {
  void *block = space.remove(memory);
  if (!block)
    return;
  try {
    finish();
    giveMemory(block);
  } catch (const MachineError &) {
    // Destructors come here. A device that is lost has said so, or will to whoever waits for it next.
  }
}

void GpuDevice::copy(void *to, const void *from, size_t bytes) {
  if (!bytes || to == from)
    return;
  bool toDevice = space.find(to).block, fromDevice = space.find(from).block;
  if (toDevice && fromDevice) {
    ++counted.moved;
    move(placeOf(to, bytes, "a copy"), placeOf(from, bytes, "a copy"), bytes);
  } else if (toDevice) {
    ++counted.sent, counted.sentBytes += bytes;
    send(placeOf(to, bytes, "a copy"), from, bytes);
  } else {
    ++counted.fetched, counted.fetchedBytes += bytes;
    fetch(to, placeOf(from, bytes, "a copy"), bytes);
  }
}

bool GpuDevice::beginFetch(const void *from, size_t bytes) {
  if (!fetchBehind(placeOf(from, bytes, "a copy"), bytes))
    return false;
  ++counted.fetched, counted.fetchedBytes += bytes;
  return true;
}

void GpuDevice::fill(void *memory, int byte, size_t bytes) {
  if (bytes)
    fillWith(placeOf(memory, bytes, "a fill"), byte, bytes);
}

int32_t GpuDevice::run(Scratch &, quern_function function, const quern_call &call) {
  return launching([&] { return function(&call); });
}

int32_t GpuDevice::launching(const std::function<int32_t()> &code) {
  failure.clear();
  running = this;
  int32_t status = code();
  running = nullptr;
  for (Block &block : blocks)
    block.used = false; // what a failed kernel left
  if (!failure.empty())
    throw MachineError("a kernel failed: " + failure);
  return status;
}

uint64_t GpuDevice::mark() {
  size_t number = 0;
  while (number < mostMarks && marks[number])
    ++number;
  if (number == mostMarks)
    throw MachineError(format("more than %zu marks of time are in use on %s", mostMarks, name()));
  setMark(number);
  marks.set(number);
  return number;
}

double GpuDevice::seconds(uint64_t from, uint64_t to) {
  finish();
  double result = secondsBetween(from, to);
  marks.reset(from);
  marks.reset(to);
  return result;
}

void *GpuDevice::takeBlock(size_t bytes) {
  Block *best = nullptr;
  for (Block &block : blocks)
    if (!block.used && block.bytes >= bytes && (!best || block.bytes < best->bytes))
      best = &block;
  if (!best) {
    size_t rounded = std::max<size_t>(4096, bytes + bytes / 8); // so that a growing text seldom needs another
    void *address = allocate(rounded);
    if (!address)
      throw MachineError("no " + formatBytes(double(rounded)) + " of memory are left on " + name() +
                         " for what a kernel stores between its launches");
    blocks.push_back({address, rounded, false});
    best = &blocks.back();
  }
  best->used = true;
  return best->address;
}

void GpuDevice::giveBlock(void *address) {
  for (Block &block : blocks)
    if (block.address == address)
      block.used = false;
}

void *GpuDevice::keepConstants(const void *host, size_t bytes) {
  void *address = allocate(bytes);
  if (!address)
    throw MachineError("no memory is left on " + std::string(name()) + " for a kernel's constants");
  copy(address, host, bytes);
  return address;
}

void GpuDevice::launch(void *built, const char *kernel, const Grid &grid, const std::vector<Argument> &arguments) {
  if (!grid.groups[0] || !grid.groups[1] || !grid.groups[2])
    return;
  places.clear();
  for (const Argument &argument : arguments)
    places.push_back(argument.isBuffer ? placeOf(argument.value, 1, kernel) : Place());
  ++counted.launches;
  begin(built, kernel, grid, arguments, places);
}

} // namespace quern::runtime
