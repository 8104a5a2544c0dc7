// Small specs, one question each: is the function causal, with which message not; and do steps equal the whole.
#include "SmallSpecs.h"
#include "passes/Passes.h"
#include "passes/time/TimeAnalysis.h"

using namespace mlir;
using namespace quern::passes::test;
using testing::HasSubstr;

TEST(Causality, Masks) {
  for (const char *mask :
       {"index(S) <= index(T)", "index(S) < index(T) + 1", "not (index(S) > index(T))",
        "index(T) - 3 < index(S) <= index(T)", "2 * index(S) <= index(T)",
        "index(S) // 4 == index(T) // 4 and index(S) <= index(T)",
        "index(S) <= index(T) and (index(S) % 3 == 2 or index(T) - index(S) < 2)", "index(S) == index(T)",
        "index(S) - index(T) <= 0", "index(S) + 2 <= index(T)", "where(index(S) > index(T), false, true)",
        "max(index(S), 3) <= index(T)", "index(S) <= index(T) // 2", "index(S) < 1"})
    expectSteps(attention(mask));
}

TEST(Causality, MasksThatLookAhead) {
  EXPECT_THAT(
      refusalOf(attention("index(S) <= index(T) + 1")),
      HasSubstr(
          "softmax[S] is not causal: its mask only implies index(S) <= index(T) + 1, and needs index(S) <= index(T)"));
  for (const char *mask : {"index(S) >= index(T)", "index(S) <= 2 * index(T)", "index(S) <= index(T) or index(S) == 5",
                           "index(S) // 4 == index(T) // 4", "index(S) != index(T)"})
    EXPECT_THAT(refusalOf(attention(mask)), HasSubstr("softmax[S] is not causal")) << mask;
  EXPECT_EQ(refusalOf(attention("index(S) >= index(T)")).find("test.quern:10:"), 0u);
}

TEST(Causality, AttentionAsOneOperation) { // raised before it is asked for: the same answers
  for (auto [mask, causal] : {std::pair("index(S) <= index(T)", true),
                              {"index(T) - 3 < index(S) <= index(T)", true},
                              {"index(S) <= index(T) + 1", false},
                              {"index(S) != index(T)", false}}) {
    auto program = Program::fromSpec(attention(mask));
    std::vector<std::unique_ptr<Pass>> passes;
    passes.push_back(quern::passes::createRaiseAttentionPass());
    program->run(std::move(passes));
    EXPECT_THAT(program->print(), HasSubstr("quern.attention")) << mask;
    quern::passes::TimeAnalysis analysis(program->function("forward"));
    EXPECT_EQ(analysis.refusals().empty(), causal) << mask << "\n" << analysis.describeRefusals();
    if (!causal) {
      EXPECT_THAT(analysis.describeRefusals(), HasSubstr("softmax[S] is not causal")) << mask;
    }
  }
}

TEST(Causality, OtherReductions) {
  expectSteps(
      specWith("    m = index(S) <= index(T)\n    return max[S](where(m, x[T -> S], -inf)) + min[S](where(m, x[T "
               "-> S], inf)) + sum[S](where(m, x[T -> S], 0))\n"));
  expectSteps(
      specWith("    m = index(S) <= index(T)\n    seen = any[S](m and (x > 0)[T -> S]) and not all[S](not m or (x "
               "> 0.2)[T -> S])\n    return where(seen, x, -x)\n"));
  EXPECT_THAT(
      refusalOf(specWith("    return x - sum[S](where(index(S) <= index(T), x[T -> S], 0)) + max[S](where(index(S) "
                         "<= index(T), x[T -> S], 0))\n")),
      HasSubstr("max[S] is not causal: it sees positions of S after T: nothing masks it by index(S) <= "
                "index(T); its masked positions "
                "count as 0, where max needs -inf"));
  EXPECT_THAT(refusalOf(specWith("    return x - mean[T](x)\n")), HasSubstr("mean[T] combines positions of T itself"));
  EXPECT_THAT(refusalOf(specWith("    return x + sum[S](x[T -> S])\n")),
              HasSubstr("sum[S] is not causal: it sees all positions of S, and the result no longer has T"));
  EXPECT_THAT(refusalOf(specWith("    return x * sum[S](1 + 0 * index(S))\n")),
              HasSubstr("sum[S] counts all positions of S; write T, the length, instead"));
  EXPECT_THAT(
      refusalOf(specWith("    dim C = 2\n    v, _ = top_k[S -> C](where(index(S) <= index(T), sum[D](x * x[T -> "
                         "S]), -inf))\n    return x + sum[C](v)\n")),
      HasSubstr("top_k[S] along time is not supported in steps"));
}

