// Memory for kernels' scratch, below and above a page of 2 MiB.
#include "support/HugePages.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>

using namespace quern::support;

namespace {

TEST(HugePages, MemoryBeginsWhereItShould) {
  constexpr size_t hugePage = size_t(2) << 20;
  for (size_t bytes : {size_t(1), size_t(1000), hugePage - 1, hugePage, 2 * hugePage + 12345}) {
    auto *memory = static_cast<uint8_t *>(allocateAligned(bytes, 256));
    ASSERT_NE(memory, nullptr) << bytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % (bytes < hugePage ? 256 : hugePage), 0u) << bytes;
    std::memset(memory, 1, bytes);
    preferHugePages(memory + 1, bytes - 1); // asks for whole pages within, and changes nothing
    EXPECT_EQ(memory[0] + memory[bytes / 2] + memory[bytes - 1], 3) << bytes;
    std::free(memory);
  }
}

TEST(HugePages, MoreThanThereIsGivesNothing) {
  EXPECT_EQ(allocateAligned(std::numeric_limits<size_t>::max() - 100, 256), nullptr);
  EXPECT_EQ(allocateAligned(std::numeric_limits<size_t>::max() / 2, 256), nullptr);
}

} // namespace
