// How many threads may run: what the scheduler lets this process use, and what its control groups pay for. Pages of its memory.
#include "support/Processors.h"

#include "support/OutputFile.h"
#include "support/TemporaryFolder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <sched.h>

using namespace quern::support;

namespace {

TEST(Processors, AreThoseOfTheAffinity) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i)
    if (CPU_ISSET(i, &before))
      CPU_SET(i, &one);
  EXPECT_LE(availableThreads(), CPU_COUNT(&before));
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(availableThreads(), 1);
  sched_setaffinity(0, sizeof before, &before);
}

TEST(Processors, QuotasOfEnclosingGroupsCount) {
  TemporaryFolder folder;
  const std::string &root = folder.path();
  auto leastQuota = [&](const std::string &list) {
    return quern::support::leastQuota(controlGroups("cpu", list, root));
  };
  std::filesystem::create_directories(root + "/a/b");
  EXPECT_EQ(leastQuota("0::/a/b\n"), INFINITY) << "no files";
  writeFile(root + "/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(leastQuota("0::/a/b\n"), INFINITY);
  writeFile(root + "/a/b/cpu.max", "300000 100000\n");
  EXPECT_EQ(leastQuota("0::/a/b\n"), 3);
  EXPECT_EQ(leastQuota("0::/a\n"), INFINITY) << "the quota of another";
  writeFile(root + "/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(leastQuota("0::/a/b\n"), 1.5);
  std::filesystem::create_directories(root + "/cpu,cpuacct/c");
  writeFile(root + "/cpu,cpuacct/c/cpu.cfs_quota_us", "-1\n");
  writeFile(root + "/cpu,cpuacct/c/cpu.cfs_period_us", "100000\n");
  const std::string first = "5:memory:/a\n4:cpu,cpuacct:/c\n"; // v1, where only the cpu's group counts
  EXPECT_EQ(leastQuota(first), INFINITY);
  writeFile(root + "/cpu,cpuacct/c/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(leastQuota(first), 0.5);
}

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
