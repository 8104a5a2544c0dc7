// What is planned for a kernel's scratch, beside what its blocks come to.
#include "codegen/halide/KernelScratch.h"
#include "codegen/halide/HalideProducer.h"
#include "codegen/halide/KernelBuilder.h"
#include "tests/codegen/Check.h"

#include <filesystem>

using namespace Halide;

namespace quern::codegen {
namespace {

/// The plan's bytes for a length, read back from its text.
int64_t planned(const std::vector<Scratch::Case> &cases, int64_t length) {
  return bytesOf(cases,
                 [&](const ir::Size &size) { return size.evaluate([&](const std::string &) { return length; }); });
}

int64_t block(int64_t bytes) {
  return (bytes + 127) / 128 * 128 + 256;
}

/// No less, and no more than 2% and 512 bytes above.
void expectNear(int64_t value, int64_t bytes) {
  EXPECT_GE(value, bytes);
  EXPECT_LE(value, bytes + bytes / 50 + 512);
}

class KernelScratchTest : public ::testing::Test {
protected:
  Param<int32_t> length{std::string(lengthPrefix) + "T"};
  ImageParam in{Float(32), 1};
  Func whole{"whole"}, strip{"strip"}, out{"out"};
  Var x{"x"}, outer{"outer"}, inner{"inner"};

  Scratch scratch() {
    in.dim(0).set_bounds(0, length);
    out.output_buffer().dim(0).set_bounds(0, length);
    Target target("x86-64-linux-no_runtime-no_asserts-no_bounds_query");
    Module module = Pipeline(out).compile_to_module({length, in}, "kernel", target);
    return parseScratch(scratchText(scratchOf(module.get_conceptual_stmt(), {"T"})));
  }
};

TEST_F(KernelScratchTest, AValueStoredWholeIsTheCallers) {
  whole(x) = in(x) * 2;
  out(x) = whole(x) + whole(length - 1 - x);
  whole.compute_root();
  Scratch plan = scratch();
  for (int64_t length : {1, 2, 300, 1000, 4097, 100000})
    expectNear(planned(plan.caller, length), block(4 * length));
  EXPECT_EQ(planned(plan.worker, 1000), 0);
}

TEST_F(KernelScratchTest, AStripOfATaskIsEachThreads) {
  strip(x) = in(x) * 2;
  out(x) = strip(x) + strip(max(x - 1, 0));
  out.split(x, outer, inner, 8192, TailStrategy::GuardWithIf).parallel(outer);
  strip.compute_at(out, outer);
  Scratch plan = scratch();
  for (int64_t length : {16384, 100000}) // a text of one task is read by its caller alone
    expectNear(planned(plan.worker, length), block(4 * 8193));
  expectNear(planned(plan.caller, 100000), block(4 * 8193));
}

TEST_F(KernelScratchTest, OnePositionMayGoItsOwnWay) {
  whole(x) = in(x) * 2;
  strip(x) = whole(x) + whole(length - 1 - x);
  out(x) = strip(x) + strip(length - 1 - x);
  whole.compute_root();
  strip.compute_root();
  out.specialize(length == 1);
  Scratch plan = scratch();
  expectNear(planned(plan.caller, 1000), 2 * block(4000));
}

TEST_F(KernelScratchTest, WhatStaysInRegistersOrOnTheStackIsNone) {
  out(x) = in(x) * 2;
  Scratch plan = scratch();
  EXPECT_EQ(planned(plan.caller, 1000), 0);
  EXPECT_EQ(planned(plan.worker, 1000), 0);
}

/// The gradient of a vocabulary's weights: logits' gradients lie by token, and are copied by word. Of tokens that there
/// are, no more.
TEST(KernelScratchOfKernels, ACopyOfLogitsIsAsLargeAsTheyAre) {
  constexpr int64_t words = 5001, strips = 800 << 10; // of both operands' columns, whatever the tokens
  GraphMaker g;
  int logits = g.argument(Kind::Real, {dim("M"), dim("V", words)}),
      x = g.argument(Kind::Real, {dim("M"), dim("D", 200)});
  int sum = g.argument(Kind::Real, {dim("V", words), dim("D", 200)});
  g.yield(g.elementwise(Op::Add, {sum, g.contract(logits, x, {"M"})}));
  std::string object = testing::TempDir() + "quern_scratch.o";
  const KernelGraph &graph = g.finish("scratch");
  CpuTarget target = cpuTarget("native");
  KernelPlan how = halideProducer().choose(graph, target, ScheduleTable::standard());
  Scratch plan = halideProducer().make(graph, how, target, "kernel", EmitForm::Object, object);
  std::filesystem::remove(object);
  for (int64_t tokens : {64, 100, 288, 480, 511, 513, 700, 4000}) {
    EXPECT_GE(planned(plan.caller, tokens), 4 * words * tokens) << tokens;
    EXPECT_LE(planned(plan.caller, tokens), 4 * words * tokens * 103 / 100 + strips) << tokens;
  }
}

TEST(KernelScratchText, BrokenOnesAreNamed) {
  EXPECT_THROW(parseScratch("s0 : ; \n\n\n"), std::runtime_error);
  EXPECT_THROW(parseScratch("s0 12\n"), std::runtime_error);
  EXPECT_THROW(parseScratch(": 12 *;\n"), std::runtime_error);
}

} // namespace
} // namespace quern::codegen
