// Wrong specs and what is said about them: the code of every rule, and the words where they matter.
#include "Support.h"

#include "frontend/check/Elaborator.h"

#include <nlohmann/json.hpp>

using namespace quern::frontend;
using namespace quern::frontend::testing;

namespace {

std::string times(const std::string &text, int n) {
  std::string out;
  for (int i = 0; i < n; ++i)
    out += text;
  return out;
}

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  return text.replace(text.find(from), from.size(), to);
}

struct WrongSpec {
  std::string name, text, codes;
  std::optional<std::string> config = {};
};

const std::vector<WrongSpec> wrongSpecs = {
    {"nul byte", std::string("quern 1\nmodel m {\0}", 19), "Q001"},
    {"string not closed", body(R"(y = linear[D -> D](x) @ "a)"), "Q001"},
    {"no version", "model m {}", "Q002"},
    {"newer version", R"(quern 2
model m {})",
     "Q002"},
    {"leading operator", body(R"(y = x
  + x)"),
     "Q002"},
    {"ignored in a branch", body(R"(if true { ignore "x" })"), "Q002"},
    {"never closed", head + forwardHead, "Q002"},
    {"lower-case dimension", body("y = sum[d](x)"), "Q012"},
    {"nesting", body("y = " + std::string(300, '(') + "x" + std::string(300, ')')), "Q002"},
    {"nested blocks", body("if true { " + times("if true { ", 299) + std::string(300, '}')), "Q002"},
    {"no model", R"(quern 1
)",
     "Q003"},
    {"unknown name", body("y = xx + widht"), "Q010"},
    {"unknown block", body(R"(y = liner[D -> D](x) @ "a")"), "Q010"},
    {"undeclared rename", body("y = x[T -> S]"), "Q010"},
    {"dim twice", body("dim K = 4"), "Q011"},
    {"sum on the left", body("y = x[H + K -> D]"), "Q012"},
    {"primitive redefined", "quern 1\nblock sum(x) { return x }\n" + body("y = x").substr(8), "Q013"},
    {"assignment to config", body("heads = 4"), "Q014"},
    {"absent, but random", body(R"(param b: [D] @ "b" ~ normal(0.1) if absent
    y = x + b)"),
     "Q025"},
    {"zeros if what", body(R"(param b: [D] @ "b" ~ zeros if missing
    y = x + b)"),
     "Q002"},
    {"argument unknown", body(R"(y = linear[D -> D](x, biass: true) @ "a")"), "Q015"},
    {"argument missing", body(R"(y = linear[D -> D]() @ "a")"), "Q015"},
    {"no return", body("y = f(x)", R"(  block f(x: [..]) { y = x }
)"),
     "Q016"},
    {"too few names", body(R"(q, k = linear[D -> (H, K) + (H, K) + (H, K)](x) @ "a")"), "Q017"},
    {"field of a number", body("y = heads.size"), "Q018"},
    {"range without a name", body("y = x[D: 0..4]"), "Q019"},
    {"dims do not match", body(R"(y = linear[D, D](x) @ "a")"), "Q019"},
    {"size conflict", body("y = x[D -> K]"), "Q020"},
    {"split does not fit", body(R"(dim N = 5
y = x[D -> (H, N)])"),
     "Q020"},
    {"rename of T to a smaller", body("y = x[T -> D]"), "Q020"},
    {"dimension missing", body(R"(y = linear[D -> H](x) @ "a"
z = linear[D -> H](y) @ "b")"),
     "Q021"},
    {"forgot T -> S", body(R"(dim S = T
q = x[D -> (H, K)]
a = attention[S, K](q, q, q))"),
     "Q021"},
    {"reduce a missing dimension", body("y = sum[H](x)"), "Q021"},
    {"wrong result", body(R"(x = x[D -> (H, K)]
x = sum[K](x)[H -> H])"),
     "Q021"},
    {"not whole", body("dim N = D / 5"), "Q022"},
    {"zero", body("dim N = heads - 3"), "Q022"},
    {"parameter of a run-time size", body(R"(param p: [T, D] @ "p")"), "Q023"},
    {"same parameter twice", body(R"(y = linear[D -> D](x)
z = linear[D -> D](x))"),
     "Q024"},
    {"sum of booleans", body("y = sum[T](index(T) < 3)"), "Q025"},
    {"gather by a real", body("y = e[V = x]"), "Q025"},
    {"name twice", body(R"(y = x * e
z = linear[D -> V](y) @ "a")"),
     "Q026"},
    {"division by zero", body(R"(y = x / (heads - heads)
dim N = 4 / (heads - 3))"),
     "Q027"},
    {"gather outside", body("y = e[V = 8]"), "Q028"},
    {"leaking dimension", body("y = f[D](x)", R"(  block f[I](x: [.., I]) { dim A = I / 2
 a, b = x[I -> A + A]
 return a }
)"),
     "Q029"},
    {"tensor condition", body("if x > 0 { x = x }"), "Q030"},
    {"run-time condition", body("if T > 3 { x = x }"), "Q030"},
    {"repeat over a tensor", body("repeat i in T { x = x }"), "Q031"},
    {"return in repeat", body("repeat i in 2 { return x }"), "Q032"},
    {"type changes in a loop", body(R"(repeat i in 2 @ "{i}" {
 x = linear[D -> (H, K)](x) @ "a"
})"),
     "Q033"},
    {"recursion", body("y = f(x)", R"(  block f(x: [..]) { return g(x) }
  block g(x: [..]) { return f(x) }
)"),
     "Q034"},
    {"requirement", body("require heads == 4"), "Q040"},
    {"config fixed", replaced(body("y = x"), "heads = 3", "heads == 3"), "Q040", R"({"heads": 4})"},
    {"config kind", body("y = x"), "Q041", R"({"width": "wide"})"},
    {"value never used", body(R"(h = linear[D -> D](x) @ "a")"), "Q035"},
    {"value never used in a loop", body(R"(repeat i in 2 @ "{i}" {
 h = linear[D -> D](x) @ "a"
 h = x + h
})"),
     "Q035"},
    {"over the batch", body("x = x - mean[B](x)"), "Q036"},
    {"batch through a block", body(R"(q = x[D -> (H, K)]
a = attention[K, B](q, q, q))"),
     "Q036"},
    {"tensor for a number", body(R"(x = layer_norm[D](x, x) @ "n")"), "Q025"},
    {"tensor against text", body(R"(x = where(x == "a", x, 0))"), "Q025"},
    {"sum without a dimension", body("x = x * sum(x)"), "Q019"},
    {"two mistakes", body(R"(y = sum[H](x)
z = y + x
w = nothing)"),
     "Q021 Q010"},
    // beyond the reference's own list
    {"bad UTF-8", "quern 1\n# \xff\nmodel m { }", "Q001"},
    {"a character of no use", body("y = x $ 2"), "Q001"},
    {"integer too long", body("y = x * 99999999999999999999"), "Q001"},
    {"number glued to a word", body("y = 12abc"), "Q001"},
    {"too many operators", body("y = x" + times(" + x", 5000)), "Q002"},
    {"deep unary chain", body("y = " + times("-", 400) + "x"), "Q002"},
    {"deep power chain", body("y = x" + times(" ^ x", 400)), "Q002"},
    {"else if without end", body("if false { x = x }" + times(" else if false { x = x }", 300)), "Q002"},
    {"stray brace", body("y = x") + "}\n", "Q002"},
    {"a path on a value", body(R"(y = x @ "a")"), "Q002"},
    {"a primitive with a path", body(R"(x = exp(x) @ "a")"), "Q019"},
    {"a dimension as a value's name", body("Y = x"), "Q002"},
    {"no function", "quern 1\nmodel m { config { a = 1 } }\n", "Q003"},
    {"misspelled field", body("x = x * width.foo.bar"), "Q018"},
    {"T of another function",
     head + "  encode(tokens: int[B, S]) -> [B, S] { return real(tokens) }\n" +
         "  decode(target: int[B, T]) -> [B, T] { return real(target) + index(S) }\n}\n",
     "Q010"},
    {"dimension of a formal twice", body("y = f(x)", "  block f[A, A](x: [..]) { return x }\n"), "Q011 Q019"},
    {"group where one is needed", body("y = sum[(H, K)](x)"), "Q012"},
    {"unit as input", body(R"(y = linear[1 -> D](x) @ "a")"), "Q012"},
    {"function called as a primitive", head + "  sum(tokens: int[B, T]) -> [B, T] { return tokens }\n}\n", "Q013"},
    {"loop index taken", body("i = 2\nrepeat i in 2 { x = x * i }"), "Q014"},
    {"block twice", body("x = f(f(x))", "  block f(x: [..]) { return x }\n  block f(x: [..]) { return x }\n"), "Q014"},
    {"argument twice", body(R"(y = linear[D -> D](x, x: x) @ "a")"), "Q015"},
    {"too many arguments", body(R"(y = linear[D -> D](x, true, 1, 2, 3) @ "a")"), "Q015"},
    {"named argument of a primitive", body("x = exp(value: x)"), "Q015"},
    {"initial values unknown", body(R"(param p: [D] @ "p" ~ gaussian(1))"), "Q010"},
    {"several results, another number",
     head + "  forward(tokens: int[B, T]) -> (a: int[B, T], b: int[B, T]) { return tokens }\n}\n", "Q017"},
    {"a result twice",
     head + "  forward(tokens: int[B, T]) -> (a: int[B, T], a: int[B, T]) { return tokens, tokens }\n}\n", "Q014"},
    {"a result with a parameter's name",
     head + "  forward(tokens: int[B, T]) -> (tokens: int[B, T]) { return tokens }\n}\n", "Q014"},
    {"a result of other dimensions",
     head + "  forward(tokens: int[B, T]) -> (a: int[B, T], b: int[B]) { return tokens, tokens }\n}\n", "Q021"},
    {"a result of another kind",
     head + "  forward(tokens: int[B, T]) -> (a: int[B, T], b: bool[B, T]) { return tokens, tokens }\n}\n", "Q025"},
    {"a result that is no tensor",
     head + "  forward(tokens: int[B, T]) -> (a: int[B, T], b: []) { return tokens, \"b\" }\n}\n", "Q016"},
    {"a result without a name",
     head + "  forward(tokens: int[B, T]) -> (a: int[B, T], int[B, T]) { return tokens, tokens }\n}\n", "Q002"},
    {"no result", head + "  forward(tokens: int[B, T]) -> () { return tokens }\n}\n", "Q002"},
    {"several losses", head + "  loss(tokens: int[B, T]) -> (a: [], b: []) { return 1, 2 }\n}\n", "Q016"},
    {"several values returned", head + "  forward(tokens: int[B, T]) -> [B, T] { return tokens, tokens }\n}\n", "Q016"},
    {"two values in one place", body("x = x + top_k[D -> H](x)"), "Q017"},
    {"brackets on a number", body("y = heads[D -> K]"), "Q018"},
    {"top_k without arrow", body("a, b = top_k[D](x)"), "Q019"},
    {"concat without whole", body("a = concat[D + D](x, x)"), "Q019"},
    {"values of another length", body("x = x + sum[H](values[H]([1, 2]))"), "Q020"},
    {"top_k of more than there are", body("dim N = 13\na, b = top_k[D -> N](x)"), "Q020"},
    {"concat of the wrong size", body("a = concat[D + D -> H](x, x)"), "Q020"},
    {"function called with another shape",
     head + "  forward(tokens: int[B, T]) -> [B, T, D] {\n    param e: [V, D] @ \"e\"\n    return e[V = tokens]\n  }\n"
            "  loss(tokens: int[B, T]) -> [] { return sum[..](forward(tokens[T = 0])) }\n}\n",
     "Q021"},
    {"size beyond 64 bits", body("dim N = 4611686018427387904 * T * 4"), "Q022"},
    {"experts without a size", body(R"(y = linear[D -> D](x) @ "e.{T}")"), "Q023"},
    {"parameter twice through experts",
     body("dim E = 2\ny = linear[D -> D](x) @ \"e.{E}\"\nz = linear[D -> D](x) @ \"e.1\""), "Q024"},
    {"null in arithmetic", body("x = x + null"), "Q025"},
    {"mixed concat", body("dim N = 2 * D\ny = concat[D + D -> N](x, x > 0)"), "Q025"},
    {"a dimension given twice", body("y = f[D, D](x)", "  block f[A, C](x: [..]) { return x }\n"), "Q026"},
    {"two dimensions into one", body("dim S = T\ny = x[T -> S] + x\nz = y[S -> T]"), "Q026"},
    {"integer overflow", body("x = x * (9223372036854775807 + 1)"), "Q027"},
    {"root of a negative number", body("x = x * sqrt(0 - 1)"), "Q027"},
    {"range outside", body("dim N = 4\ny = x[D: 9..13 -> N]"), "Q028"},
    {"position in a list", body("x = x * [1, 2][2]"), "Q028"},
    {"position in a string", body("kind = \"M*\"[2]"), "Q028"},
    {"two positions of a string", body("kind = \"M*\"[0, 1]"), "Q019"},
    {"condition of another sort", body("x = x if 3 else x"), "Q030"},
    {"bounds not whole", body("repeat i in 2.5 { x = x }"), "Q031"},
    {"kind changes in a loop", body("n = index(T)\nrepeat i in 2 { n = n + 0.5 }\nx = x + n"), "Q033"},
    {"function calls itself", head + "  forward(tokens: int[B, T]) -> [B, T] { return forward(tokens) }\n}\n", "Q034"},
    {"unfolds beyond measure",
     body(
         "x = f1(x)", times("", 0) +
                          [] {
                            std::string blocks;
                            for (int i = 1; i < 40; ++i)
                              blocks += "  block f" + std::to_string(i) + "(x: [..]) { return f" +
                                        std::to_string(i + 1) + "(x) + f" + std::to_string(i + 1) + "(x) }\n";
                            return blocks + "  block f40(x: [..]) { return x }\n";
                          }()),
     "Q034"},
    {"parameter of a block never used", body("x = f(x, 1)", "  block f(x: [..], eps) { return x }\n"), "Q035"},
    {"one of several never used", body("dim N = D / 2\na, b = x[D -> N + N]\nx = x + sum[N](a)"), "Q035"},
    {"constant of the model never used", replaced(body("x = x"), "  dim V", "  scale = 3\n  dim V"), "Q035"},
    {"rename of the batch", body("dim A = B\ny = x[B -> A]"), "Q036"},
    {"batch in a group", body("dim A = B * T\ny = x[(B, T) -> A]"), "Q036"},
    {"index of the batch", body("x = x + index(B)"), "Q036"},
    {"config is no JSON", body("x = x"), "Q041", "{\"width\": 12,\n oops}"},
    {"config is no object", body("x = x"), "Q041", "[1, 2]"},
};

