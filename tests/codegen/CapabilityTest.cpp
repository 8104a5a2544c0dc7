// Kernels for one kind of card on another: refused before the driver sees them. The tests' device is of capability 9.0.
#include "runtime/Error.h"
#include "runtime/device/GpuDevice.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace quern::runtime {
namespace {

std::string said(const char *target) {
  setenv("QUERN_CUDA_LIBRARY", QUERN_BUILD_FOLDER "/lib/libquern_fake_cuda.so", 0);
  std::string ptx = ".version 8.0\n.target " + std::string(target) + "\n.address_size 64\n";
  try {
    // The runtime is built without the types that dynamic_cast asks for.
    static_cast<GpuDevice &>(Device::named("cuda")).build(ptx.c_str(), ptx.size());
    return "";
  } catch (const MachineError &error) {
    return error.what();
  }
}

TEST(Capability, KernelsForAnotherCardAreRefused) {
  EXPECT_EQ(said("sm_70"), "");
  EXPECT_EQ(said("sm_90"), "");
  EXPECT_EQ(said("sm_90a"), "");
  for (const char *other : {"sm_80a", "sm_100", "sm_100a"})
    EXPECT_NE(said(other).find("Quern's fake device has 9.0; use "), std::string::npos) << said(other);
  EXPECT_NE(said("sm_80a").find("8.0 alone"), std::string::npos) << said("sm_80a");
  EXPECT_NE(said("sm_80a").find("use such a card"), std::string::npos) << said("sm_80a");
  EXPECT_NE(said("sm_100").find("10.0 or later"), std::string::npos) << said("sm_100");
  EXPECT_NE(said("sm_100").find("use a newer card"), std::string::npos) << said("sm_100");
}

} // namespace
} // namespace quern::runtime
