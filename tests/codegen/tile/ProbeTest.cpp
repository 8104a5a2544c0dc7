// The probe of tensor cores: it multiplies what it says, as often as it says, and does nothing else in its loop. So a rate that
// is computed from its time is one of products.
#include "codegen/tile/ptx/TensorProbe.h"
#include "support/numbers/SmallFloats.h"
#include "tests/gpu/ptx/Ptx.h"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <vector>

using namespace quern;
using namespace quern::codegen;

namespace {

constexpr uint32_t probeThreads = 256, warpLanes = 32, chains = 8;

class Ends : public ptx::Memory {
public:
  explicit Ends(size_t count) : numbers(count, -1) {}
  uint8_t *at(uint64_t address, size_t bytes) override {
    uint64_t begin = reinterpret_cast<uint64_t>(numbers.data());
    if (address < begin || address + bytes > begin + 4 * numbers.size())
      throw std::runtime_error("an address that is in no buffer");
    return reinterpret_cast<uint8_t *>(address);
  }
  std::vector<float> numbers;
};

std::vector<float> probed(uint32_t blocks, int32_t iterations) {
  std::unique_ptr<ptx::Module> module = ptx::parse(tile::tensorProbe().ptx);
  const ptx::Function &kernel = *module->functions.at("tensor_probe");
  Ends memory(size_t(blocks) * probeThreads);
  ptx::Launch launch{*module, kernel, {blocks, 1, 1}, {probeThreads, 1, 1}, {}, 0, 1};
  launch.parameters.resize(kernel.parameterBytes);
  uint64_t address = reinterpret_cast<uint64_t>(memory.numbers.data());
  std::memcpy(&launch.parameters[kernel.parameters.at(0).offset], &address, 8);
  std::memcpy(&launch.parameters[kernel.parameters.at(1).offset], &iterations, 4);
  ptx::run(launch, memory);
  return memory.numbers;
}

/// One of the two factors that a thread has in its register `number`.
double factor(uint32_t thread, uint32_t number, int half) {
  uint32_t bits = (((thread + 1 + number) * 0x9e3779b1u) & 0x007f007fu) | 0x3f803f80u;
  return double(support::bf16ToFloat(uint16_t(half ? bits >> 16 : bits)));
}

/// Of a warp, the sums of all its results: of each depth the sum of x's column by that of w's row (the PTX ISA's m16n8k16:
/// a lane's registers of x are rows lane / 4 and that + 8, depths 2 (lane % 4) and that + 8; those of w depths likewise).
double expected(uint32_t warp, int32_t iterations) {
  double x[16] = {}, w[16] = {}, all = 0;
  for (uint32_t lane = 0; lane < warpLanes; ++lane)
    for (int half = 0; half < 2; ++half) {
      uint32_t thread = warp * warpLanes + lane, depth = 2 * (lane % 4) + uint32_t(half);
      for (uint32_t i = 0; i < 4; ++i)
        x[depth + 8 * (i / 2)] += factor(thread, i, half);
      for (uint32_t i = 0; i < 2; ++i)
        w[depth + 8 * i] += factor(thread, 4 + i, half);
    }
  for (int k = 0; k < 16; ++k)
    all += x[k] * w[k];
  return all * chains * iterations;
}

} // namespace

TEST(TensorProbe, MultipliesAsOftenAsItSays) {
  for (int32_t iterations : {0, 1, 5}) {
    std::vector<float> ends = probed(2, iterations);
    for (uint32_t warp = 0; warp < ends.size() / warpLanes; ++warp) {
      double sum = 0;
      for (uint32_t lane = 0; lane < warpLanes; ++lane)
        sum += double(ends[warp * warpLanes + lane]);
      double want = expected(warp % (probeThreads / warpLanes), iterations);
      EXPECT_NEAR(sum, want, 1e-5 * want) << warp << " " << iterations;
    }
  }
}

TEST(TensorProbe, NothingElseIsInItsLoop) {
  std::string ptx = tile::tensorProbe().ptx;
  size_t first = ptx.find("mma.sync"), last = ptx.rfind("mma.sync");
  ASSERT_NE(first, std::string::npos);
  size_t count = 0;
  for (size_t at = first; at != std::string::npos; at = ptx.find("mma.sync", at + 1))
    ++count;
  EXPECT_EQ(count % chains, 0u);
  std::string between = ptx.substr(first, last - first);
  EXPECT_EQ(between.find("add.f32"), std::string::npos) << "sums are added behind the loop: " << ptx;
  EXPECT_EQ(between.find(".global"), std::string::npos);
}
