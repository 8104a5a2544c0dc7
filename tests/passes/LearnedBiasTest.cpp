// What attention's scores learn beside products of queries and keys: by distance (buckets, slopes, anything made of
// index(S) - index(T)), or what lacks queries or keys (temperatures, a number for each key). The same gradients as by
// the rules of the table, no value with queries and keys in memory, and memory that grows with the text alone.
#include "SmallSpecs.h"
#include "Trained.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;
using namespace quern::passes::test;
using testing::HasSubstr;
using testing::Not;

namespace {

/// A decoder of two layers around `score`, made of q [B, T, G, R, K], k [B, S, G, K] and product [B, T, G, R, S]
/// (causal); `outside` stands before the loop, `value` is what the weights sum.
std::string withBias(const std::string &outside, const std::string &score,
                     const std::string &weights = "softmax[S](where(mask, score, -inf))", bool loop = true) {
  std::string body = "      q = linear[D -> (G, R, K)](x) @ \"q\"\n      k = (linear[D -> (G, K)](x) @ \"k\")[T -> S]\n"
                     "      v = (linear[D -> (G, K)](x) @ \"v\")[T -> S]\n      product = sum[K](q * k)\n" +
                     score + "      w = " + weights + "\n      x = x + linear[(G, R, K) -> D](sum[S](w * v)) @ \"o\"\n";
  return "quern 1\nmodel m {\n  dim V = 13, D = 8, G = 2, R = 2, K = 3, U = 6\n  forward(tokens: int[B, T]) -> [B, T, "
         "V] {\n"
         "    dim S = T\n    param words: [V, D] @ \"words\"\n    x = words[V = tokens]\n    mask = index(S) <= "
         "index(T)\n" +
         outside + (loop ? "    repeat i in 2 @ \"l.{i}\" {\n" + body + "    }\n" : body) +
         "    return linear[D -> V](x) @ \"out\"\n  }\n}\n";
}

struct Bias {
  const char *name;
  std::string spec;
};
void PrintTo(const Bias &bias, std::ostream *out) {
  *out << bias.name;
}

const std::string buckets =
    "    param table: [U, G, R] @ \"table\"\n    near = table[U = relative_bucket(index(S) - index(T), U, 5, ";
const std::string add = "      score = product + near\n";

std::vector<Bias> kinds() {
  return {
      {"BucketsBackwards", withBias(buckets + "false)]\n", add)},
      {"BucketsBothWays",
       withBias(buckets + "true)]\n", add, "softmax[S](where(mask or tokens[T -> S] > 4, score, -inf))")},
      {"BucketsForGroups",
       withBias(
           "    param table: [U, G] @ \"table\"\n    near = table[U = relative_bucket(index(S) - index(T), U, 5)]\n",
           add)},
      {"BucketsForAllHeads",
       withBias("    param table: [U] @ \"table\"\n    near = table[U = relative_bucket(index(S) - index(T), U, 5)]\n",
                add)},
      {"BucketsOfEachLayer", withBias("", "      param table: [U, G, R] @ \"table\"\n      near = table[U = "
                                          "relative_bucket(index(S) - index(T), U, 5)]\n" +
                                              add)},
      {"BucketsWithoutALoop", withBias(buckets + "false)]\n", add, "softmax[S](where(mask, score, -inf))", false)},
      {"BucketsInTwoPlaces", withBias(buckets + "false)]\n", "      score = product * near + near\n")},
      {"WindowAndCap", withBias(buckets + "false)]\n",
                                "      score = where(index(T) - index(S) < 4, tanh(product + near) * 3, -1e9)\n")},
      {"SlopeTimesDistance",
       withBias("    param slope: [G, R] @ \"slope\"\n    near = slope * (index(T) - index(S))\n", add)},
      {"LogarithmOfDistance", withBias("    param a: [G] @ \"a\"\n    param b: [R] @ \"b\"\n    near = -a * "
                                       "log1p(abs(b * (index(S) - index(T))))\n",
                                       add)},
      {"SmallNetworkOfDistance", // a contraction on the way
       withBias("    param up: [U] @ \"up\"\n    param down: [U, G, R] @ \"down\"\n    near = sum[U](tanh(up * "
                "(index(S) - index(T)) / 8) * down)\n",
                add)},
      {"SlopeOfEachLayerAndCappedDistance",
       withBias(
           "", "      param slope: [G, R] @ \"slope\"\n      score = product - slope * min(index(T) - index(S), 4)\n")},
      {"SlopeTimesKey",
       withBias("    param slope: [G, R] @ \"slope\"\n", "      score = product + slope * index(S)\n")}, // as Bloom's
      {"SlopeTimesPositionsFromData", // no distance that is known: S - T of what the tokens say
       withBias("    param slope: [G, R] @ \"slope\"\n    at = cumsum[T](int(tokens > 3))\n",
                "      score = product + slope * (at[T -> S] - at)\n")},
      {"Temperature", withBias("    param heat: [G, R] @ \"heat\"\n", "      score = product * heat + 0.5\n")},
      {"TemperatureOfAllAndOfAQuery",
       withBias("    param heat: [] @ \"heat\"\n",
                "      score = product * heat * sigmoid(linear[D -> (G, R)](x) @ \"gate\")\n")},
      {"NumberOfAKey", withBias("", "      score = product + (linear[D -> G](x) @ \"gate\")[T -> S]\n")},
      {"NumbersOfQueriesAndKeys",
       withBias("", "      a = linear[D -> (G, R)](x) @ \"a\"\n      b = (linear[D -> (G, R)](x) @ \"b\")[T -> S]\n"
                    "      score = product + tanh(a + b) * index(S)\n")},
      {"SinkAndDistance",
       withBias(buckets + "false)]\n",
                "      param sink: [G, R] @ \"sink\"\n      dim N = S + 1\n" + add +
                    "      all, _ = softmax[N](concat[S + 1 -> N](where(mask, score, -inf), sink))[N -> S + 1]\n",
                "all")},
      {"PaddingOfKeys",
       withBias(buckets + "false)]\n", "      seen = mask and (tokens[T -> S] != 3 or index(S) == index(T))\n" + add,
                "softmax[S](where(seen, score, -inf))")}};
}

/// A stored value, or one that a kernel gives, with queries and keys.
const char *const matrices =
    "launch[^\n]*-> [^\n]*\\bT[],][^>]*S(\\.[0-9]+)? = T|launch[^\n]*-> [^\n]*S(\\.[0-9]+)? = T[^>]*, T[],]";

class LearnedBias : public testing::TestWithParam<Bias> {};

} // namespace