TEST(Causality, Gathers) {
  expectSteps(specWith("    return x + x[T = max(index(T) - 1, 0)] * 2 + x[T = index(T) // 2]\n"));
  EXPECT_THAT(refusalOf(specWith("    return x + x[T = min(index(T) + 1, T - 1)]\n")), HasSubstr("gather along T"));
  EXPECT_THAT(refusalOf(specWith("    return x + x[T = T - 1]\n")), HasSubstr("gather along T"));
}

TEST(Causality, RunningSums) {
  std::string text = expectSteps(specWith("    return cumsum[T](x) / (index(T) + 1) + cumsum[T](1 + 0 * index(T))\n"));
  EXPECT_THAT(text, HasSubstr("quern.state @forward.state0 of \"forward\" : !quern.tensor<real[B, D = 4]>"));
  expectSteps(specWith("    y = cumsum[S](x[T -> S])\n    return sum[S](where(index(S) == index(T), y, 0))\n"));
  // A count of positions that goes back to T has no text in it.
  expectSteps(specWith("    n = cumsum[S](index(S))[S -> T]\n    return x * n\n"));
}

TEST(Causality, RunningSumsOfPairs) {
  EXPECT_THAT(
      refusalOf(specWith("    y = cumsum[T](sum[D](x * x[T -> S]))\n    return sum[S](where(index(S) <= index(T), "
                         "y * x[T -> S], 0))\n")),
      HasSubstr("cumsum[T] of a value that also has S would have to keep a sum for every position"));
  // Along the twin it is a sum over what is remembered.
  expectSteps(specWith(
      "    y = cumsum[S](sum[D](x * x[T -> S]))\n    return sum[S](where(index(S) <= index(T), y * x[T -> S], 0))\n"));
}

TEST(Causality, AttentionSinks) {
  std::string sink =
      "    param sink: [] @ \"sink\"\n    score = where(index(S) <= index(T), sum[D](x * x[T -> S]), -inf)\n";
  for (const char *order : {"score, s", "s, score"}) {
    bool first = order[0] == 's' && order[1] == ',';
    std::string parts = first ? "1 + S" : "S + 1", results = first ? "_, w" : "w, _";
    std::string body = "    s = x[D = 0]\n    score = where(index(S) <= index(T), sum[D](x * x[T -> S]), -inf)\n    "
                       "dim N = S + 1\n    " +
                       results + " = softmax[N](concat[" + parts + " -> N](" + order + "))[N -> " + parts +
                       "]\n    return sum[S](w * x[T -> S])\n";
    expectSteps(specWith(body));
  }
  // A part is named S, and so is a dimension of the other: they are not the same positions.
  EXPECT_THAT(refusalOf(specWith("    dim N = S + 1\n    all = concat[S + 1 -> N](sum[D](x * x[T -> S]), x[D = 0])\n"
                                 "    w = softmax[N](where(index(S) <= index(T), all, -inf))\n    return x + "
                                 "sum[S](where(index(S) <= index(T), max[N](w), 0))\n")),
              HasSubstr("softmax[N] is not causal"));
  EXPECT_THAT(
      refusalOf(specWith("    s = x[D = 0]\n    dim N = S + 1\n    w, _ = softmax[N](concat[S + 1 -> N](sum[D](x * "
                         "x[T -> S]), s))[N -> S + 1]\n"
                         "    return sum[S](w * x[T -> S])\n")),
      HasSubstr("softmax[N] is not causal"));
}

