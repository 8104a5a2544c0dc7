// Elementwise operations of the reference interpreter against numbers worked by hand.
#include "tests/ir/Support.h"

using namespace quern::ir;
using namespace quern::ir::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// One operation of one operand along N.
std::vector<double> unary(const std::string &op, std::vector<double> x, const std::string &to = "real") {
  std::string n = std::to_string(x.size());
  Evaluated done = evaluate({{"real[N = " + n + "]", reals({{"N", int64_t(x.size())}}, x)}},
                            "%r = quern." + op + " %a : (!quern.tensor<real[N = " + n + "]>) -> !quern.tensor<" + to +
                                "[N = " + n + "]>",
                            to + "[N = " + n + "]");
  EXPECT_EQ(done.said, "");
  return done.numbers;
}

/// Quantised along D and back; `shape` is the dimensions as types write them.
Evaluated throughCodes(const std::string &kind, const std::string &shape, const std::vector<NamedSize> &dims,
                       const std::vector<double> &numbers, const std::string &of = "") {
  const std::string given = "real" + shape, coded = kind + shape;
  return evaluate({{given, reals(dims, numbers)}},
                  "%q = quern.quantize %a along \"D\"" + of + " : (!quern.tensor<" + given + ">) -> !quern.tensor<" +
                      coded + ">\n%r = quern.dequantize %q : (!quern.tensor<" + coded + ">) -> !quern.tensor<" + given +
                      ">",
                  given);
}

std::vector<double> integers(const std::string &op, std::vector<int64_t> a, std::vector<int64_t> b,
                             const std::string &to = "int") {
  std::string type = "[N = " + std::to_string(a.size()) + "]";
  std::vector<NamedSize> dims = {{"N", int64_t(a.size())}};
  Evaluated done = evaluate({{"int" + type, ints(dims, a)}, {"int" + type, ints(dims, b)}},
                            "%r = quern." + op + " %a, %b : (!quern.tensor<int" + type + ">, !quern.tensor<int" + type +
                                ">) -> !quern.tensor<" + to + type + ">",
                            to + type);
  return done.said.empty() ? done.numbers : std::vector<double>();
}

std::vector<double> doubles(const std::string &op, std::vector<double> a, std::vector<double> b,
                            const std::string &to = "real") {
  std::string type = "[N = " + std::to_string(a.size()) + "]";
  std::vector<NamedSize> dims = {{"N", int64_t(a.size())}};
  Evaluated done = evaluate({{"real" + type, reals(dims, a)}, {"real" + type, reals(dims, b)}},
                            "%r = quern." + op + " %a, %b : (!quern.tensor<real" + type + ">, !quern.tensor<real" +
                                type + ">) -> !quern.tensor<" + to + type + ">",
                            to + type);
  EXPECT_EQ(done.said, "");
  return done.numbers;
}

TEST(Elementwise, RealFunctions) {
  EXPECT_THAT(unary("neg", {1.5, -2}), ElementsAre(-1.5, 2));
  EXPECT_THAT(unary("abs", {1.5, -2}), ElementsAre(1.5, 2));
  EXPECT_THAT(unary("exp", {0, -inf}), ElementsAre(1, 0));
  EXPECT_THAT(unary("log", {1, 0}), ElementsAre(0, -inf));
  EXPECT_DOUBLE_EQ(unary("log1p", {1e-20})[0], 1e-20);
  EXPECT_DOUBLE_EQ(unary("expm1", {1e-20})[0], 1e-20);
  EXPECT_THAT(unary("sqrt", {9, 2.25}), ElementsAre(3, 1.5));
  EXPECT_DOUBLE_EQ(unary("sin", {1})[0], 0.8414709848078965);
  EXPECT_DOUBLE_EQ(unary("cos", {1})[0], 0.5403023058681398);
  EXPECT_DOUBLE_EQ(unary("tanh", {0.5})[0], 0.46211715726000973);
  EXPECT_THAT(unary("sigmoid", {0, -inf, inf, -1000}), ElementsAre(0.5, 0, 1, 0));
  EXPECT_DOUBLE_EQ(unary("erf", {0.5})[0], 0.5204998778130465);
}

