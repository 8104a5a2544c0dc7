// Takes: logits in a device's memory. Gives: a token there, by kernels that the compiler adds to each program for a device
// (codegen/halide/gpu/Sampling.cpp says how they choose).
#include "runtime/device/GpuDevice.h"
#include "runtime/device/HalideVector.h"

using quern::runtime::HalideBuffer;

// Weak: absent from tests of single kernels.
extern "C" {
__attribute__((weak)) int quern_sample_greedy(int32_t count, HalideBuffer *logits, HalideBuffer *token);
__attribute__((weak)) int quern_sample_weigh(int32_t count, double temperature, HalideBuffer *logits,
                                             HalideBuffer *weights, HalideBuffer *total);
__attribute__((weak)) int quern_sample_narrow(int32_t count, int32_t counts, double value, HalideBuffer *weights,
                                              HalideBuffer *total, HalideBuffer *kept);
__attribute__((weak)) int quern_sample_least(int32_t count, double value, HalideBuffer *weights, HalideBuffer *total,
                                             HalideBuffer *kept);
__attribute__((weak)) int quern_sample_draw(int32_t count, double point, HalideBuffer *weights, HalideBuffer *total,
                                            HalideBuffer *token);
}

namespace quern::runtime {

using Vector = HalideVector<1>;

TokenChooser *GpuDevice::chooser() {
  return quern_sample_greedy ? this : nullptr;
}

void GpuDevice::choose(const Draw &draw, const void *logits, int64_t words, void *token) {
  int32_t count = int32_t(words);
  Vector given(logits, Vector::Real, 32, {count}), chosen(token, Vector::Signed, 32, {1});
  launching([&]() -> int32_t {
    if (draw.temperature == 0)
      return quern_sample_greedy(count, &given.buffer, &chosen.buffer);
    return inLaunch([&](GpuDevice &self) {
      constexpr size_t apart = 64; // of two numbers that launches write
      auto *sums = static_cast<uint8_t *>(self.takeBlock(2 * apart));
      void *room = self.takeBlock(4 * size_t(words));
      Vector weights(room, Vector::Unsigned, 32, {count}), one(sums, Vector::Real, 64, {1}),
          other(sums + apart, Vector::Real, 64, {1});
      HalideBuffer *total = &one.buffer, *next = &other.buffer;
      quern_sample_weigh(count, draw.temperature, &given.buffer, &weights.buffer, total);
      if (draw.topK > 0) {
        quern_sample_narrow(count, 1, double(draw.topK), &weights.buffer, total, next);
        std::swap(total, next);
      }
      if (draw.topP < 1) {
        quern_sample_narrow(count, 0, draw.topP, &weights.buffer, total, next);
        std::swap(total, next);
      }
      if (draw.minP > 0) {
        quern_sample_least(count, draw.minP * heaviest, &weights.buffer, total, next);
        std::swap(total, next);
      }
      quern_sample_draw(count, draw.point, &weights.buffer, total, &chosen.buffer);
      self.giveBlock(room);
      self.giveBlock(sums);
    });
  });
}

} // namespace quern::runtime
