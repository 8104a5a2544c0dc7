// What changes dimensions, in the reference interpreter, against numbers by hand.
#include "tests/ir/Support.h"

using namespace quern::ir;
using namespace quern::ir::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

const std::vector<double> six = {1, 2, 3, 4, 5, 6};
const std::vector<NamedSize> ab = {{"A", 2}, {"B", 3}};

Evaluated onPair(const std::string &op, const std::string &to) {
  return evaluate({{"real[A = 2, B = 3]", reals(ab, six)}},
                  "%r = quern." + op + " : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<" + to + ">", to);
}

TEST(Shape, RenamesSwapAllAtOnce) {
  // A 2 x 2 matrix whose names change places, in the order of storage [A, B]: the transpose.
  Evaluated done = evaluate(
      {{"real[A = 2, B = 2]", reals({{"A", 2}, {"B", 2}}, {1, 2, 3, 4})}},
      R"(%r = quern.rename %a ["A", "B"] to [#quern.dim<B = 2>, #quern.dim<A = 2>] : (!quern.tensor<real[A = 2, B = 2]>) -> !quern.tensor<real[A = 2, B = 2]>)",
      "real[A = 2, B = 2]");
  EXPECT_THAT(done.numbers, ElementsAre(1, 3, 2, 4)) << done.said;
}

