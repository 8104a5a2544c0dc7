// The interpreter of PTX against what the ISA says: a wrong one would believe wrong kernels.
#include "tests/gpu/ptx/Ptx.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <stdexcept>

using namespace quern;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

namespace {

/// One block of a device's memory, at address 4096.
class OneBlock : public ptx::Memory {
public:
  explicit OneBlock(size_t bytes) : bytes(bytes) {}
  uint8_t *at(uint64_t address, size_t many) override {
    if (address < 4096 || address + many > 4096 + bytes.size())
      throw std::runtime_error("outside");
    return bytes.data() + (address - 4096);
  }
  template <typename T> T get(size_t i) {
    T value;
    std::memcpy(&value, &bytes[i * sizeof(T)], sizeof(T));
    return value;
  }

private:
  std::vector<uint8_t> bytes;
};

std::string kernel(const std::string &body, const std::string &before = "") {
  return ".version 6.0\n.target sm_70\n.address_size 64\n" + before +
         ".visible .entry k(\n.param .u64 .ptr .align 1 to,\n.param .b64 a,\n.param .b64 b,\n.param .b64 c\n)\n{\n" +
         body + "\tret;\n}\n";
}

void launch(const std::string &text, OneBlock &memory, std::vector<uint64_t> given, uint32_t groups = 1,
            uint32_t threads = 1) {
  auto module = ptx::parse(text);
  given.insert(given.begin(), 4096);
  given.resize(4);
  ptx::Launch what{*module, *module->functions.at("k"), {groups, 1, 1}, {threads, 1, 1}, std::vector<uint8_t>(32)};
  std::memcpy(what.parameters.data(), given.data(), 32);
  ptx::run(what, memory);
}

const char *const loads =
    "\tld.param.b64 \t%rd1, [to];\n\tld.param.b64 \t%a, [a];\n\tld.param.b64 \t%b, [b];\n\tld.param.b64 "
    "\t%c, [c];\n\tcvta.to.global.u64 \t%rd2, %rd1;\n";

uint64_t bits(double value) {
  return std::bit_cast<uint64_t>(value);
}
uint64_t bits(float value) {
  return std::bit_cast<uint32_t>(value);
}
uint64_t bits(int64_t value) {
  return uint64_t(value);
}
uint64_t bits(uint64_t value) {
  return value;
}
uint64_t bits(int value) {
  return uint32_t(value);
}
uint64_t bits(uint32_t value) {
  return value;
}

/// What `instruction` makes of %a, %b and %c.
template <typename T, typename... Given> T made(const std::string &instruction, Given... given) {
  OneBlock memory(8);
  launch(kernel(loads + ("\t" + instruction + ";\n") + "\tst.global.b64 \t[%rd2], %d;\n"), memory, {bits(given)...});
  return memory.get<T>(0);
}
bool holds(const std::string &comparison, float a, float b) {
  return made<uint32_t>(comparison + " \t%p1, %a, %b;\n\tselp.b32 \t%d, 1, 0, %p1", a, b) == 1;
}

constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();

TEST(Ptx, Integers) {
  EXPECT_EQ(made<int>("add.s32 %d, %a, %b", 0x7fffffff, 1), std::numeric_limits<int>::min()) << "wraps";
  EXPECT_EQ(made<int>("sub.s32 %d, %a, 5", 3), -2);
  EXPECT_EQ(made<int64_t>("add.s64 %d, %a, %b", int64_t(1) << 40, int64_t(-1)), (int64_t(1) << 40) - 1);
  EXPECT_EQ(made<int>("mul.lo.s32 %d, %a, %b", 100000, 100000), int(10000000000));
  EXPECT_EQ(made<uint32_t>("mul.hi.u32 %d, %a, %b", 0x80000000u, 6u), 3u);
  EXPECT_EQ(made<int>("mul.hi.s32 %d, %a, %b", -2, 1), -1);
  EXPECT_EQ(made<int64_t>("mul.wide.s32 %d, %a, %b", -3, 0x40000000), -3 * (int64_t(1) << 30));
  EXPECT_EQ(made<uint64_t>("mul.wide.u32 %d, %a, 4", 0xffffffffu), uint64_t(0xffffffff) * 4);
  EXPECT_EQ(made<int>("mad.lo.s32 %d, %a, %b, %c", 7, 6, -2), 40);
  EXPECT_EQ(made<int>("div.s32 %d, %a, %b", -7, 2), -3) << "towards zero";
  EXPECT_EQ(made<int>("rem.s32 %d, %a, %b", -7, 2), -1);
  EXPECT_EQ(made<uint32_t>("div.u32 %d, %a, %b", 0xfffffff9u, 2u), 0x7ffffffcu);
  EXPECT_EQ(made<int>("min.s32 %d, %a, %b", -1, 1), -1);
  EXPECT_EQ(made<uint32_t>("min.u32 %d, %a, %b", 0xffffffffu, 1u), 1u);
  EXPECT_EQ(made<int>("neg.s32 %d, %a", 5), -5);
  EXPECT_EQ(made<int>("abs.s32 %d, %a", -5), 5);
  EXPECT_THROW(made<int>("div.s32 %d, %a, %b", 1, 0), std::runtime_error);
}

TEST(Ptx, Bits) {
  EXPECT_EQ(made<uint32_t>("and.b32 %d, %a, 255", 0x1234u), 0x34u);
  EXPECT_EQ(made<uint32_t>("xor.b32 %d, %a, -2147483648", 1u), 0x80000001u);
  EXPECT_EQ(made<uint32_t>("not.b32 %d, %a", 0u), 0xffffffffu);
  EXPECT_EQ(made<uint32_t>("shl.b32 %d, %a, %b", 1u, 31), 0x80000000u);
  EXPECT_EQ(made<uint32_t>("shl.b32 %d, %a, %b", 1u, 32), 0u) << "counts are not taken modulo 32";
  EXPECT_EQ(made<uint32_t>("shr.u32 %d, %a, 4", 0xf0000000u), 0x0f000000u);
  EXPECT_EQ(made<int>("shr.s32 %d, %a, 40", -8), -1);
  EXPECT_EQ(made<uint32_t>("shf.l.wrap.b32 %d, %a, %b, 8", 0x11223344u, 0xaabbccddu), 0xbbccdd11u);
  EXPECT_EQ(made<uint32_t>("bfe.u32 %d, %a, 4, 8", 0xabcdu), 0xbcu);
  EXPECT_EQ(made<int>("bfe.s32 %d, %a, 4, 8", 0xabcd), int(0xffffffbc));
  EXPECT_EQ(made<uint32_t>("prmt.b32 %d, %a, %b, 0x7410", 0x33221100u, 0x77665544u), 0x77441100u);
  EXPECT_EQ(made<uint64_t>("{ .reg .b32 tmp; mov.b64 {tmp, %h}, %a; }\n\tmov.b64 %d, {%h, %b}", 0x1111111122222222u,
                           0x33333333u),
            0x3333333311111111u);
}

TEST(Ptx, Reals) {
  EXPECT_EQ(made<float>("add.f32 %d, %a, 0f3F800000", 2.0f), 3.0f);
  EXPECT_EQ(made<float>("fma.rn.f32 %d, %a, %b, %c", 1 + 0x1p-12f, 1 + 0x1p-12f, -1.0f), 0x1p-11f + 0x1p-24f)
      << "rounded once";
  EXPECT_EQ(made<double>("mul.rn.f64 %d, %a, 0d4000000000000000", 1.5), 3.0);
  EXPECT_EQ(made<float>("div.rn.f32 %d, %a, %b", 1.0f, 3.0f), 1.0f / 3.0f);
  EXPECT_EQ(made<float>("sqrt.rn.f32 %d, %a", 2.0f), std::sqrt(2.0f));
  EXPECT_EQ(made<float>("rcp.approx.ftz.f32 %d, %a", 4.0f), 0.25f);
  EXPECT_EQ(made<float>("max.f32 %d, %a, %b", nan, 1.0f), 1.0f) << "the one that is a number";
  EXPECT_EQ(made<float>("min.f32 %d, %a, %b", 1.0f, nan), 1.0f);
  EXPECT_TRUE(std::signbit(made<float>("min.f32 %d, %a, %b", 0.0f, -0.0f)));
}

TEST(Ptx, Comparisons) {
  EXPECT_TRUE(holds("setp.lt.f32", 1, 2));
  EXPECT_FALSE(holds("setp.lt.f32", 1, nan));
  EXPECT_TRUE(holds("setp.ltu.f32", 1, nan));
  EXPECT_FALSE(holds("setp.ne.f32", nan, nan)) << "ordered";
  EXPECT_TRUE(holds("setp.neu.f32", nan, nan));
  EXPECT_TRUE(holds("setp.nan.f32", nan, 1));
  EXPECT_TRUE(holds("setp.num.f32", inf, 1));
  EXPECT_TRUE(holds("setp.lt.s32", -1, 1)) << "bits of negative reals are negative integers";
  EXPECT_TRUE(holds("setp.gt.u32", -1, 1));
  EXPECT_EQ(made<uint32_t>(
                "setp.lt.s32 %p, 1, 2;\n\t@!%p bra $L__over;\n\tmov.b32 %d, 7;\n$L__over:\n\t@%p add.s32 %d, %d, 1"),
            8u);
}

TEST(Ptx, Conversions) {
  EXPECT_EQ(made<int>("cvt.rzi.s32.f32 %d, %a", -2.7f), -2);
  EXPECT_EQ(made<int>("cvt.rzi.s32.f32 %d, %a", 1e20f), std::numeric_limits<int>::max()) << "held within the type";
  EXPECT_EQ(made<int>("cvt.rzi.s32.f32 %d, %a", nan), 0);
  EXPECT_EQ(made<float>("cvt.rmi.ftz.f32.f32 %d, %a", -2.5f), -3.0f);
  EXPECT_EQ(made<double>("cvt.rni.f64.f64 %d, %a", 2.5), 2.0) << "to even";
  EXPECT_EQ(made<float>("cvt.rn.f32.s32 %d, %a", -3), -3.0f);
  EXPECT_EQ(made<float>("cvt.rn.f32.f64 %d, %a", 0.1), 0.1f);
  EXPECT_EQ(made<int64_t>("cvt.s64.s32 %d, %a", -1), -1);
  EXPECT_EQ(made<uint64_t>("cvt.u64.u32 %d, %a", 0xffffffffu), 0xffffffffu);
  EXPECT_EQ(made<int>("cvt.s32.s8 %d, %a", 0x1ff), -1);
}

TEST(Ptx, MemoryOfEveryKind) {
  OneBlock memory(16);
  std::string own = "\t.local .align 8 .b8 \tdepot[16];\n";
  launch(kernel(own + loads +
                "\tmov.b64 \t%rd3, depot;\n\tst.local.v2.b32 \t[%rd3+8], {%a, %b};\n\tld.local.b32 \t%r1, [depot+12];\n"
                "\tst.global.b32 \t[%rd2+4], %r1;\n\tst.global.b8 \t[%rd2+15], %a;\n"),
         memory, {0x1ff, 77});
  EXPECT_EQ(memory.get<uint32_t>(1), 77u);
  EXPECT_EQ(memory.get<uint8_t>(15), 255);
}

TEST(Ptx, WhatLeavesItsMemoryIsFound) {
  auto storing = [](const char *where) {
    OneBlock memory(16);
    launch(kernel(std::string(loads) + "\tst.global.b32 \t[" + where + "], %a;\n"), memory, {1});
  };
  storing("%rd2+12");
  EXPECT_THAT([&] { storing("%rd2+16"); }, ThrowsMessage<std::runtime_error>(HasSubstr("st.global.b32")));
  EXPECT_THAT([&] { storing("%rd2+-4"); }, ThrowsMessage<std::runtime_error>(HasSubstr("outside")));
  EXPECT_THAT([&] { storing("%rd2+2"); }, ThrowsMessage<std::runtime_error>(HasSubstr("aligned")));
  EXPECT_THAT([&] { storing("%nobody"); }, ThrowsMessage<std::runtime_error>(HasSubstr("nobody")))
      << "a register that nothing wrote";
}

TEST(Ptx, ThreadsWaitForEachOther) {
  // Each thread writes its number, and reads its neighbour's: wrong without the barrier.
  auto reversed = [](const char *barrier) {
    OneBlock memory(16);
    launch(kernel(std::string("\t.shared .align 4 .b8 \tboard[16];\n") + loads +
                  "\tmov.u32 \t%r1, %tid.x;\n\tmul.wide.u32 \t%rd3, %r1, 4;\n\tmov.b64 \t%rd4, board;\n\tadd.s64 "
                  "\t%rd5, %rd4, %rd3;\n"
                  "\tst.shared.b32 \t[%rd5], %r1;\n" +
                  barrier +
                  "\tsub.s64 \t%rd6, 12, %rd3;\n\tadd.s64 \t%rd7, %rd4, %rd6;\n\tld.shared.b32 \t%r2, [%rd7];\n"
                  "\tadd.s64 \t%rd8, %rd2, %rd3;\n\tst.global.b32 \t[%rd8], %r2;\n"),
           memory, {}, 1, 4);
    return std::vector<uint32_t>{memory.get<uint32_t>(0), memory.get<uint32_t>(1), memory.get<uint32_t>(2),
                                 memory.get<uint32_t>(3)};
  };
  EXPECT_EQ(reversed("\tbar.sync \t0;\n"), (std::vector<uint32_t>{3, 2, 1, 0}));
  EXPECT_NE(reversed(""), (std::vector<uint32_t>{3, 2, 1, 0}));
}

TEST(Ptx, GroupsSayWhereTheyAre) {
  OneBlock memory(4 * 6);
  std::string body = std::string(loads) +
                     "\tmov.u32 \t%r1, %ctaid.x;\n\tmov.u32 \t%r2, %ntid.x;\n\tmov.u32 \t%r3, %tid.x;\n"
                     "\tmad.lo.s32 \t%r4, %r1, %r2, %r3;\n\tmul.wide.s32 \t%rd3, %r4, 4;\n"
                     "\tadd.s64 \t%rd4, %rd2, %rd3;\n\tst.global.b32 \t[%rd4], %r4;\n";
  launch(kernel(body), memory, {}, 3, 2);
  for (uint32_t i = 0; i < 6; ++i)
    EXPECT_EQ(memory.get<uint32_t>(i), i);
  EXPECT_THROW(launch(kernel(body), memory, {}, 4, 2), std::runtime_error) << "a group too many";
}

TEST(Ptx, Calls) {
  std::string twice =
      ".func  (.param .b64 result) twice(\n.param .b64 x\n)\n{\n\t.reg .b64 %rd<3>;\n\tld.param.b64 \t%rd1, [x];\n"
      "\tadd.f64 \t%rd2, %rd1, %rd1;\n\tst.param.b64 \t[result], %rd2;\n\tret;\n}\n";
  OneBlock memory(8);
  launch(
      kernel(std::string(loads) +
                 "\t{ // callseq 0, 0\n\t.param .b64 param0;\n\tst.param.b64 \t[param0], %a;\n\t.param .b64 retval0;\n"
                 "\tcall.uni (retval0), twice, (param0);\n\tld.param.b64 \t%d, [retval0];\n\t} // callseq 0\n"
                 "\tst.global.b64 \t[%rd2], %d;\n",
             twice),
      memory, {bits(2.25)});
  EXPECT_EQ(memory.get<double>(0), 4.5);
}

const char *const ofThread = "\tmov.u32 \t%t, %tid.x;\n\tmul.wide.u32 \t%o, %t, 4;\n\tadd.s64 \t%mine, %rd2, %o;\n"
                             "\tshr.u32 \t%g, %t, 2;\n";

/// What each lane of a warp stores of `%d` after the body.
std::vector<uint32_t> byLanes(const std::string &body, std::vector<uint64_t> given = {},
                              const std::string &before = "") {
  OneBlock memory(128);
  launch(kernel(loads + std::string(ofThread) + body + "\tst.global.b32 \t[%mine], %d;\n", before), memory,
         std::move(given), 1, 32);
  std::vector<uint32_t> all;
  for (size_t i = 0; i < 32; ++i)
    all.push_back(memory.get<uint32_t>(i));
  return all;
}

TEST(Ptx, LanesExchange) {
  std::vector<uint32_t> crossed = byLanes("\tshfl.sync.bfly.b32 \t%d, %t, 5, 31, -1;\n"),
                        down = byLanes("\tshfl.sync.down.b32 \t%d|%p1, %t, 3, 31, -1;\n"),
                        halves = byLanes("\tshfl.sync.idx.b32 \t%d, %t, 2, 4127, -1;\n"); // segments of 16
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(crossed[i], i ^ 5);
    EXPECT_EQ(down[i], i + 3 < 32 ? i + 3 : i) << "beyond the end a lane keeps its own";
    EXPECT_EQ(halves[i], i / 16 * 16 + 2);
  }
  EXPECT_THAT([] { byLanes("\tsetp.eq.b32 \t%p1, %t, 7;\n\t@%p1 shfl.sync.bfly.b32 \t%d, %t, 1, 31, -1;\n"); },
              ThrowsMessage<std::runtime_error>(HasSubstr("whole warp")));
}