TEST(Elementwise, RoundingHalvesToEven) {
  EXPECT_THAT(unary("round", {0.5, 1.5, 2.5, -0.5, -1.5, 2.4999, 2.5001}, "int"), ElementsAre(0, 2, 2, 0, -2, 2, 3));
  EXPECT_THAT(unary("floor", {1.5, -1.5, 2}, "int"), ElementsAre(1, -2, 2));
  EXPECT_THAT(unary("ceil", {1.5, -1.5, 2}, "int"), ElementsAre(2, -1, 2));
  EXPECT_THAT(unary("to_int", {1.9, -1.9}, "int"), ElementsAre(1, -1));
  EXPECT_EQ(unary("to_int", {notANumber}, "int")[0], 0) << "what a where throws away must not stop the run";
  EXPECT_GT(unary("floor", {inf}, "int")[0], 1e18);
}

TEST(Elementwise, IntegerDivisionRoundsDown) {
  EXPECT_THAT(integers("floordiv", {7, -7, 7, -7, 6}, {2, 2, -2, -2, 3}), ElementsAre(3, -4, -4, 3, 2));
  EXPECT_THAT(integers("mod", {7, -7, 7, -7, 6}, {2, 2, -2, -2, 3}), ElementsAre(1, 1, -1, -1, 0));
  EXPECT_THAT(integers("div", {7, 1}, {2, 4}, "real"), ElementsAre(3.5, 0.25));
  EXPECT_THAT(integers("pow", {2, 2}, {10, -1}, "real"), ElementsAre(1024, 0.5));
  EXPECT_TRUE(integers("mod", {1}, {0}).empty()) << "Q027";
  EXPECT_TRUE(integers("floordiv", {1}, {0}).empty()) << "Q027";
}

TEST(Elementwise, IntegersStayIntegers) {
  EXPECT_THAT(integers("add", {1, int64_t(1) << 53}, {2, 1}), ElementsAre(3, 9007199254740993.0));
  EXPECT_THAT(integers("sub", {1, 5}, {2, 1}), ElementsAre(-1, 4));
  EXPECT_THAT(integers("mul", {3, -5}, {2, 4}), ElementsAre(6, -20));
  EXPECT_THAT(integers("max", {3, -5}, {2, 4}), ElementsAre(3, 4));
  EXPECT_THAT(integers("min", {3, -5}, {2, 4}), ElementsAre(2, -5));
}

TEST(Elementwise, MaximumKeepsNan) {
  EXPECT_THAT(doubles("max", {1, notANumber, 1}, {2, 1, notANumber}),
              ElementsAre(2, testing::IsNan(), testing::IsNan()));
  EXPECT_THAT(doubles("min", {1, notANumber, 1}, {2, 1, notANumber}),
              ElementsAre(1, testing::IsNan(), testing::IsNan()));
  EXPECT_THAT(doubles("add", {1, inf}, {0.5, -inf}), ElementsAre(1.5, testing::IsNan()));
  EXPECT_THAT(doubles("sub", {1}, {0.5}), ElementsAre(0.5));
  EXPECT_THAT(doubles("mul", {3}, {0.5}), ElementsAre(1.5));
}

