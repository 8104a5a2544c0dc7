// Sums that a scan would carry are found, and no others: not attention's, not windows, not those without a mask.
#include "CausalSpecs.h"
#include "SmallSpecs.h"

#include "passes/time/SlowSums.h"

using namespace quern::passes;
using namespace quern::passes::test;

namespace {

std::string found(Program &program) {
  std::string text;
  for (const SlowSum &sum : slowSums(program.module()))
    text += sum.sum + " " + sum.time + " " + sum.pair + ";";
  return text;
}
std::string found(const std::string &lines) {
  return found(*Program::fromSpec(specWith("    m = index(S) <= index(T)\n" + lines + "\n")));
}

TEST(SlowSums, RecurrencesThatAreWrittenOut) {
  // A running sum; a decay by distance; one that the data choose; linear attention; a selective state space.
  EXPECT_EQ(found("return sum[S](where(m, 1, 0) * x[T -> S])"), "S T [S, T];");
  EXPECT_EQ(found("return sum[S](where(m, 0.9 ^ (index(T) - index(S)), 0) * x[T -> S])"), "S T [S, T];");
  EXPECT_EQ(found("c = cumsum[T](-abs(x))\n return sum[S](where(m, exp(c - c[T -> S]), 0) * x[T -> S])"),
            "S T [B, T, D, S];");
  EXPECT_EQ(found("c = cumsum[T](-abs(x))\n return sum[S](exp(where(m, c - c[T -> S], -inf)) * x[T -> S])"),
            "S T [B, T, D, S];");
  EXPECT_EQ(found("return sum[S](where(m, sum[D](x * x[T -> S]), 0) * x[T -> S])"), "S T [B, T, S];");
  EXPECT_EQ(found("dim N = 3\n c = cumsum[T](-abs(x)) * index(N)\n"
                  "return sum[S](sum[N](where(m, exp(c - c[T -> S]), 0) * (x * x[T -> S])) * x[T -> S])"),
            "S T [B, T, D, S];");
}

TEST(SlowSums, NothingElse) {
  EXPECT_EQ(found("return sum[S](softmax[S](where(m, sum[D](x * x[T -> S]), -inf)) * x[T -> S])"), "");
  EXPECT_EQ(found("e = where(m, exp(sum[D](x * x[T -> S])), 0)\n return sum[S](e * x[T -> S]) / sum[S](e)"), "");
  EXPECT_EQ(found("w = m and index(S) > index(T) - 3\n return sum[S](where(w, 1, 0) * x[T -> S])"), "");
  EXPECT_EQ(found("y = sum[S](sum[D](x * x[T -> S]) * x[T -> S])\n return where(any[S](m), y, 0)"), "");
  EXPECT_EQ(found("y = sum[S](cos(index(S) * index(T)) * x[T -> S])\n return where(any[S](m), y, 0)"), "");
  EXPECT_EQ(found("return sum[S](where(m, 1 / (1 + index(T) - index(S)), 0) * x[T -> S])"), "");
}

TEST(SlowSums, NoneInTheExamples) {
  for (const std::vector<SpecCase> &specs : {causalSpecs(), otherSpecs(), stillSpecs()})
    for (const SpecCase &each : specs)
      EXPECT_EQ(found(*load(each)), "") << each.name;
}

} // namespace