/// Rows of 8 numbers of two bytes; lane i stores row i, whose numbers are 256 i + column.
std::string matrices(const std::string &form) {
  return "\t.shared .align 16 .b8 \ttile[512];\n\tmov.b64 \t%tile, tile;\n\tmul.wide.u32 \t%o16, %t, 16;\n"
         "\tadd.s64 \t%row, %tile, %o16;\n\tshl.b32 \t%w0, %t, 8;\n\tor.b32 \t%w1, %w0, 1;\n\tshl.b32 \t%w1, %w1, 16;\n"
         "\tor.b32 \t%w0, %w0, %w1;\n\tshl.b32 \t%hi, %t, 24;\n\tor.b32 \t%w0, %w0, %hi;\n"
         "\tadd.s32 \t%w2, %w0, 131074;\n\tadd.s32 \t%w4, %w2, 131074;\n\tadd.s32 \t%w6, %w4, 131074;\n"
         "\tst.shared.v4.b32 \t[%row], {%w0, %w2, %w4, %w6};\n"
         "\tldmatrix.sync.aligned.m8n8.x4" +
         form + ".shared.b16 \t{%m0, %m1, %m2, %m3}, [%row];\n";
}

TEST(Ptx, LoadsMatrices) {
  for (int m = 0; m < 4; ++m) {
    std::string mine = "\tmov.b32 \t%d, %m" + std::to_string(m) + ";\n";
    std::vector<uint32_t> rows = byLanes(matrices("") + mine), columns = byLanes(matrices(".trans") + mine);
    for (uint32_t i = 0; i < 32; ++i) {
      uint32_t row = 8 * uint32_t(m) + i / 4, c = i % 4 * 2;
      EXPECT_EQ(rows[i], (256 * row + c) | (256 * row + c + 1) << 16);
      uint32_t first = 256 * (8 * uint32_t(m) + c) + i / 4;
      EXPECT_EQ(columns[i], first | (first + 256) << 16);
    }
  }
}