TEST(Elementwise, Comparisons) {
  EXPECT_THAT(integers("compare lt", {1, 2, 3}, {2, 2, 2}, "bool"), ElementsAre(1, 0, 0));
  EXPECT_THAT(integers("compare le", {1, 2, 3}, {2, 2, 2}, "bool"), ElementsAre(1, 1, 0));
  EXPECT_THAT(integers("compare gt", {1, 2, 3}, {2, 2, 2}, "bool"), ElementsAre(0, 0, 1));
  EXPECT_THAT(integers("compare ge", {1, 2, 3}, {2, 2, 2}, "bool"), ElementsAre(0, 1, 1));
  EXPECT_THAT(integers("compare eq", {1, 2, 3}, {2, 2, 2}, "bool"), ElementsAre(0, 1, 0));
  EXPECT_THAT(integers("compare ne", {1, 2, 3}, {2, 2, 2}, "bool"), ElementsAre(1, 0, 1));
  EXPECT_THAT(doubles("compare eq", {notANumber, 0.5}, {notANumber, 0.5}, "bool"), ElementsAre(0, 1));
}

TEST(Elementwise, LogicOfBools) {
  Evaluated done = evaluate(
      {{"bool[N = 4]", bools({{"N", 4}}, {0, 0, 1, 1})}, {"bool[N = 4]", bools({{"N", 4}}, {0, 1, 0, 1})}},
      R"(%x = quern.and %a, %b : (!quern.tensor<bool[N = 4]>, !quern.tensor<bool[N = 4]>) -> !quern.tensor<bool[N = 4]>
      %y = quern.or %a, %b : (!quern.tensor<bool[N = 4]>, !quern.tensor<bool[N = 4]>) -> !quern.tensor<bool[N = 4]>
      %z = quern.not %x : (!quern.tensor<bool[N = 4]>) -> !quern.tensor<bool[N = 4]>
      %i = quern.to_int %y : (!quern.tensor<bool[N = 4]>) -> !quern.tensor<int[N = 4]>
      %j = quern.to_int %z : (!quern.tensor<bool[N = 4]>) -> !quern.tensor<int[N = 4]>
      %c = quern.const 10 : i64 -> !quern.tensor<int[]>
      %t = quern.mul %i, %c : (!quern.tensor<int[N = 4]>, !quern.tensor<int[]>) -> !quern.tensor<int[N = 4]>
      %s = quern.add %t, %j : (!quern.tensor<int[N = 4]>, !quern.tensor<int[N = 4]>) -> !quern.tensor<int[N = 4]>
      %r = quern.to_real %s : (!quern.tensor<int[N = 4]>) -> !quern.tensor<real[N = 4]>)",
      "real[N = 4]");
  EXPECT_THAT(done.numbers, ElementsAre(1, 11, 11, 10)) << done.said;
}

TEST(Elementwise, NarrowRoundsToTheNearest) {
  const double inf = std::numeric_limits<double>::infinity();
  // 1 + 2^-8 and 1 + 3 * 2^-8 are half way: to the even ones; a bit more goes up. The largest f32 is nearer to 2^128.
  std::vector<double> given = {1,   1 + 0x1p-8, 1 + 3 * 0x1p-8, 1 + 0x1p-8 + 0x1p-20, -0.1, 3.4028234e38,
                               inf, notANumber};
  Evaluated done = evaluate(
      {{"real[N = 8]", reals({{"N", 8}}, given)}},
      "%n = quern.narrow %a : (!quern.tensor<real[N = 8]>) -> !quern.tensor<bf16[N = 8]>\n"
      "%t = quern.cut %n \"N\" at \"0\" into <N = 8> : (!quern.tensor<bf16[N = 8]>) -> !quern.tensor<bf16[N = 8]>\n"
      "%r = quern.widen %t : (!quern.tensor<bf16[N = 8]>) -> !quern.tensor<real[N = 8]>",
      "real[N = 8]");
  ASSERT_EQ(done.numbers.size(), 8u) << done.said;
  EXPECT_THAT(std::vector<double>(done.numbers.begin(), done.numbers.begin() + 7),
              ElementsAre(1, 1, 1 + 0x1p-6, 1 + 0x1p-7, -0.10009765625, inf, inf));
  EXPECT_TRUE(std::isnan(done.numbers[7]));
}