TEST_P(LearnedBias, TheSameGradientsAndNoScoresInMemory) {
  const std::string &spec = GetParam().spec;
  Trained rules(spec, "raise-loss-attention,tabulate-distances", "differentiated"), derived(spec, "", "differentiated"),
      planned(spec, "");
  ASSERT_TRUE(rules.module && derived.module && planned.module);
  Program::Inputs inputs = inputsFor(rules.function("loss"), 2, 9, 5, 13);
  std::vector<double> want = rules.evaluate("loss.grad", inputs);
  EXPECT_LE(difference(want, derived.evaluate("loss.grad", inputs)), 1e-12);
  EXPECT_LE(difference({want[0]}, derived.evaluate("loss", inputs)), 1e-12);
  EXPECT_LE(difference(want, planned.evaluate("loss.grad", inputs)), 1e-12);
  EXPECT_THAT(printed(planned.function("loss.grad")), Not(testing::ContainsRegex(matrices)));
  // Twice the text, twice what grows with it: nothing grows with its square.
  auto arena = [&](int64_t tokens) { return arenaBytes(planned.function("loss.grad"), 2, tokens); };
  int64_t a = arena(1024), b = arena(2048), c = arena(4096);
  EXPECT_EQ(c - b, 2 * (b - a));
  for (const char *without :
       {"recompute", "tabulate-distances", "raise-loss-attention", "raise-attention", "cse-gradients"}) {
    Trained other(spec, without);
    ASSERT_TRUE(other.module) << without;
    EXPECT_LE(difference(want, other.evaluate("loss.grad", inputs)), 1e-12) << "without " << without;
  }
}
INSTANTIATE_TEST_SUITE_P(Kinds, LearnedBias, testing::ValuesIn(kinds()),
                         [](const auto &info) { return std::string(info.param.name); });

TEST(LearnedBias, TextsOfOneAndTwoTokens) { // a table of two distances, of which one is no pair's
  Trained rules(kinds()[0].spec, "raise-loss-attention,tabulate-distances", "differentiated"),
      derived(kinds()[0].spec, "");
  for (int64_t length : {1, 2, 3}) {
    Program::Inputs inputs = inputsFor(rules.function("loss"), 1, length, 5, 13);
    EXPECT_LE(difference(rules.evaluate("loss.grad", inputs), derived.evaluate("loss.grad", inputs)), 1e-12) << length;
  }
}

TEST(LearnedBias, WithoutTheRuleOrForOtherPositionsScoresAreStored) {
  Trained without(kinds()[0].spec, "tabulate-distances");
  EXPECT_THAT(printed(without.function("loss.grad")), testing::ContainsRegex(matrices));
  std::string sums =
      withBias("    param table: [U, G, R] @ \"table\"\n    near = table[U = (index(S) + index(T)) % U]\n", add);
  Trained rules(sums, "raise-loss-attention", "differentiated"), derived(sums, "");
  EXPECT_THAT(printed(derived.function("loss.grad")), testing::ContainsRegex(matrices));
  Program::Inputs inputs = inputsFor(rules.function("loss"), 2, 7, 5, 13);
  EXPECT_LE(difference(rules.evaluate("loss.grad", inputs), derived.evaluate("loss.grad", inputs)), 1e-12);
}
