// The next token as a device chooses it, beside the host's sampler: the same logits, rules and seed give the same token.
#include "codegen/halide/EmitKernel.h"
#include "codegen/halide/gpu/Sampling.h"
#include "runtime/Error.h"
#include "runtime/machine/Device.h"
#include "runtime/sampling/Sampler.h"
#include "support/TemporaryFolder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <dlfcn.h>
#include <random>

namespace {

/// The compiler's object as a library; this program has what it calls.
void *functionOf(const char *name) {
  static quern::support::TemporaryFolder folder;
  static void *library = [] {
    std::string object = folder.path() + "/s.o", shared = folder.path() + "/s.so";
    quern::codegen::writeKernel(quern::codegen::samplingModule(quern::codegen::cpuTarget(QUERN_DEVICE_TARGET)),
                                quern::codegen::EmitForm::Object, object);
    if (std::system(("cc -shared -o " + shared + " " + object).c_str()))
      throw std::runtime_error("cannot link the sampling");
    return dlopen(shared.c_str(), RTLD_NOW | RTLD_LOCAL);
  }();
  void *found = library ? dlsym(library, name) : nullptr;
  if (!found)
    throw std::runtime_error(dlerror());
  return found;
}

} // namespace

// What programs link (runtime/device/DeviceSampler.cpp).
extern "C" {
using quern_buffer = struct QuernBuffer;
int quern_sample_greedy(int32_t count, quern_buffer *logits, quern_buffer *token) {
  return reinterpret_cast<decltype(&quern_sample_greedy)>(functionOf("quern_sample_greedy"))(count, logits, token);
}
int quern_sample_weigh(int32_t count, double temperature, quern_buffer *logits, quern_buffer *weights,
                       quern_buffer *total) {
  return reinterpret_cast<decltype(&quern_sample_weigh)>(functionOf("quern_sample_weigh"))(count, temperature, logits,
                                                                                           weights, total);
}
int quern_sample_narrow(int32_t count, int32_t counts, double value, quern_buffer *weights, quern_buffer *total,
                        quern_buffer *kept) {
  return reinterpret_cast<decltype(&quern_sample_narrow)>(functionOf("quern_sample_narrow"))(count, counts, value,
                                                                                             weights, total, kept);
}
int quern_sample_least(int32_t count, double value, quern_buffer *weights, quern_buffer *total, quern_buffer *kept) {
  return reinterpret_cast<decltype(&quern_sample_least)>(functionOf("quern_sample_least"))(count, value, weights, total,
                                                                                           kept);
}
int quern_sample_draw(int32_t count, double point, quern_buffer *weights, quern_buffer *total, quern_buffer *token) {
  return reinterpret_cast<decltype(&quern_sample_draw)>(functionOf("quern_sample_draw"))(count, point, weights, total,
                                                                                         token);
}
}

namespace quern::runtime {
namespace {

/// The device that the other tests of this program open.
Device &device() {
  setenv("POCL_CACHE_DIR", QUERN_BUILD_FOLDER "/e2e/pocl", 0);
  setenv("MESA_SHADER_CACHE_DIR", QUERN_BUILD_FOLDER "/e2e/mesa", 0);
  setenv("QUERN_CUDA_LIBRARY", QUERN_BUILD_FOLDER "/lib/libquern_fake_cuda.so", 0);
  return Device::named(QUERN_DEVICE_TARGET);
}

/// As many tokens in a row of both.
void compare(const std::vector<float> &logits, const std::map<std::string, double> &rules, int tokens) {
  Sampler here({rules, 7}), there({rules, 7});
  void *given = device().allocate(logits.size() * 4), *token = device().allocate(4);
  device().copy(given, logits.data(), logits.size() * 4);
  for (int i = 0; i < tokens; ++i) {
    std::optional<Draw> draw = there.draw();
    ASSERT_TRUE(draw);
    device().chooser()->choose(*draw, given, int64_t(logits.size()), token);
    int32_t chosen = -2, wanted = -1;
    device().copy(&chosen, token, 4);
    try {
      wanted = here.next({}, logits);
    } catch (const UserError &) { // no logit is a finite number
    }
    ASSERT_EQ(chosen, wanted) << "token " << i << " of " << logits.size() << " words";
  }
  device().release(given, logits.size() * 4);
  device().release(token, 4);
}

const std::vector<std::map<std::string, double>> kinds = {
    {},
    {{"temp", 1}},
    {{"temp", 0.7}},
    {{"temp", 1.3}, {"top-k", 20}, {"top-p", 0.9}, {"min-p", 0.05}},
    {{"temp", 2}, {"top-k", 1}},
    {{"temp", 2}, {"top-k", 3}},
    {{"top-k", 1000000}},
    {{"top-p", 0}},
    {{"top-p", 0.5}},
    {{"temp", 5}, {"top-p", 0.999}},
    {{"min-p", 0.3}},
    {{"min-p", 1}}};

TEST(DeviceSampling, ChoosesAsTheHost) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 3);
  for (size_t words : {1, 2, 50, 257, 1500}) {
    std::vector<float> logits(words);
    for (float &logit : logits)
      logit = normal(random);
    for (const auto &rules : kinds)
      compare(logits, rules, words == 50 ? 12 : 3);
  }
}

TEST(DeviceSampling, EqualWordsAreTakenInTheirOrder) {
  std::vector<float> logits(600);
  for (size_t i = 0; i < logits.size(); ++i)
    logits[i] = float(i * 7 % 5) - (i % 2 ? 0.0f : -0.0f);
  for (const auto &rules : kinds)
    compare(logits, rules, 6);
  for (double k : {2.0, 100.0, 121.0, 300.0})
    compare(logits, {{"temp", 3}, {"top-k", k}}, 8);
}

TEST(DeviceSampling, InfinitiesAndNaN) {
  float inf = INFINITY;
  for (const std::vector<float> &logits : {std::vector<float>{NAN, 1, -inf, 2, NAN, 2},
                                           {-inf, -3},
                                           {NAN, NAN},
                                           {-inf, -inf},
                                           {1, inf, 2},
                                           {-0.0f, 0.0f},
                                           {NAN, -1e30f, -2}})
    for (const auto &rules : kinds)
      compare(logits, rules, 3);
}

TEST(DeviceSampling, WhatLooksAtTheTextIsTheHosts) {
  EXPECT_FALSE(Sampler({{{"temp", 1}, {"repeat-penalty", 1.1}}, 0}).draw());
  EXPECT_FALSE(Sampler({{{"temp", 1}, {"typical", 0.5}}, 0}).draw());
  EXPECT_FALSE(Sampler({{{"temp", 0}, {"no-repeat", 2}}, 0}).draw());
  EXPECT_FALSE(Sampler({{}, 0, {{3, -1.0}}}).draw());
  EXPECT_TRUE(Sampler({{{"temp", 0}, {"typical", 0.5}}, 0}).draw()) << "greedy";
}

} // namespace
} // namespace quern::runtime
