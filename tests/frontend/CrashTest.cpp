// Nothing that a stranger can write crashes the compiler: thousands of damaged specs and configs, and a few built to
// hurt.
#include "Support.h"

#include "frontend/Embedded.h"
#include "frontend/syntax/Lexer.h"

#include <random>

using namespace quern::frontend;
using namespace quern::frontend::testing;

namespace {

std::vector<std::string> words(const std::string &text) {
  Source source("case", text);
  Diagnostics diagnostics;
  std::vector<std::string> out;
  for (const Token &token : lex(source, diagnostics).tokens)
    out.push_back((token.startsLine ? "\n" : " ") + std::string(token.text()));
  return out;
}

TEST(Crash, SpecsWithWordsExchangedDroppedAndDoubled) {
  std::mt19937 random(7);
  std::vector<std::vector<std::string>> specs;
  std::vector<std::string> vocabulary = {" {",  " }",       " (",       " )",      " [",       " ]",
                                         " ->", " T",       " D",       " null",   " 0",       " 1",
                                         " -",  " @ \"x\"", " \"{E}\"", " repeat", "\nreturn", "\n"};
  for (const EmbeddedSpec &spec : embeddedSpecs()) {
    specs.push_back(words(std::string(spec.text)));
    vocabulary.insert(vocabulary.end(), specs.back().begin(), specs.back().end());
  }
  auto pick = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  size_t fine = 0, runs = 1200;
  for (size_t run = 0; run < runs; ++run) {
    std::vector<std::string> spec = specs[pick(specs.size())];
    for (size_t change = 0, changes = 1 + pick(4); change < changes; ++change) {
      size_t at = pick(spec.size());
      switch (pick(4)) {
      case 0:
        spec[at] = vocabulary[pick(vocabulary.size())];
        break;
      case 1:
        spec.erase(spec.begin() + at);
        break;
      case 2:
        spec.insert(spec.begin() + at, vocabulary[pick(vocabulary.size())]);
        break;
      default:
        std::swap(spec[at], spec[pick(spec.size())]);
      }
    }
    std::string text;
    for (const std::string &word : spec)
      text += word;
    Outcome outcome = check(text, {}, {{"num_hidden_layers", "2"}});
    fine += outcome.codes.empty();
    Diagnostics diagnostics;
    formatSpec("case", text, diagnostics);
  }
  EXPECT_LT(fine, runs / 5); // nearly every damage is reported
}

TEST(Crash, BytesOverwritten) {
  std::mt19937 random(11);
  auto pick = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  for (size_t run = 0; run < 500; ++run) {
    std::string text(embeddedSpecs()[pick(embeddedSpecs().size())].text);
    for (size_t change = 0; change < 1 + run % 20; ++change)
      text[pick(text.size())] = static_cast<char>(pick(256));
    text.resize(text.size() - (run % 3 ? 0 : pick(text.size())));
    check(text);
  }
}

TEST(Crash, ConfigsDamaged) {
  std::mt19937 random(13);
  auto pick = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  for (size_t run = 0; run < 300; ++run) {
    const auto &[fixture, name] = fixtures()[pick(fixtures().size())];
    static std::map<std::string, std::pair<std::string, std::string>> files;
    if (!files.count(fixture))
      files[fixture] = {read(sourceDir() / "examples" / (name + ".quern")), read(dataDir() / fixture / "config.json")};
    auto [spec, config] = files[fixture];
    for (size_t change = 0; change < 3; ++change) { // digits, mostly: sizes of zero, of 10^18, bounds of loops
      size_t at = pick(config.size());
      size_t digit = config.find_first_of("0123456789", at);
      config.replace(digit == std::string::npos ? at : digit, 1,
                     std::vector<std::string>{"0", "-1", "999999999999", "1e30", "null", "[]"}[pick(6)]);
    }
    check(spec, config);
  }
}

TEST(Crash, SpecsBuiltToHurt) {
  auto bounded = [](const std::string &text) { check(text); };
  std::string deep = "quern 1\nmodel m {\n  x = ";
  for (const char *open : {"(", "[", "-", "f(", "f[", "x[T = ", "not ", "{", "1 if ", "\"{", "x ^ ", "x.a"}) {
    std::string text = deep;
    for (int i = 0; i < 20000; ++i)
      text += open;
    bounded(text);
  }
  std::string doubling = "  a = [1]\n  b = \"x\"\n";
  for (int i = 0; i < 200; ++i)
    doubling += "    a = [a, a]\n    b = \"{b}{b}\"\n";
  bounded(body(doubling + "    if a == [a, a] { x = x * a }"));
  bounded(body("dim N = T + B\n" + [] {
    std::string power = "x = x * (N";
    for (int i = 0; i < 3000; ++i)
      power += " * N";
    return power + ")";
  }()));
  bounded(body("repeat i in 9000000000000000000 { x = x }"));
  bounded(body("repeat i in 2 { x = x }\nrepeat i in -9223372036854775807..9223372036854775807 { x = x }"));
  bounded(body("repeat i in 1000 { repeat j in 1000 { x = x } }"));
  bounded(body("dim N = 9000000000000000000\nparam p: [N, N] @ \"p\"\nx = x * sum[N](p)"));
  bounded(body("dim N = 100000000000\ny = linear[D -> D](x) @ \"e.{N}\""));
  std::string sum = "x[D -> (1 + 1";
  for (int i = 0; i < 60; ++i)
    sum += ", 1 + 1";
  bounded(body("y = " + sum + ")]"));
  std::string blocks, chain = "x = a0(x)";
  for (int i = 0; i < 3000; ++i)
    blocks += "  block a" + std::to_string(i) + "(x: [..]) { return a" + std::to_string(i + 1) + "(x) }\n";
  bounded(body(chain, blocks + "  block a3000(x: [..]) { return x }\n"));
  std::string loops;
  for (int i = 0; i < 200; ++i)
    loops += "repeat i" + std::to_string(i) + " in 1 { ";
  bounded(body(loops + "x = x " + std::string(200, '}')));
  std::string path = "y = linear[D -> D](x) @ \"a\" | \"b\"";
  for (int i = 0; i < 30; ++i)
    path = "repeat i" + std::to_string(i) + " in 1 @ \"a\" | \"b\" {\n" + path + "\n}";
  bounded(body(path));
}

} // namespace