TEST(Causality, ShapesOfTime) {
  EXPECT_THAT(
      refusalOf(specWith("    dim U = T + 1\n    param first: [D] @ \"first\"\n    y = concat[1 + T -> U](first, "
                         "x)\n    return y[U: 0..T -> T]\n")),
      HasSubstr("of time cannot be done step by step"));
}

TEST(Causality, EveryReasonIsTold) {
  std::string twice = "    dim U = 2 * T, Q = T\n    y = concat[S + Q -> U](x[T -> S], x[T -> Q])\n";
  std::pair<std::string, const char *> reasons[] = {
      {"    dim U = T, Q = T\n    y = sum[D](x * x[T -> S])[T -> U]\n    return x + sum[S](sum[U](y))\n",
       "a value with two dimensions of time is renamed along time; it would have to be remembered for every pair of "
       "positions"},
      {"    y = max[S](x[T -> S])\n    return 0 * x + y\n",
       "max[S] is not causal: it sees all positions of S, and the result no longer has T"},
      {twice + "    return x + sum[U](y * index(U))\n",
       "sum[U] of a dimension made from T cannot be done step by step"},
      {twice + "    return x + sum[U](max(y, index(U)))\n",
       "a dimension of size 2 * T made from T cannot grow step by step"},
      {twice + "    return x + argmax[U](y)\n", "argmax[U] of a dimension made from T cannot be done step by step"},
      {twice + "    dim C = 2\n    v, _ = top_k[U -> C](y)\n    return x + sum[C](v)\n",
       "top_k[U] along time is not supported in steps"},
      {twice + "    z = y[U: 1..T + 1 -> S]\n    return x + sum[S](where(index(S) <= index(T), z, 0))\n",
       "'cut' of a dimension of size 2 * T made from T cannot be done step by step"},
      {twice + "    return y[U = index(T)]\n", "gather along U, made from T, cannot be done step by step"},
      {twice + "    return x + mean[U](y)\n", "'mean' of a dimension made from T cannot be done step by step"},
      {twice + "    return x + sum[U](y)\n", "sum[U] is not causal: it sees positions of S that nothing masks"},
      {twice + "    return x + sum[U](softmax[U](y))\n", "softmax[U] is not causal: it sees positions of S after T"},
      {twice + "    z = cumsum[U](y)\n    return x + z[U = 0]\n",
       "cumsum[U] of a dimension made from T cannot be done step by step"},
      {"    return x[T = min(index(T) + 1, T - 1)]\n",
       "gather along T is not causal: its positions are only known to be <= index(T) + 1"},
      {"    return x[T = tokens]\n", "gather along T is not causal: its positions are not known to be <= index(T)"},
      {"    return x + x[T = T - 1]\n", "it gathers one position of the whole text, and the result no longer has T"},
      {"    dim A = 1\n    y = x[T -> (T, A)]\n    return y[(T, A) -> T]\n",
       "of the dimension T of time cannot be done step by step"},
  };
  for (auto &[body, reason] : reasons)
    EXPECT_THAT(refusalOf(specWith(body)), HasSubstr(reason)) << body;
  // What is wrong in two lines is reported twice.
  std::string both = refusalOf(specWith("    a = max[S](x[T -> S])\n    b = mean[T](x)\n    return x + a + b\n"));
  EXPECT_EQ(std::count(both.begin(), both.end(), '\n'), 1) << both;
}