TEST(Elementwise, NarrowTakesTheNearestByte) {
  Evaluated done = evaluate(
      {{"int[N = 6]", ints({{"N", 6}}, {0, -3, 127, 128, -128, -100000})}, {"real[]", reals({}, {0.5})}},
      "%n = quern.narrow %a : (!quern.tensor<int[N = 6]>) -> !quern.tensor<i8[N = 6]>\n"
      "%t = quern.cut %n \"N\" at \"0\" into <N = 6> : (!quern.tensor<i8[N = 6]>) -> !quern.tensor<i8[N = 6]>\n"
      "%s = quern.narrow %b : (!quern.tensor<real[]>) -> !quern.tensor<bf16[]>\n"
      "%r = quern.rescale %t by %s : (!quern.tensor<i8[N = 6]>, !quern.tensor<bf16[]>) -> !quern.tensor<real[N = 6]>",
      "real[N = 6]");
  EXPECT_THAT(done.numbers, ElementsAre(0, -1.5, 63.5, 63.5, -64, -64)) << done.said;
}

/// A scale for each group, the numbers of Q8_0 and Q4_0: f16's of max / 127, or of the largest number / -8.
TEST(Elementwise, QuantizesInGroups) {
  std::vector<double> given(2 * 40);
  for (int i = 0; i < 40; ++i) {
    given[i] = i == 3 ? -127 : i < 32 ? 0.5 * i : 0;        // scale 1, halves away from 0; a group of zeros
    given[40 + i] = i == 5 ? 4 : i == 33 ? -16 : -0.25 * i; // int4: steps of -0.5, and of 2
  }
  auto run = [&](const std::string &kind) {
    return throughCodes(kind, "[R = 2, D = 40]", {{"R", 2}, {"D", 40}}, given);
  };
  Evaluated wide = run("int8"), narrow = run("int4");
  ASSERT_EQ(wide.numbers.size(), 80u) << wide.said;
  ASSERT_EQ(narrow.numbers.size(), 80u) << narrow.said;
  EXPECT_EQ(wide.numbers[3], -127);
  EXPECT_EQ(wide.numbers[1], 1);   // 0.5
  EXPECT_EQ(wide.numbers[10], 5);  // exact
  EXPECT_EQ(wide.numbers[31], 16); // 15.5
  EXPECT_EQ(wide.numbers[35], 0);
  // The second row's first group, of largest number -7.75: its scale -7.75 / -8 has 11 bits.
  EXPECT_EQ(narrow.numbers[40 + 31], -7.75);
  EXPECT_EQ(narrow.numbers[40 + 5], 3.875); // floor(4.129 + 8.5) - 8 = 4
  EXPECT_EQ(narrow.numbers[40 + 33], -16);
  EXPECT_EQ(narrow.numbers[40 + 34], -8); // -8.5 / 2 = -4.25
}

/// Paired: the largest pair of neighbours is 127 steps, a number at the end by itself; halves of both go up to 128.
TEST(Elementwise, QuantizesRowsInPairs) {
  std::vector<double> given(36, 1);
  given[4] = -63.5, given[5] = 63.5, given[7] = 90, given[32] = given[33] = 10, given[34] = -254, given[35] = 0;
  auto run = [&](int64_t length, const char *of) {
    std::vector<double> some(given.begin(), given.begin() + length);
    return throughCodes("int8", "[D = " + std::to_string(length) + "]", {{"D", length}}, some, of);
  };
  Evaluated pairs = run(36, " paired"), alone = run(35, " paired"), plain = run(36, "");
  ASSERT_EQ(pairs.numbers.size(), 36u) << pairs.said;
  EXPECT_THAT((std::vector{pairs.numbers[4], pairs.numbers[5], pairs.numbers[7]}), ElementsAre(-64, 64, 90));
  for (const Evaluated *each : {&pairs, &alone}) // of 2
    EXPECT_THAT((std::vector{each->numbers[32], each->numbers[33], each->numbers[34]}), ElementsAre(10, 10, -254));
  EXPECT_NEAR(plain.numbers[4], -63.5, 0.3); // steps of 90 / 127
  EXPECT_NE(plain.numbers[4], -64);
}

