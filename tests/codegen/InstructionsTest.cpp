// Kernels for processors that this machine need not be: what they are made of, and that looking at it finds what is wrong.
#include "tests/codegen/support/Instructions.h"
#include "tests/codegen/support/Check.h"

#include <gmock/gmock.h>

using namespace quern::codegen;

namespace {

/// Vectors, reductions, exponentials.
KernelGraph &softmaxOfProduct(GraphMaker &g) {
  int x = g.argument(Storage::F32, {dim("M"), dim("I", 40)}),
      w = g.argument(Storage::F32, {dim("I", 40), dim("O", 100)});
  g.yield(g.softmax(g.contract(x, w, {"I"}), {"O"}));
  return g.finish("instructions");
}

/// A row by a packed weight.
KernelGraph &rowByWeight(GraphMaker &g, Storage storage) {
  int x = g.argument(Storage::F32, {dim("I", 256)}), w = g.weight({dim("O", 128), dim("I", 256)}, 64, storage);
  g.yield(g.contract(
      x, storage == Storage::F32 ? w : g.elementwise(bitsOfCode(storage) ? Op::Dequantize : Op::Widen, {w}), {"I"}));
  return g.finish("row");
}

} // namespace

/// As on a machine that can run none of them.
TEST(Instructions, OfEachTargetAreItsOwn) {
  GraphMaker g;
  KernelGraph &graph = softmaxOfProduct(g);
  for (const std::string &name : cpuTargetNames()) {
    CpuTarget target = cpuTarget(name);
    EXPECT_EQ(foreignInstructions(graph, target, target), "") << name;
  }
}

TEST(Instructions, OfABetterProcessorAreNoticed) {
  GraphMaker g;
  KernelGraph &graph = softmaxOfProduct(g);
  CpuTarget v2 = cpuTarget("x86-64-v2"), v3 = cpuTarget("x86-64-v3"), v4 = cpuTarget("x86-64-v4");
  EXPECT_THAT(foreignInstructions(graph, v3, v2), testing::HasSubstr("is not supported on"));
  EXPECT_THAT(foreignInstructions(graph, v4, v3), testing::HasSubstr("zmm"));
}

/// Rows and a packed weight in bf16 are multiplied in pairs, of an even depth.
TEST(Instructions, PairsOfBF16) {
  for (int64_t depth : {64, 33}) {
    GraphMaker g;
    int x = g.argument(Storage::BF16, {dim("M"), dim("I", depth)}),
        w = g.weight({dim("O", 100), dim("I", depth)}, 64, Storage::BF16);
    g.yield(g.contract(g.elementwise(Op::Widen, {x}), g.elementwise(Op::Widen, {w}), {"I"}));
    std::string found = foreignInstructions(g.finish("pairs"), cpuTarget("znver4"), cpuTarget("icelake-server"));
    EXPECT_EQ(found.find("vdpbf16ps") != std::string::npos, depth % 2 == 0) << found;
  }
}

/// Rows and a packed weight in int8 are multiplied four bytes at a time where the processor can, by nothing that it has not.
TEST(Instructions, FoursOfBytes) {
  for (auto [name, fours] : {std::pair("x86-64-v3", false),
                             {"alderlake", true},
                             {"x86-64-v4", false},
                             {"cascadelake", true},
                             {"icelake-server", true},
                             {"znver4", true}}) {
    GraphMaker g;
    int x = g.argument(Storage::F32, {dim("M"), dim("I", 64)}),
        w = g.weight({dim("O", 100), dim("I", 64)}, 16, Storage::Int8);
    g.yield(g.contract(g.elementwise(Op::Dequantize, {g.quantize(x, "I")}), g.elementwise(Op::Dequantize, {w}), {"I"}));
    KernelGraph &graph = g.finish("fours");
    CpuTarget target = cpuTarget(name);
    EXPECT_EQ(countOf(assemblyOf(graph, target), "vpdpbusd") > 0, fours) << name;
    EXPECT_EQ(foreignInstructions(graph, target, target), "") << name;
  }
}