TEST(Ptx, MultipliesMatrices) {
  // %one: 1, 1; %row, %high: 1 + lane / 4 and 9 + lane / 4, as bf16 twice.
  std::string numbers = "\tmov.b32 \t%one, 0x3f803f80;\n\tadd.s32 \t%n, %g, 1;\n\tcvt.rn.f32.u32 \t%f, %n;\n"
                        "\tcvt.rn.bf16x2.f32 \t%row, %f, %f;\n\tadd.s32 \t%n, %g, 9;\n\tcvt.rn.f32.u32 \t%f, %n;\n"
                        "\tcvt.rn.bf16x2.f32 \t%high, %f, %f;\n\tmov.b32 \t%z, 0f3E800000;\n";
  auto product = [&](const std::string &x, const std::string &w, int result) {
    return byLanes(numbers + "\tmma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32\n\t\t{%d0, %d1, %d2, %d3},\n\t\t" +
                   x + ",\n\t\t" + w + ",\n\t\t{%z, %z, %z, %z};\n\tmov.b32 \t%d, %d" + std::to_string(result) + ";\n");
  };
  for (int r = 0; r < 4; ++r) {
    std::vector<uint32_t> byRow = product("{%row, %high, %row, %high}", "{%one, %one}", r),
                          byColumn = product("{%one, %one, %one, %one}", "{%row, %row}", r);
    for (uint32_t i = 0; i < 32; ++i) {
      EXPECT_EQ(std::bit_cast<float>(byRow[i]), 16.0f * float(1 + i / 4 + (r < 2 ? 0 : 8)) + 0.25f);
      EXPECT_EQ(std::bit_cast<float>(byColumn[i]), 16.0f * float(1 + i % 4 * 2 + uint32_t(r) % 2) + 0.25f);
    }
  }
}