/// The numbers of a long group count in steps of its largest, wherever that is.
TEST(Elementwise, QuantizesInLongGroups) {
  std::vector<double> given(200, 0.75);
  given[100] = -127, given[199] = 254;
  Evaluated wide = throughCodes("int8_g128", "[D = 200]", {{"D", 200}}, given),
            usual = throughCodes("int8", "[D = 200]", {{"D", 200}}, given);
  ASSERT_EQ(wide.numbers.size(), 200u) << wide.said;
  EXPECT_EQ(wide.numbers[0], 1); // to the nearest step of 1
  EXPECT_NEAR(usual.numbers[0], 0.75, 1e-3);
  EXPECT_EQ(wide.numbers[100], -127);
  EXPECT_EQ(wide.numbers[128], 0); // of 2
  EXPECT_EQ(wide.numbers[199], 254);
}

/// Scales and minimums are counted in units of f16; a shorter super-block at the end; quantising again changes nothing.
TEST(Elementwise, QuantizesInSuperBlocks) {
  constexpr int depth = 300;
  auto run = [](const std::string &kind, const std::vector<double> &numbers) {
    return throughCodes(kind, "[D = 300]", {{"D", depth}}, numbers);
  };
  std::vector<double> given(depth);
  for (int i = 0; i < depth; ++i)
    given[i] = i < 32 ? i % 16 - 5 : i < 64 ? 0 : 0.01 * ((i * 37) % 101 - 40);
  for (const char *kind : {"q4_k", "q5_k", "q6_k", "q8_k", "q4_1", "q5_1", "q4_z"}) {
    Evaluated once = run(kind, given);
    ASSERT_EQ(once.numbers.size(), size_t(depth)) << once.said;
    const double steps = kind[1] == '4' ? 15 : kind[1] == '5' ? 31 : kind[1] == '6' ? 32 : 128;
    for (int i = 0; i < depth; ++i)
      EXPECT_NEAR(once.numbers[i], given[i], i < 32 ? 10 / steps : i < 64 ? 0 : 1.2 / steps + 0.05) << kind << " " << i;
    EXPECT_EQ(run(kind, once.numbers).numbers, once.numbers) << kind;
  }
}

/// Groups of 128; the scale is a quarter. Halves go to the even code, the least step is 2^-9 or 2^-16.
TEST(Elementwise, QuantizesInFloats) {
  constexpr int depth = 130;
  auto run = [](const std::string &kind, const std::vector<double> &numbers) {
    return throughCodes(kind, "[D = 130]", {{"D", depth}}, numbers);
  };
  for (const auto &[kind, most, given, want] :
       {std::tuple("f8_e4m3", 448.0, std::vector{17.0, -19.0, 0.0011, -0.0009, 3.5},
                   std::vector{16.0, -20.0, 0x1p-9, 0.0, 3.5}),
        std::tuple("f8_e5m2", 57344.0, std::vector{9.0, -11.0, 0x1.1p-17, -0x0.fp-17, 3.5},
                   std::vector{8.0, -12.0, 0x1p-16, 0.0, 3.5})}) {
    std::vector<double> numbers(depth);
    numbers[0] = -most / 4;
    for (size_t i = 0; i < given.size(); ++i)
      numbers[i + 1] = given[i] / 4;
    numbers[129] = 3;
    Evaluated once = run(kind, numbers);
    ASSERT_EQ(once.numbers.size(), size_t(depth)) << once.said;
    EXPECT_EQ(once.numbers[0], numbers[0]);
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_EQ(once.numbers[i + 1], want[i] / 4) << kind << " " << i;
    EXPECT_NEAR(once.numbers[129], 3, 3.0 / 256) << kind;
    EXPECT_EQ(run(kind, once.numbers).numbers, once.numbers) << kind;
    std::vector<double> others; // codes times a scale that bf16 has not
    for (int i = 0; i < depth; ++i)
      others.push_back(double(0x1.23456p-3f * float((4 + i * 5 % 4) << i % 3) * (i % 7 ? 1 : -1)));
    EXPECT_EQ(run(kind, others).numbers, others) << kind;
    numbers[7] = notANumber;
    EXPECT_TRUE(std::isnan(run(kind, numbers).numbers[0])) << "a group with NaN";
    EXPECT_NEAR(run(kind, numbers).numbers[129], 3, 3.0 / 256) << "beside it";
  }
}