void PrintTo(const WrongSpec &spec, std::ostream *out) {
  *out << spec.name;
}

class WrongSpecs : public ::testing::TestWithParam<WrongSpec> {};

TEST_P(WrongSpecs, GiveTheirCodes) {
  Outcome outcome = check(GetParam().text, GetParam().config);
  EXPECT_EQ(outcome.codes, GetParam().codes) << outcome.text;
}

std::string caseName(const ::testing::TestParamInfo<WrongSpec> &info) {
  std::string name;
  for (char c : info.param.name)
    name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(Language, WrongSpecs, ::testing::ValuesIn(wrongSpecs), caseName);

TEST(Diagnostics, EveryCodeOfTheReferenceIsTested) {
  std::string all;
  for (const WrongSpec &spec : wrongSpecs)
    all += " " + spec.codes + " ";
  for (int code = 1; code <= 41; ++code) {
    char text[8];
    snprintf(text, sizeof text, "Q%03d", code);
    bool defined = code <= 3 || (code >= 10 && code <= 36) || code >= 40; // Q037 to Q039: ScanTest.cpp
    if (defined) {
      EXPECT_NE(all.find(text), std::string::npos) << text; // Q042 is reported by the runtime, which has the checkpoint
    }
  }
}

TEST(Diagnostics, WarnsOfSharedLayersAndUnusedBlocks) {
  auto warns = [](const std::string &text, const char *words) {
    return check(text).text.find(words) != std::string::npos;
  };
  const char *shared = "warning Q045: all iterations of the loop share the parameter";
  EXPECT_TRUE(warns(body("repeat i in 2 { x = linear[D -> D](x) @ \"h\" }"), shared));
  EXPECT_TRUE(warns(body("repeat i in 2 @ \"{i}\" { repeat j in 2 { x = linear[D -> D](x) @ \"h\" } }"),
                    "write {j} into its name"));
  EXPECT_FALSE(warns(body("repeat _ in 2 { x = linear[D -> D](x) @ \"h\" }"), shared)); // as ALBERT means it
  EXPECT_FALSE(warns(body("repeat i in 2 @ \"{i}\" { x = linear[D -> D](x) @ \"h\" }"), shared));
  // Every other layer's, pairs of layers, and what another loop picks: as Zamba 2 has its shared blocks.
  for (const char *name : {"h{i % 2}", "h{i // 2}", "h{i % 3}"})
    EXPECT_FALSE(warns(body(std::string("repeat i in 4 { x = linear[D -> D](x) @ \"") + name + "\" }"), shared))
        << name;
  EXPECT_FALSE(
      warns(body("repeat i in 4 { repeat n in 4 { if n == i { x = linear[D -> D](x) @ \"h{n % 2}\" } } }"), shared));
  const char *unused = "warning Q035: the block 'f' is never used";
  EXPECT_TRUE(warns(body("x = x", "  block f(x: [..]) { return x }\n"), unused));
  EXPECT_FALSE(warns(body("x = f(x)", "  block f(x: [..]) { return x }\n"), unused));
}

TEST(Diagnostics, ShowsPlaceUnderlineAndOtherSide) {
  Outcome outcome = check(body("y = x[D -> K]"));
  EXPECT_EQ(outcome.text, "case.quern:8:9: error Q020: K is 4, but D is 12\n"
                          "        y = x[D -> K]\n"
                          "            ^^^^^^^^^\n"
                          "  case.quern:4:40: note: K is declared here\n"
                          "      dim V = vocab, D = width, H = heads, K = D / H\n"
                          "                                           ^\n");
}

TEST(Diagnostics, SaysHowWhatIsMeantIsWritten) {
  std::string text = check(body("y = x * kv_channels\nx = y"), "{\"kv_channels\": 3}").text;
  EXPECT_NE(
      text.find(
          "unknown name 'kv_channels'; config.json has it: declare it, with a default: config { kv_channels = 3 }"),
      std::string::npos)
      << text;
  text = check(body("x = linear[D -> D](x, True)")).text;
  EXPECT_NE(text.find("unknown dimension True; the value is written true"), std::string::npos) << text;
}

TEST(Diagnostics, ShowsTheCallFirstAndTheLibraryLineAsANote) {
  std::string text = check(body("x = where(activation(x, \"gleu\") > 0, x, 0)")).text;
  EXPECT_EQ(text.find("case.quern:8:15: error Q040: the standard library has no activation named gleu"), 0u) << text;
  EXPECT_NE(text.find("std.quern:"), std::string::npos) << text;
  EXPECT_NE(text.find("note: found here"), std::string::npos) << text;
}

TEST(Diagnostics, ShowsTheChainOfCalls) {
  std::string text =
      check(body("x = f(x)", "  block f(x: [..]) { return g(x) }\n  block g(x: [..]) { return x + nothing }\n")).text;
  EXPECT_NE(text.find("note: in the call of 'g'"), std::string::npos) << text;
  EXPECT_NE(text.find("note: in the call of 'f'"), std::string::npos) << text;
}

TEST(Diagnostics, SuggestsWhatWasMeant) {
  EXPECT_NE(check(body("y = x * widht")).text.find("did you mean 'width'?"), std::string::npos);
  EXPECT_NE(check(body("y = liner[D -> D](x)")).text.find("did you mean 'linear'?"), std::string::npos);
  EXPECT_NE(check(body("y = x[T -> S]")).text.find("declare it first: dim S = T"), std::string::npos);
  EXPECT_NE(check(body("y = x[T: 1..T -> U]")).text.find("declare it first: dim U = T - 1\n"), std::string::npos);
  EXPECT_NE(check(body("y = tril(x)")).text.find("a causal mask is index(S) <= index(T)"), std::string::npos);
  EXPECT_NE(check(body("y = cat(x, x)")).text.find("concat[A + B -> C](x, y)"), std::string::npos);
  EXPECT_NE(check(body("y = einsum(x, x)")).text.find("a product is sum[D](a * b)"), std::string::npos);
  EXPECT_NE(check(body("y = normalize(x)")).text.find("write normalize[D](...)"), std::string::npos);
  EXPECT_NE(check(body("repeat t in T { x = x * 2 }")).text.find("cumsum[T](x) adds up, scan T { ... }"),
            std::string::npos);
  std::string line = check(body("repeat i in 2 @ \"{i}\" {\n y = x\n x = sum[T](x)\n}")).text;
  EXPECT_NE(line.find(" x = sum[T](x)\n"), std::string::npos) << line;
  EXPECT_NE(
      check(body("dim S = T\nq = x[D -> (H, K)]\na = attention[S, K](q, q, q)")).text.find("did you forget [T -> S]?"),
      std::string::npos);
}

TEST(Diagnostics, KnowsHabitsOfOtherLanguages) {
  const std::pair<const char *, const char *> said[] = {
      {"for i in 3 { x = x }", "repeat i in COUNT"},
      {"let y = x", "leave 'let' out"},
      {"x += 1", "write x = x + ..."},
      {"y = x ** 2", "a power is x ^ 2"},
      {"y = x && x", "'and' is a word here"},
      {"y = x[:, 0]", "by the dimension's name"},
      {"y = F.gelu(x)", "no methods and no modules"},
      {"y = torch.sum(x)", "no methods and no modules"},
      {"y = x.softmax()", "no methods and no modules"},
      {"y = RMSNorm[D](x)", "names of blocks begin with a small letter"},
      {"y = x @ w", "a product of matrices is sum[D](a * b)"},
  };
  for (const auto &[written, words] : said)
    EXPECT_NE(check(body(written)).text.find(words), std::string::npos) << written << "\n" << check(body(written)).text;
}

TEST(Diagnostics, TellsAllMistakesOfAFileInOneRun) {
  Outcome outcome = check(body("a = x +\n"
                               "b = x[D -> K]\n"
                               "c = sum[H](x)\n"
                               "d = (x + 1\n"
                               "f = nothing\n"
                               "repeat i n { z = x }\n"
                               "g = x * \"text\"\n"
                               "h = linear[D -> D](x, biass: 1) @ \"h\"\n"
                               "dim K = 3\n"
                               "width = 3\n"
                               "if x > 0 { x = x }"));
  for (const char *message :
       {"Q002", "K is 4, but D is 12", "Q021", "unknown name 'nothing'", "Q025", "'linear' has no parameter 'biass'",
        "K already has a size", "'width' is already a name", "the condition is a tensor"})
    EXPECT_NE(outcome.text.find(message), std::string::npos) << message << "\n" << outcome.text;
  EXPECT_EQ(outcome.text.find("unknown name 'a'"), std::string::npos);
  EXPECT_LT(outcome.text.find("K is 4"), outcome.text.find("unknown name 'nothing'")); // in the order of the text
  EXPECT_LT(outcome.text.find("this '(' is not closed"), outcome.text.find("unknown name 'nothing'"));
}

TEST(Diagnostics, WhatAWrongStatementNamesIsSilentAfterwards) {
  EXPECT_EQ(check(body("y = oops\nz = y + y\nw = z * 2\nx = x + w")).text.find("'y'"), std::string::npos);
  EXPECT_EQ(check(body("dim N = oops\ny = x[D -> (N, H)]")).codes, "Q010");
}

TEST(Diagnostics, ABlockThatTakesNoTensorsSaysHowItWould) {
  std::string own = check(body("x = twice(x)", "  block twice(v) { return 2 * v }\n")).text;
  EXPECT_NE(own.find("note: declared here; to take tensors it needs a type: v: [..]"), std::string::npos) << own;
  std::string library = check(body(R"(x = layer_norm[D](x, x) @ "n")")).text;
  EXPECT_EQ(library.find("it needs a type"), std::string::npos) << library;
}

TEST(Diagnostics, JsonHasPlacesAndNotes) {
  auto json = nlohmann::json::parse(check(body("y = x[D -> K]")).json);
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["code"], "Q020");
  EXPECT_EQ(json[0]["severity"], "error");
  EXPECT_EQ(json[0]["line"], 8);
  EXPECT_EQ(json[0]["column"], 9);
  EXPECT_EQ(json[0]["notes"][0]["line"], 4);
}

TEST(Diagnostics, LongLinesAreClippedAndColoursOnlyOnRequest) {
  std::string text = check(body("y = oops" + times(" + 1", 3000) + " + oops2")).text;
  EXPECT_LT(text.size(), 2000u);
  EXPECT_EQ(text.find('\033'), std::string::npos);
}

TEST(Diagnostics, SpecsThatAreTooLargeAreRefused) {
  EXPECT_EQ(check("quern 1\n# " + std::string((1 << 20) + 1, 'a')).codes, "Q001");
  EXPECT_EQ(check(std::string((16 << 20) + 1, '\n')).codes, "Q001");
}

} // namespace