TEST(Ptx, CopiesLandWhenTheyAreAwaited) {
  auto copied = [](const std::string &await, const char *bytes, const char *offset) {
    OneBlock memory(32);
    std::string body = std::string(loads) +
                       "\t.shared .align 16 .b8 \ttile[16];\n\tmov.b64 \t%tile, tile;\n"
                       "\tmov.b32 \t%v, 7;\n\tst.global.v4.b32 \t[%rd2], {%v, %v, %v, %v};\n"
                       "\tcp.async.cg.shared.global \t[%tile], [%rd2], 16, " +
                       bytes + ";\n\tcp.async.commit_group;\n" + await + "\tld.shared.b32 \t%d, [%tile+" + offset +
                       "];\n" + "\tcp.async.wait_group 0;\n\tst.global.b32 \t[%rd2+16], %d;\n";
    launch(kernel(body), memory, {});
    return memory.get<uint32_t>(4);
  };
  EXPECT_EQ(copied("\tcp.async.wait_group 0;\n", "16", "12"), 7u);
  EXPECT_EQ(copied("\tcp.async.wait_group 0;\n", "8", "12"), 0u) << "what is not copied is 0";
  EXPECT_EQ(copied("\tcp.async.wait_group 1;\n", "16", "12"), 0xffffffff) << "the last group may be on its way";
  EXPECT_EQ(copied("", "16", "12"), 0xffffffff);
}

TEST(Ptx, WhatIsNotKnownIsSaid) {
  EXPECT_THAT([] { made<int>("wgmma.fence.sync.aligned"); },
              ThrowsMessage<std::runtime_error>(HasSubstr("wgmma.fence")));
  EXPECT_THAT([] { made<int>("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 %d, %a, %b, %c"); },
              ThrowsMessage<std::runtime_error>(HasSubstr("m8n8k4")));
  EXPECT_THAT([] { made<int>("add.f16 %d, %a, %b"); }, ThrowsMessage<std::runtime_error>(HasSubstr("add.f16")));
  EXPECT_THAT([] { made<int>("bra $L__nowhere"); }, ThrowsMessage<std::runtime_error>(HasSubstr("$L__nowhere")));
  EXPECT_THROW(ptx::parse(".visible .entry k(\n)\n{\n\tret;\n"), std::runtime_error) << "no end";
}

} // namespace
