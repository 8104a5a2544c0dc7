// The memory of the tests' device: blocks that were taken, each filled with what is no number.
#ifndef QUERN_TESTS_GPU_FAKEMEMORY_H
#define QUERN_TESTS_GPU_FAKEMEMORY_H

#include "tests/gpu/ptx/Ptx.h"

#include <map>
#include <memory>
#include <stdexcept>

namespace quern {

struct Block {
  std::vector<uint8_t> bytes;
};

class Blocks : public ptx::Memory {
public:
  uint64_t take(size_t bytes) {
    taken += bytes;
    auto block = std::make_unique<Block>(Block{std::vector<uint8_t>(bytes + 256, 0xff)});
    uint64_t address = (reinterpret_cast<uint64_t>(block->bytes.data()) + 255) / 256 * 256;
    ranges[address] = {bytes, std::move(block)};
    return address;
  }
  bool give(uint64_t address) {
    auto at = ranges.find(address);
    if (at == ranges.end())
      return false;
    taken -= at->second.bytes;
    last = {};
    ranges.erase(at);
    return true;
  }
  uint8_t *at(uint64_t address, size_t bytes) override {
    if (address - last.first >= last.second || last.second - (address - last.first) < bytes) {
      auto next = ranges.upper_bound(address);
      if (next == ranges.begin())
        throw std::runtime_error("an address that is in no memory of the device");
      --next;
      if (address - next->first + bytes > next->second.bytes)
        throw std::runtime_error("an address behind a block's end");
      last = {next->first, next->second.bytes};
    }
    return reinterpret_cast<uint8_t *>(address);
  }
  size_t taken = 0;

private:
  struct Range {
    size_t bytes;
    std::unique_ptr<Block> block;
  };
  std::map<uint64_t, Range> ranges;
  std::pair<uint64_t, uint64_t> last{}; // where the last access was
};

} // namespace quern
#endif
