// Reductions, contractions, softmax, running sums and choices of the reference interpreter against numbers by hand.
#include "tests/ir/Support.h"

#include <cmath>

using namespace quern::ir;
using namespace quern::ir::test;
using testing::DoubleEq;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsNan;

namespace {

const std::vector<NamedSize> ab = {{"A", 2}, {"B", 3}};

/// One operation on %a: real[A = 2, B = 3].
Evaluated onPair(std::vector<double> numbers, const std::string &op, const std::string &to) {
  return evaluate({{"real[A = 2, B = 3]", reals(ab, numbers)}},
                  "%r = quern." + op + " : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<" + to + ">", to);
}

TEST(Reduce, EachKindOverOneDimension) {
  std::vector<double> x = {1, 5, 3, -4, 2, 8};
  EXPECT_THAT(onPair(x, "reduce sum %a over [\"B\"]", "real[A = 2]").numbers, ElementsAre(9, 6));
  EXPECT_THAT(onPair(x, "reduce mean %a over [\"B\"]", "real[A = 2]").numbers, ElementsAre(3, 2));
  EXPECT_THAT(onPair(x, "reduce max %a over [\"A\"]", "real[B = 3]").numbers, ElementsAre(1, 5, 8));
  EXPECT_THAT(onPair(x, "reduce min %a over [\"A\"]", "real[B = 3]").numbers, ElementsAre(-4, 2, 3));
  EXPECT_THAT(onPair(x, "reduce sum %a over [\"B\", \"A\"]", "real[]").numbers, ElementsAre(15));
  EXPECT_THAT(onPair({notANumber, 1, 2, 3, 4, 5}, "reduce max %a over [\"B\"]", "real[A = 2]").numbers,
              ElementsAre(IsNan(), 5));
}

TEST(Reduce, IntegersAndBools) {
  EXPECT_THAT(
      evaluate(
          {{"int[A = 2, B = 3]", ints(ab, {1, 2, 4, 5, 6, 8})}},
          R"(%r = quern.reduce mean %a over ["B"] : (!quern.tensor<int[A = 2, B = 3]>) -> !quern.tensor<real[A = 2]>)",
          "real[A = 2]")
          .numbers,
      ElementsAre(DoubleEq(7.0 / 3), DoubleEq(19.0 / 3)));
  EXPECT_THAT(
      evaluate(
          {{"int[A = 2, B = 3]", ints(ab, {1, 2, 4, 5, 6, 8})}},
          R"(%r = quern.reduce max %a over ["B"] : (!quern.tensor<int[A = 2, B = 3]>) -> !quern.tensor<int[A = 2]>)",
          "int[A = 2]")
          .numbers,
      ElementsAre(4, 8));
  for (auto [name, first, second] : {std::tuple("any", 1, 0), std::tuple("all", 0, 0)})
    EXPECT_THAT(evaluate({{"bool[A = 2, B = 3]", bools(ab, {1, 0, 1, 0, 0, 0})}},
                         std::string("%r = quern.reduce ") + name +
                             R"( %a over ["B"] : (!quern.tensor<bool[A = 2, B = 3]>) -> !quern.tensor<bool[A = 2]>)",
                         "bool[A = 2]")
                    .numbers,
                ElementsAre(first, second));
}

/// Two queries and two keys of depth 2, values 1 and 3. The lines of `score` make %s of %x, the products (0 0; log 3 0),
/// and of %y, which is 0 -inf. `result`: o, or of each row the shift m or the share t.
Evaluated attention(const std::string &score, const std::string &result, const std::string &sinks = "") {
  std::string scores = "!quern.tensor<real[T = 2, S = 2]>", rows = "!quern.tensor<real[T = 2]>",
              attended = "!quern.tensor<real[T = 2, C = 1]>", type = result == "o" ? attended : rows;
  std::string text = "%o, %m, %t = quern.attention %a with %b over \"S\" of %c reading %d" + sinks +
                     " {\n^bb0(%x: " + scores + ", %y: !quern.tensor<real[S = 2]>):\n" + score +
                     "\nquern.yield %s : " + scores +
                     "\n} : (!quern.tensor<real[T = 2, K = 2]>, !quern.tensor<real[S = 2, K = 2]>, "
                     "!quern.tensor<real[S = 2, C = 1]>, !quern.tensor<real[S = 2]>" +
                     (sinks.empty() ? "" : ", !quern.tensor<real[U = 1]>") + ") -> (" + attended + ", " + rows + ", " +
                     rows + ")\n%r = quern.permute %" + result + " : (" + type + ") -> " + type;
  return evaluate({{"real[T = 2, K = 2]", reals({{"T", 2}, {"K", 2}}, {1, 0, 0, 1})},
                   {"real[S = 2, K = 2]", reals({{"S", 2}, {"K", 2}}, {0, std::log(3.0), 0, 0})},
                   {"real[S = 2, C = 1]", reals({{"S", 2}, {"C", 1}}, {1, 3})},
                   {"real[S = 2]", reals({{"S", 2}}, {0, -inf})},
                   {"real[U = 1]", reals({{"U", 1}}, {std::log(2.0)})}},
                  text, result == "o" ? "real[T = 2, C = 1]" : "real[T = 2]");
}

const std::string both =
    " : (!quern.tensor<real[T = 2, S = 2]>, !quern.tensor<real[S = 2]>) -> !quern.tensor<real[T = 2, S = 2]>";
const std::string asItIs =
    "%s = quern.permute %x : (!quern.tensor<real[T = 2, S = 2]>) -> !quern.tensor<real[T = 2, S = 2]>";
const std::string masked = "%s = quern.add %x, %y" + both;

TEST(Attention, WeighsValuesByTheSoftmaxOfScores) {
  EXPECT_THAT(attention(asItIs, "o").numbers, ElementsAre(DoubleEq(2), DoubleEq(1.5))); // 1/2 1/2; 3/4 1/4
  EXPECT_THAT(attention(masked, "o").numbers, ElementsAre(1, 1)) << "the second key is masked";
  // Sinks take weight: of scores 0, 0, log 2 the keys have 1/4 each; of log 3, 0, log 2 they have 1/2 and 1/6.
  EXPECT_THAT(attention(asItIs, "o", " sinks %e [\"U\"]").numbers, ElementsAre(DoubleEq(1), DoubleEq(1)));
}

/// The products of the above, 0 0 and log 3 0, and what the lines of `weights` make of them: %w.
Evaluated gradient(const std::string &weights, const std::string &how, const std::string &types,
                   const std::string &result) {
  return evaluate({{"real[T = 2, K = 2]", reals({{"T", 2}, {"K", 2}}, {1, 0, 0, 1})},
                   {"real[S = 2, K = 2]", reals({{"S", 2}, {"K", 2}}, {0, std::log(3.0), 0, 0})},
                   {"real[S = 2, C = 2]", reals({{"S", 2}, {"C", 2}}, {1, 3, 5, 7})},
                   {"real[S = 2]", reals({{"S", 2}}, {1, 2})}},
                  "%r = quern.attention_gradient %a with %b over \"S\" " + how + " reading %d {\n" +
                      "^bb0(%x: !quern.tensor<real[T = 2, S = 2]>, %y: !quern.tensor<real[S = 2]>):\n" + weights +
                      "\nquern.yield %w : !quern.tensor<real[T = 2, S = 2]>\n} : (!quern.tensor<real[T = 2, K = 2]>, "
                      "!quern.tensor<real[S = 2, K = 2]>" +
                      types + ", !quern.tensor<real[S = 2]>) -> !quern.tensor<" + result + ">",
                  result);
}

TEST(AttentionGradient, SumsWeightsOfProducts) {
  std::string scaled = // e^0 1, e^0 2; e^log3 1, e^0 2
      "%e = quern.exp %x : (!quern.tensor<real[T = 2, S = 2]>) -> !quern.tensor<real[T = 2, S = 2]>\n"
      "%w = quern.mul %e, %y" +
      both;
  EXPECT_THAT(gradient(scaled, "of %c", ", !quern.tensor<real[S = 2, C = 2]>", "real[T = 2, C = 2]").numbers,
              ElementsAre(11, 17, DoubleEq(13), DoubleEq(23)));
  // By distance: at 0 the query 1 with key 0, at 1 both that are alike, at 2 the query 0 with key 1.
  EXPECT_THAT(gradient(scaled, "along [\"S\", \"T\"] from \"1\" into <N = 3>", "", "real[N = 3]").numbers,
              ElementsAre(DoubleEq(3), 3, 2));
  EXPECT_THAT(gradient(scaled, "along [\"T\", \"S\"] from \"1\" into <N = 3>", "", "real[N = 3]").numbers,
              ElementsAre(2, 3, DoubleEq(3)));
  EXPECT_THAT(gradient(scaled, "along [\"S\", \"T\"] from \"0\" into <N = 3>", "", "real[N = 3]").said,
              HasSubstr("Q028: distances from -1 to 1 along N, whose size is 3"));
}

TEST(Attention, GivesStatisticsOfItsRows) {
  EXPECT_THAT(attention(asItIs, "m").numbers, ElementsAre(0, DoubleEq(std::log(3.0))));
  EXPECT_THAT(attention(asItIs, "t").numbers, ElementsAre(0.5, DoubleEq(0.75)));
  EXPECT_THAT(attention(asItIs, "t", " sinks %e [\"U\"]").numbers, ElementsAre(DoubleEq(0.5), DoubleEq(0.5)));
  std::string nothing = "%n = quern.add %x, %y" + both +
                        "\n%k = quern.const 0xFFF0000000000000 : f64 -> <real[]>\n%s = "
                        "quern.min %n, %k : (!quern.tensor<real[T = 2, S = 2]>, !quern.tensor<real[]>) -> "
                        "!quern.tensor<real[T = 2, S = 2]>";
  for (const char *result : {"o", "m", "t"})
    EXPECT_THAT(attention(nothing, result).numbers, ElementsAre(0, 0)) << "no key is seen";
}

/// Weights of (1 + 2^-9) / 2 and 1 / 2 are one number of bf16; a sink's weight is not rounded.
TEST(Attention, RoundsWeightsWhereItIsNarrow) {
  auto of = [](const std::string &how) {
    std::string scores = "!quern.tensor<real[T = 1, S = 2]>";
    return evaluate({{"real[T = 1, K = 1]", reals({{"T", 1}, {"K", 1}}, {1})},
                     {"real[S = 2, K = 1]", reals({{"S", 2}, {"K", 1}}, {std::log1p(0x1p-9), 0})},
                     {"real[S = 2, C = 1]", reals({{"S", 2}, {"C", 1}}, {1, 3})},
                     {"real[U = 1]", reals({{"U", 1}}, {std::log1p(0x1p-9)})}},
                    "%r = quern.attention %a with %b over \"S\" of %c" + how + " {\n^bb0(%x: " + scores +
                        "):\nquern.yield %x : " + scores +
                        "\n} : (!quern.tensor<real[T = 1, K = 1]>, !quern.tensor<real[S = 2, K = 1]>, "
                        "!quern.tensor<real[S = 2, C = 1]>" +
                        (how.find("sinks") == std::string::npos ? "" : ", !quern.tensor<real[U = 1]>") +
                        ") -> !quern.tensor<real[T = 1, C = 1]>",
                    "real[T = 1, C = 1]");
  };
  EXPECT_THAT(of(" narrow").numbers, ElementsAre(2));
  EXPECT_THAT(of("").numbers, ElementsAre(DoubleEq((4 + 0x1p-9) / (2 + 0x1p-9))));
  EXPECT_THAT(of(" sinks %d [\"U\"] narrow").numbers, ElementsAre(DoubleEq(4 / (3 + 0x1p-9))));
}

TEST(Softmax, OverNothingIsZero) {
  Evaluated done = onPair({-inf, -inf, -inf, 0, -inf, std::log(3.0)}, "softmax %a over [\"B\"]", "real[A = 2, B = 3]");
  EXPECT_THAT(done.numbers, ElementsAre(0, 0, 0, DoubleEq(0.25), 0, DoubleEq(0.75))) << done.said;
}

TEST(Softmax, LargeScoresDoNotOverflow) {
  Evaluated done =
      onPair({1000, 1000, -inf, -1000, -1000, -1000}, "softmax %a over [\"A\", \"B\"]", "real[A = 2, B = 3]");
  EXPECT_THAT(done.numbers, ElementsAre(0.5, 0.5, 0, 0, 0, 0)) << done.said;
}

TEST(Softmax, OverTheOuterDimension) {
  Evaluated done = onPair({0, 0, 0, 0, std::log(3.0), -inf}, "softmax %a over [\"A\"]", "real[A = 2, B = 3]");
  EXPECT_THAT(done.numbers, ElementsAre(0.5, DoubleEq(0.25), 1, 0.5, DoubleEq(0.75), 0)) << done.said;
}

TEST(Contract, MatrixProductWithSharedDimension) {
  // H is of both sides and stays; K is summed; T and S are of one side each.
  Evaluated done = evaluate(
      {{"real[H = 2, T = 1, K = 2]", reals({{"H", 2}, {"T", 1}, {"K", 2}}, {1, 2, 3, 4})},
       {"real[S = 2, K = 2, H = 2]", reals({{"S", 2}, {"K", 2}, {"H", 2}}, {1, 2, 3, 4, 5, 6, 7, 8})}},
      R"(%r = quern.contract %a, %b over ["K"] : (!quern.tensor<real[H = 2, T = 1, K = 2]>, !quern.tensor<real[S = 2, K = 2, H = 2]>) -> !quern.tensor<real[H = 2, T = 1, S = 2]>)",
      "real[H = 2, T = 1, S = 2]");
  // h = 0: q = (1, 2), k0 = (1, 3), k1 = (5, 7);  h = 1: q = (3, 4), k0 = (2, 4), k1 = (6, 8)
  EXPECT_THAT(done.numbers, ElementsAre(7, 19, 22, 50)) << done.said;
}

TEST(Contract, DimensionsOfOneSideAlone) {
  // Sum over A (of %a alone), K (of both) and C (of %b alone), to no dimension at all.
  Evaluated done = evaluate(
      {{"real[A = 2, K = 2]", reals({{"A", 2}, {"K", 2}}, {1, 2, 3, 4})},
       {"int[K = 2, C = 3]", ints({{"K", 2}, {"C", 3}}, {1, 1, 1, 2, 2, 2})}},
      R"(%r = quern.contract %a, %b over ["A", "K", "C"] : (!quern.tensor<real[A = 2, K = 2]>, !quern.tensor<int[K = 2, C = 3]>) -> !quern.tensor<real[]>)",
      "real[]");
  EXPECT_THAT(done.numbers, ElementsAre((1 + 3) * 3 + (2 + 4) * 6)) << done.said;
}

TEST(Contract, OuterProductAndManyColumns) {
  std::vector<double> column(11), expected;
  for (int i = 0; i < 11; ++i)
    column[i] = i;
  for (int a = 1; a <= 2; ++a)
    for (double c : column)
      expected.push_back(a * c);
  Evaluated done = evaluate(
      {{"real[A = 2]", reals({{"A", 2}}, {1, 2})}, {"real[C = 11]", reals({{"C", 11}}, column)}},
      R"(%r = quern.contract %a, %b over [] : (!quern.tensor<real[A = 2]>, !quern.tensor<real[C = 11]>) -> !quern.tensor<real[A = 2, C = 11]>)",
      "real[A = 2, C = 11]");
  EXPECT_EQ(done.numbers, expected) << done.said;
}

TEST(Contract, ZeroTimesNanIsNan) {
  Evaluated done = evaluate(
      {{"real[K = 2]", reals({{"K", 2}}, {0, 1})}, {"real[K = 2]", reals({{"K", 2}}, {notANumber, 1})}},
      R"(%r = quern.contract %a, %b over ["K"] : (!quern.tensor<real[K = 2]>, !quern.tensor<real[K = 2]>) -> !quern.tensor<real[]>)",
      "real[]");
  EXPECT_THAT(done.numbers, ElementsAre(IsNan()));
}

TEST(Cumsum, AlongEitherDimension) {
  EXPECT_THAT(onPair({1, 2, 3, 4, 5, 6}, "cumsum %a along \"B\"", "real[A = 2, B = 3]").numbers,
              ElementsAre(1, 3, 6, 4, 9, 15));
  EXPECT_THAT(onPair({1, 2, 3, 4, 5, 6}, "cumsum %a along \"A\"", "real[A = 2, B = 3]").numbers,
              ElementsAre(1, 2, 3, 5, 7, 9));
}

TEST(Cumsum, FromTheEnd) {
  EXPECT_THAT(onPair({1, 2, 3, 4, 5, 6}, "cumsum %a along \"B\" reverse", "real[A = 2, B = 3]").numbers,
              ElementsAre(6, 5, 3, 15, 11, 6));
  EXPECT_THAT(onPair({1, 2, 3, 4, 5, 6}, "cumsum %a along \"A\" reverse", "real[A = 2, B = 3]").numbers,
              ElementsAre(5, 7, 9, 4, 5, 6));
}

TEST(ScatterAdd, DuplicatesAddUpAndTheRestIsZero) {
  auto scatter = [](const char *over, const char *into, const char *result, std::vector<int64_t> positions) {
    return evaluate({{"real[A = 3, B = 2]", reals({{"A", 3}, {"B", 2}}, {1, 2, 3, 4, 5, 6})},
                     {"int[A = 3]", ints({{"A", 3}}, positions)}},
                    std::string("%r = quern.scatter_add %a at %b over ") + over + " into <" + into +
                        "> : (!quern.tensor<real[A = 3, B = 2]>, !quern.tensor<int[A = 3]>) -> !quern.tensor<" +
                        result + ">",
                    result);
  };
  EXPECT_THAT(scatter("[\"A\"]", "V = 4", "real[V = 4, B = 2]", {2, 0, 2}).numbers,
              ElementsAre(3, 4, 0, 0, 6, 8, 0, 0));
  EXPECT_THAT(scatter("[\"A\", \"B\"]", "V = 3", "real[V = 3]", {2, 0, 2}).numbers, ElementsAre(7, 0, 14));
  // The positions' own dimension stays: each of its parts has one position.
  EXPECT_THAT(scatter("[]", "V = 2", "real[A = 3, B = 2, V = 2]", {1, 0, 1}).numbers,
              ElementsAre(0, 1, 0, 2, 3, 0, 4, 0, 0, 5, 0, 6));
  // The new dimension may have the name of one that is summed.
  EXPECT_THAT(scatter("[\"A\"]", "A = 3", "real[B = 2, A = 3]", {1, 1, 0}).numbers, ElementsAre(5, 4, 0, 6, 6, 0));
  EXPECT_THAT(scatter("[\"A\"]", "V = 2", "real[V = 2, B = 2]", {0, 2, 0}).said, HasSubstr("Q028: position 2 along V"));
}

TEST(ScatterAdd, RepeatsWhatThePositionsAloneHave) {
  EXPECT_THAT(evaluate({{"real[B = 2]", reals({{"B", 2}}, {1, 10})}, {"int[A = 3]", ints({{"A", 3}}, {1, 0, 1})}},
                       "%r = quern.scatter_add %a at %b over [\"A\"] into <V = 2> : (!quern.tensor<real[B = 2]>, "
                       "!quern.tensor<int[A = 3]>) -> !quern.tensor<real[V = 2, B = 2]>",
                       "real[V = 2, B = 2]")
                  .numbers,
              ElementsAre(1, 10, 2, 20));
}

TEST(Argmax, FirstOfEquals) {
  EXPECT_THAT(onPair({1, 5, 5, -1, -1, -3}, "argmax %a along \"B\"", "int[A = 2]").numbers, ElementsAre(1, 0));
  EXPECT_THAT(onPair({-inf, -inf, -inf, 2, 1, 2}, "argmax %a along \"A\"", "int[B = 3]").numbers, ElementsAre(1, 1, 1));
}

TEST(TopK, OrderAndTies) {
  auto both = [](const char *which) {
    return evaluate(
        {{"real[A = 1, E = 5]", reals({{"A", 1}, {"E", 5}}, {2, 7, 7, 1, 7})}},
        std::string("%v, %p = quern.top_k %a along \"E\" into <C = 4> : (!quern.tensor<real[A = 1, E = 5]>) -> "
                    "(!quern.tensor<real[A = 1, C = 4]>, !quern.tensor<int[A = 1, C = 4]>)\n%r = quern.to_real %") +
            which + " : (!quern.tensor<" + (*which == 'v' ? "real" : "int") +
            "[A = 1, C = 4]>) -> !quern.tensor<real[A = 1, C = 4]>",
        "real[A = 1, C = 4]");
  };
  EXPECT_THAT(both("v").numbers, ElementsAre(7, 7, 7, 2)) << both("v").said;
  EXPECT_THAT(both("p").numbers, ElementsAre(1, 2, 4, 0));
}

} // namespace