TEST(Shape, SplitAndMergeAreRowMajor) {
  EXPECT_THAT(
      evaluate(
          {{"real[N = 6]", reals({{"N", 6}}, six)}},
          R"(%r = quern.split %a "N" into [#quern.dim<A = 2>, #quern.dim<B = 3>] : (!quern.tensor<real[N = 6]>) -> !quern.tensor<real[B = 3, A = 2]>)",
          "real[B = 3, A = 2]")
          .numbers,
      ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(onPair(R"(merge %a ["A", "B"] into <N = 6>)", "real[N = 6]").numbers, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(onPair(R"(merge %a ["B", "A"] into <N = 6>)", "real[N = 6]").numbers, ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST(Shape, MergeOfDistantDimensions) {
  Evaluated done = evaluate(
      {{"real[H = 2, T = 2, K = 2]", reals({{"H", 2}, {"T", 2}, {"K", 2}}, {1, 2, 3, 4, 5, 6, 7, 8})}},
      R"(%r = quern.merge %a ["H", "K"] into <D = 4> : (!quern.tensor<real[H = 2, T = 2, K = 2]>) -> !quern.tensor<real[D = 4, T = 2]>)",
      "real[D = 4, T = 2]");
  EXPECT_THAT(done.numbers, ElementsAre(1, 3, 2, 4, 5, 7, 6, 8)) << done.said;
}

TEST(Shape, CutTakesPositionsFromAnOffset) {
  EXPECT_THAT(onPair(R"(cut %a "B" at "1" into <C = 2>)", "real[A = 2, C = 2]").numbers, ElementsAre(2, 3, 5, 6));
  Evaluated last = evaluate(
      {{"real[T, A = 1]", reals({{"T", 3}, {"A", 1}}, {7, 8, 9})}},
      R"(%r = quern.cut %a "T" at "T - 1" into <U = 1> : (!quern.tensor<real[T, A = 1]>) -> !quern.tensor<real[U = 1, A = 1]>)",
      "real[U = 1, A = 1]");
  EXPECT_THAT(last.numbers, ElementsAre(9)) << last.said;
  Evaluated outside = evaluate(
      {{"real[T, A = 1]", reals({{"T", 3}, {"A", 1}}, {7, 8, 9})}},
      R"(%r = quern.cut %a "T" at "2" into <U = 2> : (!quern.tensor<real[T, A = 1]>) -> !quern.tensor<real[U = 2, A = 1]>)",
      "real[U = 2, A = 1]");
  EXPECT_THAT(outside.said, HasSubstr("Q028: positions 2 to 3 along T, whose size is 3"));
}

TEST(Shape, UnitSqueezeExpandPermute) {
  EXPECT_THAT(onPair("unit %a into <U = 1>", "real[A = 2, B = 3, U = 1]").numbers, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(
      evaluate({{"real[U = 1, A = 2]", reals({{"U", 1}, {"A", 2}}, {1, 2})}},
               R"(%r = quern.squeeze %a "U" : (!quern.tensor<real[U = 1, A = 2]>) -> !quern.tensor<real[A = 2]>)",
               "real[A = 2]")
          .numbers,
      ElementsAre(1, 2));
  EXPECT_THAT(evaluate({{"real[A = 2]", reals({{"A", 2}}, {1, 2})}},
                       "%r = quern.expand %a : (!quern.tensor<real[A = 2]>) -> !quern.tensor<real[C = 2, A = 2]>",
                       "real[C = 2, A = 2]")
                  .numbers,
              ElementsAre(1, 2, 1, 2));
  EXPECT_THAT(onPair("permute %a", "real[B = 3, A = 2]").numbers, ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST(Shape, ConcatRepeatsWhatAPartLacks) {
  // [A, B] before [C] along the second place: the part without A is repeated for each of A.
  Evaluated done = evaluate(
      {{"real[A = 2, B = 3]", reals(ab, six)}, {"int[C = 1]", ints({{"C", 1}}, {9})}},
      R"(%r = quern.concat %a, %b ["B", "C"] into <N = 4> : (!quern.tensor<real[A = 2, B = 3]>, !quern.tensor<int[C = 1]>) -> !quern.tensor<real[A = 2, N = 4]>)",
      "real[A = 2, N = 4]");
  EXPECT_THAT(done.numbers, ElementsAre(1, 2, 3, 9, 4, 5, 6, 9)) << done.said;
}

TEST(Shape, GatherOfRows) {
  Evaluated done = evaluate(
      {{"real[A = 2, B = 3]", reals(ab, six)}, {"int[T]", ints({{"T", 3}}, {1, 0, 1})}},
      R"(%r = quern.gather %a["A" = %b] : (!quern.tensor<real[A = 2, B = 3]>, !quern.tensor<int[T]>) -> !quern.tensor<real[T, B = 3]>)",
      "real[T, B = 3]");
  EXPECT_THAT(done.numbers, ElementsAre(4, 5, 6, 1, 2, 3, 4, 5, 6)) << done.said;
}

TEST(Shape, GatherKeepsSharedNamesTogether) {
  // Each row of A has positions of its own.
  Evaluated done = evaluate(
      {{"real[A = 2, B = 3]", reals(ab, six)}, {"int[A = 2, C = 2]", ints({{"A", 2}, {"C", 2}}, {2, 0, 1, 1})}},
      R"(%r = quern.gather %a["B" = %b] : (!quern.tensor<real[A = 2, B = 3]>, !quern.tensor<int[A = 2, C = 2]>) -> !quern.tensor<real[A = 2, C = 2]>)",
      "real[A = 2, C = 2]");
  EXPECT_THAT(done.numbers, ElementsAre(3, 1, 5, 5)) << done.said;
}

TEST(Shape, GatherBySelfShifts) {
  // The positions carry the gathered name: x[B = max(index(B) - 1, 0)].
  Evaluated done = evaluate(
      {{"real[A = 2, B = 3]", reals(ab, six)}, {"int[B = 3]", ints({{"B", 3}}, {0, 0, 1})}},
      R"(%r = quern.gather %a["B" = %b] : (!quern.tensor<real[A = 2, B = 3]>, !quern.tensor<int[B = 3]>) -> !quern.tensor<real[A = 2, B = 3]>)",
      "real[A = 2, B = 3]");
  EXPECT_THAT(done.numbers, ElementsAre(1, 1, 2, 4, 4, 5)) << done.said;
}

TEST(Shape, GatherOutsideIsAnErrorWithThePosition) {
  for (int64_t position : {3, -1}) {
    Evaluated done = evaluate(
        {{"bool[B.2 = 3]", bools({{"B.2", 3}}, {1, 0, 1})}, {"int[T]", ints({{"T", 1}}, {position})}},
        R"(%r = quern.gather %a["B.2" = %b] : (!quern.tensor<bool[B.2 = 3]>, !quern.tensor<int[T]>) -> !quern.tensor<bool[T]>)",
        "bool[T]");
    EXPECT_THAT(done.said, HasSubstr("Q028: position " + std::to_string(position) + " along B, whose size is 3"));
  }
}

} // namespace