TEST(Causality, TimeAsANumber) {
  auto lowered = Program::fromSpec(specWith("    y = x / T\n    w = where(index(S) <= index(T), sum[D](x * y[T -> S]), "
                                            "0)\n    return sum[S](w * y[T -> S])\n"));
  lowered->lower();
  EXPECT_TRUE(lowered->function("forward")->hasAttr("quern.recompute"));
  // Where nothing remembered knows T, it is the whole length.
  auto last = Program::fromSpec(specWith(
      "    w = where(index(S) <= index(T), sum[D](x * x[T -> S]), 0)\n    return sum[S](w * x[T -> S]) / T\n"));
  last->lower();
  EXPECT_FALSE(last->function("forward")->hasAttr("quern.recompute"));
  EXPECT_THAT(last->print(), HasSubstr("quern.size \"T + past\""));
  // A comparison is one bit: a function computes it.
  auto flips =
      Program::fromSpec(specWith("    y = where(T > 5, x, 2 * x)\n    w = where(index(S) <= index(T), sum[D](x * "
                                 "y[T -> S]), 0)\n    return sum[S](w * y[T -> S])\n"));
  flips->lower();
  EXPECT_FALSE(flips->function("forward")->hasAttr("quern.recompute"));
  func::FuncOp epoch = flips->function("forward.epoch");
  ASSERT_TRUE(epoch);
  for (auto [past, answer] : {std::pair(3, 0.), std::pair(4, 1.)}) {
    quern::ir::Interpreter interpreter(flips->module());
    interpreter.bind("T", 2);
    interpreter.bind("past", past);
    auto results = interpreter.run(epoch, {});
    ASSERT_TRUE(succeeded(results));
    EXPECT_EQ(results->front().number(0), past + 2 > 5) << answer;
  }
}

TEST(Causality, Limits) {
  auto limitsOf = [](const std::string &text) {
    auto program = Program::fromSpec(text);
    program->lower();
    std::vector<int64_t> sizes;
    if (auto limits = program->function("forward")->getAttrOfType<ArrayAttr>("quern.limits"))
      for (auto limit : limits.getAsRange<DictionaryAttr>())
        sizes.push_back(cast<IntegerAttr>(limit.get("size")).getInt());
    return sizes;
  };
  std::string table = "    param places: [P, D] @ \"places\"\n";
  EXPECT_THAT(limitsOf(specWith(table + "    return x + places[P = index(T) + 2]\n")), testing::ElementsAre(18));
  EXPECT_THAT(limitsOf(specWith(table + "    return x + places[P = 2 * index(T)]\n")), testing::ElementsAre(10));
  EXPECT_THAT(limitsOf(specWith(table + "    return x + places[P = min(index(T), P - 1)]\n")), testing::ElementsAre());
  EXPECT_THAT(limitsOf(specWith(table + "    return x + places[P: 0..T -> T]\n")), testing::ElementsAre(20));
  expectSteps(specWith(table + "    return x + places[P: 0..T -> T] * places[P = index(T) + 2]\n"));
}

TEST(Causality, Loops) {
  // What a loop carries comes to depend on time by the fixpoint; a mask may be carried, too.
  expectSteps(
      specWith("    y = x\n    repeat i in layers {\n      w = where(index(S) <= index(T), sum[D](x * y[T -> S]), "
               "0)\n      y = y + sum[S](w * y[T -> S])\n    }\n    return y\n"));
  EXPECT_THAT(
      refusalOf(specWith("    y = x\n    m = index(S) <= index(T)\n    repeat i in layers {\n      w = where(m, "
                         "sum[D](x * y[T -> S]), 0)\n      y = y + sum[S](w * y[T -> S])\n"
                         "      m = index(S) <= index(T) + i + 1\n    }\n    return y\n")),
      HasSubstr("sum[S] is not causal"));
  // Positions that a loop carries cannot be recomputed: they are remembered like text.
  expectSteps(
      specWith("    y = x\n    p = 0.1 * index(T)\n    repeat i in layers {\n      w = where(index(S) <= index(T), "
               "sum[D](x * y[T -> S]) + p[T -> S], 0)\n      y = y + sum[S](w * y[T -> S])\n"
               "      p = p * 2\n    }\n    return y\n"));
}