TEST(Elementwise, WhereTakesNothingFromTheOtherSide) {
  Evaluated done = evaluate({{"bool[N = 2]", bools({{"N", 2}}, {1, 0})},
                             {"real[N = 2]", reals({{"N", 2}}, {1, notANumber})},
                             {"int[]", ints({}, {7})}},
                            "%r = quern.where %a, %b, %c : (!quern.tensor<bool[N = 2]>, !quern.tensor<real[N = 2]>, "
                            "!quern.tensor<int[]>) -> !quern.tensor<real[N = 2]>",
                            "real[N = 2]");
  EXPECT_THAT(done.numbers, ElementsAre(1, 7)) << done.said;
}

TEST(Elementwise, OperandsAlignByName) {
  // [A, B] plus [B, A] plus [C]: the same names go together whatever their order, a lacking one is repeated.
  Evaluated done = evaluate(
      {{"real[A = 2, B = 3]", reals({{"A", 2}, {"B", 3}}, {1, 2, 3, 4, 5, 6})},
       {"real[B = 3, A = 2]", reals({{"B", 3}, {"A", 2}}, {10, 40, 20, 50, 30, 60})},
       {"real[C = 2]", reals({{"C", 2}}, {0, 100})}},
      R"(%s = quern.add %a, %b : (!quern.tensor<real[A = 2, B = 3]>, !quern.tensor<real[B = 3, A = 2]>) -> !quern.tensor<real[A = 2, B = 3]>
      %r = quern.add %s, %c : (!quern.tensor<real[A = 2, B = 3]>, !quern.tensor<real[C = 2]>) -> !quern.tensor<real[A = 2, B = 3, C = 2]>)",
      "real[A = 2, B = 3, C = 2]");
  EXPECT_THAT(done.numbers, ElementsAre(11, 111, 22, 122, 33, 133, 44, 144, 55, 155, 66, 166)) << done.said;
}

TEST(Elementwise, NumbersOutOfNothing) {
  EXPECT_THAT(evaluate({}, "%r = quern.values [0.5, -2.0] : !quern.tensor<real[J = 2]>", "real[J = 2]").numbers,
              ElementsAre(0.5, -2));
  EXPECT_THAT(evaluate({}, "%r = quern.index : !quern.tensor<int[J = 3]>", "int[J = 3]").numbers, ElementsAre(0, 1, 2));
  EXPECT_THAT(evaluate({}, "%r = quern.const true -> !quern.tensor<bool[]>", "bool[]").numbers, ElementsAre(1));
  EXPECT_THAT(evaluate({}, "%r = quern.const 0xFFF0000000000000 : f64 -> !quern.tensor<real[]>", "real[]").numbers,
              ElementsAre(-inf));
  Evaluated size = evaluate({{"real[B, T]", reals({{"B", 2}, {"T", 5}}, std::vector<double>(10))}},
                            "%r = quern.size \"past + 2 * T\" : !quern.tensor<int[]>", "int[]", {{"past", 7}});
  EXPECT_THAT(size.numbers, ElementsAre(17)) << size.said;
}

} // namespace
