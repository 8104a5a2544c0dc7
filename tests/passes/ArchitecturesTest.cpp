// Ideas of architectures that no example spec has: steps equal the whole.
#include "SmallSpecs.h"

using namespace quern::passes::test;
using testing::HasSubstr;

TEST(Architectures, AttentionSinks) { // gpt-oss: one learned score a head, without a value
  std::string text = expectSteps(specWith(
      "    dim H = 2, K = 3\n    param sinks: [H] @ \"sinks\"\n"
      "    repeat i in layers @ \"l.{i}\" {\n"
      "      q, k, v = linear[D -> (H, K) + (H, K) + (H, K)](x) @ \"qkv\"\n"
      "      a = attention[S, K](q, k[T -> S], v[T -> S], mask: index(T) - 4 < index(S) <= index(T), sink: sinks)\n"
      "      x = x + linear[(H, K) -> D](a) @ \"o\"\n    }\n    return x\n"));
  EXPECT_THAT(text, HasSubstr("real[iteration = 2, B, cap, H = 2, K = 3]"));
}

TEST(Architectures, Retention) { // scores that decay with distance, without softmax
  expectSteps(specWith("    w = where(index(S) <= index(T), 0.9 ^ (index(T) - index(S)) * sum[D](x * x[T -> S]), 0)\n"
                       "    return sum[S](w * x[T -> S]) / max(sum[S](abs(w)), 1)\n"));
}

TEST(Architectures, TokenShift) { // RWKV, and convolutions written as shifts
  expectSteps(
      specWith("    before = where(index(T) > 0, x[T = max(index(T) - 1, 0)], 0)\n    far = where(index(T) > 2, "
               "x[T = max(index(T) - 3, 0)], 0)\n"
               "    return linear[D -> D](x + 0.5 * before) @ \"a\" + linear[D -> D](far) @ \"b\"\n"));
}

TEST(Architectures, KeysOfOneLayerForAll) { // YOCO, Gemma 3n: keys that later layers use again
  expectSteps(
      specWith("    k = linear[D -> D](x) @ \"k\"\n    repeat i in layers @ \"l.{i}\" {\n"
               "      w = softmax[S](where(index(S) <= index(T), sum[D](x * k[T -> S]), -inf))\n"
               "      x = x + sum[S](w * k[T -> S])\n      if i == 0 { k = linear[D -> D](x) @ \"again\" }\n    "
               "}\n    return x\n"));
  // Carried along the twin: all old rows are recomputed in each step.
  expectSteps(
      specWith("    k = x[T -> S]\n    repeat i in layers @ \"l.{i}\" {\n      k = linear[D -> D](k) @ \"k\"\n"
               "      w = softmax[S](where(index(S) <= index(T), sum[D](x * k), -inf))\n      x = x + sum[S](w * "
               "k)\n    }\n    return x\n"));
}

TEST(Architectures, RelativeScoresFromText) { // Transformer-XL: a score for each distance, picked by distance
  expectSteps(specWith(
      "    dim R = 5\n    r = linear[D -> R](x) @ \"r\"\n    near = r[R = min(max(index(T) - index(S), 0), R - 1)]\n"
      "    w = softmax[S](where(index(S) <= index(T), sum[D](x * x[T -> S]) + near, -inf))\n    return sum[S](w * x[T "
      "-> S])\n"));
}

TEST(Architectures, PositionsThatCountTokens) { // RoBERTa, OPT by mask: padding has no position
  expectSteps(
      specWith("    param places: [P, D] @ \"places\"\n    real_ones = tokens != 1\n    at = "
               "cumsum[T](int(real_ones)) * int(real_ones) + 1\n"
               "    x = x + places[P = at]\n    w = softmax[S](where(index(S) <= index(T) and real_ones[T -> S], "
               "sum[D](x * x[T -> S]), -inf))\n"
               "    return sum[S](w * x[T -> S])\n"));
}

TEST(Architectures, Experts) { // gathers of experts over positions, with and without a shared one
  std::string text = expectSteps(specWith(
      "    dim E = 3, C = 2, F = 5\n    score, chosen = top_k[E -> C](softmax[E](linear[D -> E](x) @ \"gate\"))\n"
      "    y = linear[F -> D](silu(linear[D -> F](x) @ \"{E}.in\")) @ \"{E}.out\"\n"
      "    return x + sum[C](y[E = chosen] * score) + affine[D -> D](x) @ \"shared\"\n"));
  // The weights of the chosen experts alone.
  size_t begin = text.find("func.func @forward.last");
  std::string step = text.substr(begin, text.find("func.func", begin + 1) - begin);
  EXPECT_THAT(step, HasSubstr("!quern.tensor<int[B, C = 2]>) -> !quern.tensor<real[B, C = 2, F = 5, D = 4]>"));
  EXPECT_THAT(step, testing::Not(HasSubstr("real[B, E = 3, F = 5]")));
}