/// Of processors that sum pairs of bytes in 16 bits, rows in paired codes are multiplied as bytes, others are widened first.
TEST(Instructions, PairsOfBytes) {
  for (const char *name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"})
    for (bool paired : {false, true}) {
      GraphMaker g;
      int x = g.argument(Storage::F32, {dim("M"), dim("I", 64)}),
          w = g.weight({dim("O", 100), dim("I", 64)}, 16, Storage::Int8);
      g.yield(g.contract(g.elementwise(Op::Dequantize, {g.quantize(x, "I", Storage::Int8, paired)}),
                         g.elementwise(Op::Dequantize, {w}), {"I"}));
      KernelGraph &graph = g.finish("bytes");
      CpuTarget target = cpuTarget(name);
      EXPECT_EQ(countOf(assemblyOf(graph, target), "pmaddubsw") > 0, paired) << name;
      EXPECT_EQ(foreignInstructions(graph, target, target), "") << name;
    }
}

/// So are values as training has them: forward, and both backward products. Not where one side has more digits.
TEST(Instructions, PairsOfBF16InTraining) {
  struct Form {
    std::vector<Dim> x, w;
    const char *over;
  };
  Dim m = dim("M"), i = dim("I", 64), o = dim("O", 96);
  for (const Form &form : {Form{{m, i}, {o, i}, "I"}, Form{{m, o}, {o, i}, "O"}, Form{{m, o}, {m, i}, "M"}})
    for (bool both : {true, false}) {
      GraphMaker g;
      int x = g.argument(Storage::BF16, form.x), w = g.argument(both ? Storage::BF16 : Storage::F32, form.w);
      g.yield(g.contract(g.elementwise(Op::Widen, {x}), both ? g.elementwise(Op::Widen, {w}) : w, {form.over}));
      std::string found = foreignInstructions(g.finish("pairs"), cpuTarget("znver4"), cpuTarget("icelake-server"));
      EXPECT_EQ(found.find("vdpbf16ps") != std::string::npos, both) << form.over << found;
    }
}

TEST(Instructions, OfALesserProcessorAreNoticed) {
  GraphMaker g;
  EXPECT_EQ(foreignInstructions(softmaxOfProduct(g), cpuTarget("x86-64-v2"), cpuTarget("x86-64-v3")),
            "registers of 4 floats are used, those of x86-64-v3 hold 8");
}

TEST(Instructions, OfAProcessorThatThisIsNotAreNotRun) {
  GraphMaker g;
  CpuTarget another = cpuTarget("x86-64-v2");
  another.name = "another";
  ASSERT_FALSE(machineRuns(another));
  checkKernel(softmaxOfProduct(g), {{{"M", 3}}}, /*tolerance=*/-1, another); // a result would be refused
}

TEST(Instructions, NativeIsATargetThatTheMachineRuns) {
  EXPECT_TRUE(machineRuns(cpuTarget("native")));
  bool lesser = true; // what a machine runs is no gap: v4 includes v3 includes v2
  for (const char *name : {"x86-64-v2", "x86-64-v3", "x86-64-v4", "cascadelake", "icelake-server", "znver4"}) {
    bool runs = machineRuns(cpuTarget(name));
    EXPECT_TRUE(lesser || !runs) << name;
    lesser = runs;
  }
}

/// Lines of a weight are asked for ahead of the loop of a row alone: each once in an iteration, and nowhere where the plan says so.
TEST(Instructions, LinesAreAskedForAhead) {
  for (Storage storage : {Storage::F32, Storage::BF16, Storage::Int8, Storage::Int4, Storage::Q4K}) {
    GraphMaker g;
    KernelGraph &graph = rowByWeight(g, storage);
    for (const char *target : {"x86-64-v3", "x86-64-v4", "sapphirerapids-noamx"}) {
      ScheduleTable none = ScheduleTable::standard(), near = none;
      none.add("contract : ahead 0", "none");
      near.add("contract : ahead 512, side 1, unroll 1", "near");
      EXPECT_EQ(countOf(assemblyOf(graph, cpuTarget(target), none), "prefetch"), 0);
      std::string asked = assemblyOf(graph, cpuTarget(target), near);
      const char *request = cacheAhead(cpuTarget(target)) == 1 ? "prefetcht0" : "prefetcht1";
      EXPECT_GT(countOf(asked, request), 0) << quern::support::storageName(storage);
      EXPECT_EQ(countOf(asked, "prefetch"), countOf(asked, request));
      if (storage == Storage::F32) { // a step of 64 columns is four lines
        EXPECT_EQ(countOf(asked, request) % 4, 0) << asked;
      }
    }
  }
}

/// Of bytes that stand four apart LLVM would put vectors together by these.
TEST(Instructions, CodesComeOutOfWords) {
  for (const char *target : {"x86-64-v3", "x86-64-v4"}) {
    GraphMaker g;
    std::string made = assemblyOf(rowByWeight(g, Storage::Int4), cpuTarget(target));
    EXPECT_GT(countOf(made, "vcvtdq2ps"), 0);
    for (const char *shuffle : {"vpshufb", "vpmovzxbd", "vpmovdb"})
      EXPECT_EQ(countOf(made, shuffle), 0) << shuffle << " for " << target;
  }
}

/// One row multiplies them as they stand there: a mask and a conversion each, and only the uppermost comes down.
TEST(Instructions, CodesStandInTheirWords) {
  for (auto [storage, codes] : {std::pair(Storage::Int8, 4), std::pair(Storage::Int4, 8)})
    for (const char *target : {"x86-64-v3", "x86-64-v4"}) {
      GraphMaker g;
      const std::string made = assemblyOf(rowByWeight(g, storage), cpuTarget(target));
      EXPECT_EQ(countOf(made, "vpslld"), 0) << target;
      EXPECT_EQ(countOf(made, "vcvtdq2ps"), codes * countOf(made, "vpsrld")) << target;
    }
}

/// Of `up` while those of its gate are kept.
TEST(Instructions, SumsStayInRegisters) {
  for (const char *name : {"x86-64-v3", "cascadelake", "znver4"}) {
    const CpuTarget target = cpuTarget(name);
    GraphMaker g;
    int x = g.argument(Storage::F32, {dim("B"), dim("T"), dim("I", 768)}),
        w = g.weight({dim("U", 2), dim("O", 2048), dim("I", 768)}, target.vector == 16 ? 64 : 16);
    int both = g.contract(x, w, {"I"});
    int gate = g.squeeze(g.cut(both, "U", 0, dim("G", 1)), "G"), up = g.squeeze(g.cut(both, "U", 1, dim("V", 1)), "V");
    g.yield(g.elementwise(Op::Mul, {g.elementwise(Op::Mul, {gate, g.elementwise(Op::Sigmoid, {gate})}), up}));
    EXPECT_EQ(vectorsSpilled(assemblyOf(g.finish("gated"), target), 24), 0) << name;
  }
}
