// What is planned for a kernel's scratch, beside what its blocks come to.
#include "codegen/halide/KernelScratch.h"
#include "codegen/halide/HalideProducer.h"
#include "codegen/halide/KernelBuilder.h"
#include "tests/codegen/support/Check.h"

#include <filesystem>

using namespace Halide;

namespace quern::codegen {
namespace {

/// The plan's bytes for a length.
ScratchBytes planned(const Scratch &plan, int64_t length) {
  return bytesOf(plan, [&](const std::string &) { return length; });
}

int64_t block(int64_t bytes) {
  return (bytes + 127) / 128 * 128 + 256;
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
  for (int64_t length : {1, 2, 299, 1000, 4097, 123457})
    EXPECT_EQ(planned(plan, length).caller, block(4 * length));
  EXPECT_EQ(planned(plan, 1000).worker, 0);
}

TEST_F(KernelScratchTest, AStripOfATaskIsEachThreads) {
  strip(x) = in(x) * 2;
  out(x) = strip(x) + strip(max(x - 1, 0));
  out.split(x, outer, inner, 8192, TailStrategy::GuardWithIf).parallel(outer);
  strip.compute_at(out, outer);
  Scratch plan = scratch();
  for (int64_t length : {16384, 100000}) {
    EXPECT_EQ(planned(plan, length).worker, block(4 * 8193));
    EXPECT_EQ(planned(plan, length).caller, block(4 * 8193));
  }
  EXPECT_EQ(planned(plan, 8000).worker, 0); // a text of one task is read by its caller alone
}

TEST_F(KernelScratchTest, OnePositionMayGoItsOwnWay) {
  whole(x) = in(x) * 2;
  strip(x) = whole(x) + whole(length - 1 - x);
  out(x) = strip(x) + strip(length - 1 - x);
  whole.compute_root();
  strip.compute_root();
  out.specialize(length == 1);
  Scratch plan = scratch();
  EXPECT_EQ(planned(plan, 1000).caller, 2 * block(4000));
}

TEST_F(KernelScratchTest, WhatStaysInRegistersOrOnTheStackIsNone) {
  out(x) = in(x) * 2;
  Scratch plan = scratch();
  EXPECT_EQ(planned(plan, 1000).caller, 0);
  EXPECT_EQ(planned(plan, 1000).worker, 0);
}

Scratch scratchOf(const KernelGraph &graph, const KernelPlan &plan) {
  std::string object = testing::TempDir() + "quern_scratch.o";
  Scratch scratch = halideProducer().make(graph, plan, cpuTarget("native"), "kernel", EmitForm::Object, object);
  std::filesystem::remove(object);
  return scratch;
}

/// The gradient of a vocabulary's weights: logits' gradients are stored by token, and are copied by word. Of tokens that there
/// are, no more.
TEST(KernelScratchOfKernels, ACopyOfLogitsIsAsLargeAsTheyAre) {
  constexpr int64_t words = 5001, strips = 2 << 20; // of both operands' columns, whatever the tokens
  GraphMaker g;
  int logits = g.argument(Storage::F32, {dim("M"), dim("V", words)}),
      x = g.argument(Storage::F32, {dim("M"), dim("D", 200)});
  int sum = g.argument(Storage::F32, {dim("V", words), dim("D", 200)});
  g.yield(g.elementwise(Op::Add, {sum, g.contract(logits, x, {"M"})}));
  const KernelGraph &graph = g.finish("scratch");
  KernelPlan how = halideProducer().choose(graph, cpuTarget("native"), ScheduleTable::standard());
  const bool tiles = how.parts[0]["amx"]; // whose copies are three pieces of bf16
  const int64_t bytes = tiles ? 6 : 4, tile = tiles ? depthOfTile : 1;
  Scratch plan = scratchOf(graph, how);
  for (int64_t tokens : {64, 100, 288, 480, 511, 513, 700, 4000}) {
    const int64_t whole = (tokens + tile - 1) / tile * tile; // of tiles
    EXPECT_GE(planned(plan, tokens).caller, bytes * words * tokens) << tokens;
    EXPECT_LE(planned(plan, tokens).caller, bytes * words * whole * 104 / 100 + strips) << tokens;
  }
}

/// Queries and keys of one product, rotated by halves, keys into bf16: beside the product nothing of the text's length is stored.
TEST(KernelScratchOfKernels, RotatedHalvesAreMadeByRows) {
  GraphMaker g;
  int x = g.argument(Storage::F32, {dim("T"), dim("D", 32)});
  int angle = g.argument(Storage::F32, {dim("T"), dim("J", 32)});
  int both = g.contract(x, g.weight({dim("O", 384), dim("D", 32)}, 16), {"D"});
  auto rotated = [&](int64_t at) {
    int part = g.split(g.cut(both, "O", at, dim("P", 192)), "P", {dim("H", 3), dim("K", 64)});
    int a = g.cut(part, "K", 0, dim("J", 32)), b = g.cut(part, "K", 32, dim("J", 32));
    int left = g.elementwise(Op::Sub, {g.elementwise(Op::Mul, {a, angle}), b});
    int right = g.elementwise(Op::Add, {g.elementwise(Op::Mul, {b, angle}), a});
    return g.concat({left, right}, {"J", "J"}, dim("K", 64));
  };
  g.yield(rotated(0));
  g.yield(g.elementwise(Op::Narrow, {rotated(192)}));
  const KernelGraph &graph = g.finish("rotated");
  KernelPlan how = halideProducer().choose(graph, cpuTarget("native"), ScheduleTable::standard());
  const int64_t rows = how.parts[0]["amx"] ? 6 * 32 : 0; // copied, in three pieces of bf16
  Scratch plan = scratchOf(graph, how);
  for (int64_t tokens : {500, 4000})
    EXPECT_LE(planned(plan, tokens).caller, tokens * (4 * 384 + rows) * 104 / 100 + (64 << 10)) << tokens;
}

TEST(ScratchText, BrokenOnesAreNamed) {
  for (const char *text :
       {"", "number 3\n", "number\nresults 0 0\n", "add 0 1\nresults 0 0\n", "number 1\nresults 1 0\n",
        "number 1 2\nresults 0 0\n", "twice 0\nresults 0 0\n", "results -1 -1\nnumber 1\n"})
    EXPECT_THROW(parseScratch(text), std::runtime_error) << text;
  EXPECT_EQ(parseScratch("results -1 -1\n").steps.size(), 0u);
}

TEST(ScratchSteps, AreComputedAsHalideDoes) {
  using Op = Scratch::Op;
  auto value = [](Op op, int64_t x, int64_t y) { // known, and only where it runs
    ScratchBuilder b;
    int known = b.make(op, b.number(x), b.number(y)), run = b.make(op, b.length("x"), b.length("y"));
    ScratchBytes bytes = bytesOf(b.finish(known, run), [&](const std::string &name) { return name == "x" ? x : y; });
    EXPECT_EQ(bytes.caller, bytes.worker);
    return bytes.caller;
  };
  EXPECT_EQ(value(Op::Div, 7, 2), 3);
  EXPECT_EQ(value(Op::Div, -7, 2), -4);
  EXPECT_EQ(value(Op::Div, 7, 0), 0);
  EXPECT_EQ(value(Op::Mod, -7, 4), 1);
  EXPECT_EQ(value(Op::Sub, 2, 5), -3);
  EXPECT_EQ(value(Op::Less, 2, 3), 1);
  EXPECT_EQ(value(Op::Less, 3, 3), 0);
  EXPECT_EQ(value(Op::Equal, 3, 3), 1);
}

TEST(ScratchSteps, OnlyWhatIsNeededIsKept) {
  using Op = Scratch::Op;
  ScratchBuilder b;
  int t = b.length("T");
  b.make(Op::Mul, t, b.number(5));
  int sum = b.make(Op::Add, b.make(Op::Add, b.number(3), t), b.number(4)), same = b.make(Op::Add, t, b.number(7));
  EXPECT_EQ(sum, same);
  Scratch scratch = b.finish(sum, b.make(Op::Sub, t, t));
  EXPECT_EQ(scratchText(scratch), "length T\nnumber 7\nadd 0 1\nnumber 0\nresults 2 3\n");
}

/// Tasks of 100 rows that see all keys up to their own: the last has more keys, the one before it more rows.
TEST(ScratchSteps, TheMostOfALoopMayLieAnywhere) {
  using Op = Scratch::Op;
  ScratchBuilder b;
  int t = b.length("T"), hundred = b.number(100), task = b.counter();
  int begin = b.make(Op::Mul, task, hundred), end = b.make(Op::Min, b.make(Op::Add, begin, hundred), t);
  int tasks = b.make(Op::Div, b.make(Op::Add, t, b.number(99)), hundred);
  int most = b.most(task, tasks, b.make(Op::Mul, b.make(Op::Sub, end, begin), end));
  EXPECT_EQ(b.most(b.counter(), tasks, t), t);
  Scratch scratch = parseScratch(scratchText(b.finish(most, tasks)));
  auto bytes = [&](int64_t length) { return bytesOf(scratch, [&](const std::string &) { return length; }); };
  EXPECT_EQ(bytes(0).caller, 0);
  EXPECT_EQ(bytes(50).caller, 50 * 50);
  EXPECT_EQ(bytes(400).caller, 100 * 400);
  EXPECT_EQ(bytes(410).caller, 100 * 400);
  EXPECT_EQ(bytes(410).worker, 5);
}

} // namespace
} // namespace quern::codegen
