// Specs that are right: all examples with all configs, and small facts about what is allowed.
#include "Support.h"

#include "frontend/Embedded.h"

using namespace quern::frontend;
using namespace quern::frontend::testing;

namespace {

TEST(Elaborate, EveryExampleWithoutAConfig) {
  for (const EmbeddedSpec &spec : embeddedSpecs())
    EXPECT_EQ(check(std::string(spec.text)).text, "") << spec.name;
}

TEST(Elaborate, EveryFixtureWithBothConfigs) {
  for (const auto &[fixture, name] : fixtures())
    for (const char *config : {"config.json", "config.v4.json"})
      EXPECT_EQ(check(read(sourceDir() / "examples" / (name + ".quern")), read(dataDir() / fixture / config)).text, "")
          << fixture << " " << config;
}

TEST(Elaborate, ArchitecturesBeyondTheExamples) {
  size_t count = 0;
  for (const auto &entry : std::filesystem::directory_iterator(sourceDir() / "tests/frontend/specs")) {
    EXPECT_EQ(check(read(entry.path())).text, "") << entry.path();
    ++count;
  }
  EXPECT_GE(count, 4u);
  std::string deepseek = read(sourceDir() / "tests/frontend/specs/deepseek_v3.quern");
  EXPECT_EQ(check(deepseek, R"({"q_lora_rank": 20, "norm_topk_prob": false})").text, "");
  EXPECT_EQ(check(deepseek, R"({"n_group": 3})").codes, "Q040 Q022");
}

void right(const std::string &text) {
  EXPECT_EQ(check(text).text, "") << text;
}

TEST(Elaborate, GroupsSumsAndUnitsInAllPositions) {
  right(body("q, k, v = linear[D -> (H, K) + (H, K) + (H, K)](x) @ \"a\"\nx = x + (q * k * v)[(H, K) -> D]"));
  right(body("q, k, v = linear[D -> (H, K + K + K)](x) @ \"a\"\nx = x + (q * k * v)[(H, K) -> D]"));
  right(
      body("dim G = 2, R = 3\nq, k, v = linear[D -> (G, (R, K) + K + K)](x) @ \"a\"\nx = x + sum[G, R, K](q * k * v)"));
  right(body("dim A = 6\na, b = x[D -> (A, 1 + 1)]\nx = concat[(A, 1 + 1) -> D](b, a)"));
  right(body("dim A = 6\na, b = x[D -> (1 + 1, A)]\nx = concat[(1 + 1, A) -> D](b, a)"));
  right(body("dim P = 2\na, b, c, d, f, g = x[D -> (P + P, 1 + 1 + 1)]\nx = concat[(P + P, 1 + 1 + 1) -> D](a, b, c, "
             "d, f, g)"));
  right(body("y = linear[D -> 1](x) @ \"gate\"\nx = x * sigmoid(y)"));
  right(body("param p: [1, (H, K), 1] @ \"p\"\nx = x * p[(H, K) -> D]"));
  right(body("dim S = T\nz = x * sum[D](x)[T -> S]\ny = sum[S](z[T -> S, S -> T])\nx = x + y"));
}

TEST(Elaborate, RangesGathersAndShifts) {
  right(body("dim U = D - 1\ny = concat[1 + U -> D](sum[D](x), x[D: 1.. -> U])\nx = y"));
  right(body("x = x[T = max(index(T) - 1, 0)]"));
  right(body("x = x * x[T = T - 1] + x[D = 3]"));
  right(body("dim N = 5\nx = x + sum[N](x[D: 2..7 -> N])"));
  right(body("dim U = T - 1\nx = x + sum[U](x[T: 1..T -> U])"));
  right(body("v, i = top_k[D -> H](x)\nx = x + sum[H](v * e[D = i, V = 0])"));
}

TEST(Elaborate, LoopsCarryValues) {
  right(body("s = 0\nrepeat i in 3 { s = s + i }\nx = x * s"));
  right(body("s = 0\nrepeat i in 3 { s = s + sum[D](e[V = 0]) }\nx = x + s"));
  right(body("a, b = x, 2 * x\nrepeat i in 1..3 @ \"l.{i}\" {\n  dim N = 4\n  a, b = b, a\n  param p: [N] @ \"p\"\n  t "
             "= sum[N](p)\n  if i == 1 { a = a * t } else { b = b * t }\n}\nx = a + b"));
  right(body("repeat i in 0 { x = x * 2 }"));
  right(body("repeat i in 2 @ \"{i}\" { repeat j in 2 @ \"{j}\" { x = linear[D -> D](x) @ \"w\" } }"));
  right(body("kinds = \"+é-\"\nrepeat i in len(kinds) { if kinds[i] == \"é\" { x = x * 2 } }\n"
             "require kinds[2] == \"-\" and len(kinds) == 3, \"characters\""));
  right(body("names = [\"a\", \"b\"]\nrepeat i in len(names) @ (names[i]) { x = linear[D -> D](x) @ \"w\" }"));
}

TEST(Elaborate, NullGoesThrough) {
  right(body("a = null\nb = a.b.c[3] ?? 2\nx = x * b"));
  right(body("x = f(x)",
             "  block f(x: [..], sink: [..] = null) {\n    if sink == null { return x }\n    return x + sink\n  }\n"));
  right(body("x = f(x, sink: null)",
             "  block f(x: [..], sink: [..] = null) {\n    if sink == null { return x }\n    return x + sink\n  }\n"));
}

TEST(Elaborate, DefaultsUseFormalsAndEarlierParameters) {
  right(body("x = f[D](x)", "  block f[I](x: [.., I], scale = 1 / sqrt(I), twice = 2 * scale, at: int[..] = index(I)) "
                            "{ return x * twice + at }\n"));
}

TEST(Elaborate, BlocksOfTheFileShadowTheLibraryForTheFileAlone) {
  std::string text = body("x = silu(x) + activation(x, \"silu\")");
  right("quern 1\nblock silu(x: [..], more = 3) { return x * more }\n" + text.substr(8));
}

TEST(Elaborate, NamesOfBlocksAreTheirOwn) {
  // T of the block is D of the caller; the caller's T passes through.
  right("quern 1\nblock f[T](x: [.., T]) { return x - mean[T](x) }\n" + body("x = f[D](x)").substr(8));
  // a block of the model sees the model's T beside its own formal
  right(body("dim S = T\ny = f[S](x[T -> S])\nx = x + sum[S, T](y)",
             "  block f[A](x: [.., A, D]) { return where(index(A) <= index(T), x, 0) }\n"));
}

TEST(Elaborate, ExpertsStackParameters) {
  right(body("dim E = 4, C = 2\nw, chosen = top_k[E -> C](softmax[E](linear[D -> E](x) @ \"gate\"))\ny = expert(x) @ "
             "\"experts.{E}\"\nx = x + sum[C](w * y[E = chosen])",
             "  block expert(x: [.., D]) {\n    y = linear[D -> D](x) @ \"in\"\n    return linear[D -> D](relu(y)) @ "
             "\"out\"\n  }\n"));
  right(body("x = n[H](x[D -> (H, K)])[(H, K) -> D]",
             "  block n[A](x: [.., A, K]) {\n    param w: [A, K] @ \"norms.{A}.w\"\n    return x * w\n  }\n"));
}

TEST(Elaborate, SizesArePolynomials) {
  right(body("dim S = T, N = S + 1\nif S == T { x = x * 2 }\ny = concat[S + 1 -> N](x[T -> S], sum[T](x))\nx = x + "
             "sum[N](y)"));
  right(body("dim N = 2 * T\nn = concat[T + T -> N](x, x)\na, b = n[N -> T + T]\nx = a + b"));
  right(body("x = where(T > 3, x, 2 * x) * (T // 2) / (T * T)"));
}

TEST(Elaborate, FunctionsCallEachOther) {
  right(head + "  param e: [V, D] @ \"e\"\n  forward(tokens: int[B, T], mask: bool[B, T] = true) -> [B, T, V] {\n    "
               "dim S = T\n    return sum[D](where(mask, e[V = tokens], 0) * e) + sum[S](index(S))\n  }\n"
               "  loss(tokens: int[B, T], labels: int[B, T]) -> [] {\n    dim S = T\n    return "
               "cross_entropy[V](forward(tokens), labels) + 0 * sum[S](index(S))\n  }\n}\n");
}

} // namespace