TEST(Causality, InputsWithDefaults) {
  std::string text = "quern 1\nmodel m {\n  dim V = 13, D = 4\n  forward(tokens: int[B, T], mask: bool[B, T] = true, "
                     "positions: int[B, T] = index(T)) -> [B, T, D] {\n    dim S = T\n"
                     "    param words: [V, D] @ \"words\"\n    x = words[V = tokens] + 0.1 * positions\n"
                     "    w = softmax[S](where(index(S) <= index(T) and mask[T -> S], sum[D](x * x[T -> S]), -inf))\n"
                     "    return sum[S](w * x[T -> S])\n  }\n}\n";
  std::string lowered = expectSteps(text);
  EXPECT_THAT(lowered,
              HasSubstr("func.func @forward.last(%arg0: !quern.tensor<int[B, T]> {quern.name = \"tokens\"}) ->"));
  // `true` leaves no trace: the mask is the causal one alone.
  std::string last = lowered.substr(lowered.find("@forward.last"));
  EXPECT_THAT(last, testing::Not(HasSubstr("quern.and")));
  // A mask by given positions is not provably causal, by the default ones it is: generation works, `forward` stays
  // whole.
  std::string given = "quern 1\nmodel m {\n  dim V = 13, D = 4\n  forward(tokens: int[B, T], positions: int[B, T] = "
                      "index(T)) -> [B, T, D] {\n    dim S = T\n"
                      "    param words: [V, D] @ \"words\"\n    x = words[V = tokens]\n"
                      "    w = softmax[S](where(positions[T -> S] <= positions, sum[D](x * x[T -> S]), -inf))\n"
                      "    return sum[S](w * x[T -> S])\n  }\n}\n";
  auto program = Program::fromSpec(given);
  program->lower();
  EXPECT_FALSE(program->function("forward")->hasAttr("quern.refusal"));
  EXPECT_TRUE(program->function("forward.last"));
  EXPECT_EQ(program->function("forward").getNumArguments(), 2u);
}

TEST(Causality, EncodersLookAhead) {
  std::string text = "quern 1\nmodel m {\n  dim V = 13, D = 4\n"
                     "  encode(tokens: int[B, S]) -> [B, S, D] {\n    dim Q = S\n    param words: [V, D] @ \"words\"\n "
                     "   x = words[V = tokens]\n"
                     "    return sum[S](softmax[S](sum[D](x * x[S -> Q])) * x)[Q -> S]\n  }\n"
                     "  decode(target: int[B, T], memory: [B, S, D]) -> [B, T, D] {\n    param more: [V, D] @ "
                     "\"more\"\n    x = more[V = target]\n"
                     "    k = tanh(memory)\n    return sum[S](softmax[S](sum[D](x * k)) * k)\n  }\n}\n";
  auto program = Program::fromSpec(text);
  quern::passes::TimeAnalysis analysis(program->function("encode"));
  EXPECT_THAT(analysis.describeRefusals(), HasSubstr("softmax[S] combines positions of S itself"));
  program->lower();
  EXPECT_FALSE(program->function("decode")->hasAttr("quern.refusal"));
  EXPECT_TRUE(program->function("encode"));
  EXPECT_THAT(program->print(), HasSubstr("quern.tanh %arg1 {quern.once}")); // made once a request
}

TEST(Memory, HoldsThePartsOfKeysBeforeTheyAreJoined) {
  // DeepSeek's keys: a part of each head, and one rotary part that all heads share.
  std::string text = expectSteps(specWith(
      "    dim H = 3, N = 4, R = 2, K = N + R\n    dim E = 6\n    q = linear[D -> (H, K)](x) @ \"q\"\n"
      "    near, rotary = linear[D -> H](x)@ \"near\", linear[D -> R](x) @ \"rotary\"\n"
      "    k = concat[N + R -> K](near * index(N), rotary * cos(index(T)))\n    v = linear[D -> (H, E)](x) @ \"v\"\n"
      "    w = softmax[S](where(index(S) <= index(T), sum[K](q * k[T -> S]), -inf))\n"
      "    return linear[(H, E) -> D](sum[S](w * v[T -> S])) @ \"o\"\n"));
  EXPECT_THAT(text, HasSubstr(": !quern.tensor<real[B, cap, H = 3]>\n"));
  EXPECT_THAT(text, HasSubstr(": !quern.tensor<real[B, cap, R = 2]>\n"));
  // Values are a projection of x, which is smaller, and which the weighted sum can meet before it.
  EXPECT_THAT(text, HasSubstr(": !quern.tensor<real[B, cap, D = 4]>\n"));
}