TEST(Architectures, TwoStreams) { // values of two loops, carried side by side; one global layer after local ones
  expectSteps(
      specWith("    y = 2 * x\n    repeat i in 6 @ \"l.{i}\" {\n      m = index(S) <= index(T) if i % 3 == 2 else "
               "index(T) - 2 < index(S) <= index(T)\n"
               "      w = softmax[S](where(m, sum[D](y * x[T -> S]), -inf))\n      x, y = y + sum[S](w * x[T -> "
               "S]), linear[D -> D](x) @ \"mix\"\n    }\n    return x + y\n"));
}

TEST(Architectures, Blocks) { // T as a block's own dimension
  expectSteps(specWith("    return shift[T](x) + 2 * causal_mean[T, S](x, x[T -> S])\n",
                       "  block shift[T](x: [.., T, D]) { return x[T = max(index(T) - 1, 0)] }\n"
                       "  block causal_mean[T, S](x: [.., T, D], y: [.., S, D]) {\n"
                       "    m = causal[T, S]()\n    return sum[S](where(m, y, 0)) / sum[S](int(m)) + 0 * x\n  }\n"));
}

TEST(Architectures, WindowsAreRings) { // as many positions as the mask lets through, and the new rows
  auto layers = [](const std::string &mask) {
    return specWith("    repeat i in layers @ \"l.{i}\" {\n      k = linear[D -> D](x) @ \"k\"\n"
                    "      w = softmax[S](where(" +
                    mask +
                    ", sum[D](x * k[T -> S]), -inf))\n"
                    "      x = x + sum[S](w * k[T -> S])\n    }\n    return x\n");
  };
  EXPECT_THAT(expectSteps(layers("index(T) - 4 < index(S) <= index(T)")),
              HasSubstr("real[iteration = 2, B, cap = \"room(4)\", D = 4]"));
  EXPECT_THAT(expectSteps(layers("index(T) - index(S) == 1")), HasSubstr("cap = \"room(2)\""));
  EXPECT_THAT(expectSteps(layers("index(S) == index(T)")), HasSubstr("cap = \"room(1)\""));
  EXPECT_THAT(expectSteps(layers("index(S) // 3 == index(T) // 3 and index(S) <= index(T)")),
              HasSubstr("cap = \"room(3)\""));
  // Beyond the text: never full.
  EXPECT_THAT(expectSteps(layers("index(T) - 50 < index(S) <= index(T)")), HasSubstr("cap = \"room(50)\""));
  // The first position stays visible: all is kept.
  EXPECT_THAT(expectSteps(layers("index(S) <= index(T) and (index(T) - 4 < index(S) or index(S) == 0)")),
              HasSubstr("B, cap, D = 4]"));
  // What two masks look at has the wider window; a mask that is shared is made for each.
  std::string text = expectSteps(
      specWith("    a = softmax[S](where(index(T) - 2 < index(S) <= index(T), sum[D](x * x[T -> S]), -inf))\n"
               "    b = softmax[S](where(index(T) - 5 < index(S) <= index(T), sum[D](x * x[T -> S]), -inf))\n"
               "    return sum[S](a * x[T -> S]) + sum[S](b * x[T -> S])\n"));
  EXPECT_THAT(text, HasSubstr("cap = \"room(5)\""));
  EXPECT_THAT(text, testing::Not(HasSubstr("room(2)")));
  text = expectSteps(specWith(
      "    m = linear[D -> D](x) @ \"m\"\n    near = index(T) - 3 < index(S) <= index(T)\n"
      "    a = softmax[S](where(near, sum[D](x * x[T -> S]), -inf))\n"
      "    b = softmax[S](where(index(S) <= index(T), sum[D](m * m[T -> S]) + 0.1 * (index(S) - index(T)), -inf))\n"
      "    return sum[S](a * x[T -> S]) + sum[S](b * m[T -> S])\n"));
  EXPECT_THAT(text, HasSubstr("cap = \"room(3)\""));
  EXPECT_THAT(text, HasSubstr("B, cap, D = 4]"));
}

TEST(Architectures, WindowsOfGathersAndReductions) {
  std::string shift = expectSteps(specWith("    return x + where(index(T) > 1, x[T = max(index(T) - 2, 0)], 0)\n"));
  EXPECT_THAT(shift, HasSubstr("cap"));
  EXPECT_THAT(expectSteps(specWith("    return max[S](where(index(T) - 3 < index(S) <= index(T), x[T -> S], -inf))\n")),
              HasSubstr("cap = \"room(3)\""));
  EXPECT_THAT(expectSteps(specWith("    return sum[S](where(index(T) - 3 < index(S) <= index(T), x[T -> S], 0))\n")),
              HasSubstr("cap = \"room(3)\""));
  // A mean divides by the length of all.
  EXPECT_THAT(expectSteps(specWith("    near = index(T) - 3 < index(S) <= index(T)\n"
                                   "    return sum[S](where(near, x[T -> S], 0)) / sum[S](int(near))\n")),
              HasSubstr("cap = \"room(3)\""));
}
