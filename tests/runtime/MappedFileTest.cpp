// Mapped files that change while they are in use.
#include "runtime/files/MappedFile.h"
#include "runtime/files/MappingFaults.h"
#include "tests/runtime/TestData.h"

#include <gtest/gtest.h>

#include <csignal>
#include <unistd.h>

using namespace quern::runtime;
using namespace quern::runtime::test;

namespace {

TEST(MappedFile, ATruncatedFileIsASentence) {
  std::string path = temporaryPath("shrinks.safetensors");
  writeText(path, std::string(100000, 'x'));
  auto read = [&] {
    reportMappingFaults();
    std::shared_ptr<const MappedFile> other = MappedFile::open(path), file = MappedFile::open(path);
    other.reset();
    if (::truncate(path.c_str(), 4096) != 0)
      _exit(9);
    volatile uint8_t last = file->data()[99999];
    _exit(last == 0 ? 7 : 8);
  };
  EXPECT_EXIT(read(), testing::ExitedWithCode(2), "error: .*shrinks.safetensors became shorter while it was in use");
}

TEST(MappedFile, OtherBusErrorsAreSignals) {
  EXPECT_EXIT(
      {
        reportMappingFaults();
        ::raise(SIGBUS);
        ::raise(SIGBUS);
      },
      testing::KilledBySignal(SIGBUS), "");
}

} // namespace