TEST(Memory, IsSharedByUses) {
  // One value under two twins, and twice under one: a single cache.
  std::string text =
      expectSteps(specWith("    dim U = T\n    m = where(index(S) <= index(T), sum[D](x * x[T -> S]), 0)\n  "
                           "  n = where(index(U) < index(T), sum[D](x * x[T -> U]), 0)\n"
                           "    return sum[S](m * x[T -> S]) + sum[U](n * x[T -> U])\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr("@forward.state1")));
}

TEST(Memory, RenamesBesidesTime) {
  expectSteps(
      specWith("    dim E = D\n    y = x[T -> S, D -> E]\n    w = where(index(S) <= index(T), sum[E](x[D -> E] * "
               "y), 0)\n    return sum[S](w * y)[E -> D]\n"));
  // Masks made over T and S, swapped and renamed back.
  expectSteps(specWith("    m = index(S) <= index(T)\n    n = m[T -> S, S -> T]\n    w = where(not n or index(S) == "
                       "index(T), sum[D](x * x[T -> S]), 0)\n    return sum[S](w * x[T -> S])\n"));
  // A sum over S inside of what is renamed to S.
  expectSteps(
      specWith("    dim U = T\n    c = sum[S](where(index(S) < index(T), index(S), 0))\n    w = where(index(U) <= "
               "index(T), sum[D](x * x[T -> U]) + c[T -> U], 0)\n    return sum[U](w * x[T -> U])\n"));
  expectSteps(specWith("    c = sum[S](where(index(S) < index(T), index(S), 0))\n    w = where(index(S) <= index(T), "
                       "sum[D](x * x[T -> S]) + c[T -> S], 0)\n    return sum[S](w * x[T -> S])\n"));
}

namespace {

/// Random masks over T and S; the same seed, the same masks.
class Masks {
public:
  std::string mask(int depth = 2) {
    if (depth == 0 || pick(4) == 0)
      return number() + " " + one({"<", "<=", ">", ">=", "==", "!="}) + " " + number();
    switch (pick(4)) {
    case 0:
      return "(" + mask(depth - 1) + ") or (" + mask(depth - 1) + ")";
    case 1:
      return "not (" + mask(depth - 1) + ")";
    default:
      return "(" + mask(depth - 1) + ") and (" + mask(depth - 1) + ")";
    }
  }

private:
  uint64_t state = 88172645463325252u;
  size_t pick(size_t n) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (state >> 20) % n;
  }
  std::string one(std::vector<std::string> options) { return options[pick(options.size())]; }
  std::string number() {
    std::string at = one({"index(S)", "index(T)"});
    switch (pick(7)) {
    case 0:
      return at + " - " + std::to_string(pick(4));
    case 1:
      return at + " + " + std::to_string(pick(3));
    case 2:
      return at + one({" // 2", " // 3", " % 3", " * 2"});
    case 3:
      return one({"max", "min"}) + "(" + at + ", " + one({"index(S)", "index(T)", "2"}) + ")";
    case 4:
      return std::to_string(pick(5));
    default:
      return at;
    }
  }
};

} // namespace

TEST(Causality, NoRandomMaskIsAcceptedWrongly) {
  Masks masks;
  int accepted = 0;
  for (int i = 0; i < 300; ++i) {
    std::string mask = "(" + masks.mask() + ")";
    // Half of them get what most masks have.
    if (i % 2)
      mask = "index(S) <= index(T) and " + mask;
    std::string text = attention(mask);
    if (!refusalOf(text).empty())
      continue;
    ++accepted;
    expectSteps(text);
    if (HasFailure())
      FAIL() << mask;
  }
  EXPECT_GT(accepted, 150);
}
