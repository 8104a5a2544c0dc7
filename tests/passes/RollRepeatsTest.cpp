// Iterations of a loop: which become one, and that the numbers stay.
#include "Support.h"

#include "ir/Dialect.h"

#include <cstdlib>

using namespace mlir;
using namespace quern::passes::test;

namespace {

std::string source(const std::string &path) {
  return std::string(std::getenv("QUERN_SOURCE")) + "/" + path;
}

/// The nesting of loops: "4(3 1) 2" is a loop of 4 iterations around loops of 3 iterations and 1, then one of 2.
std::string loopsOf(Block &block) {
  std::string out;
  for (auto loop : block.getOps<quern::ir::RepeatOp>()) {
    out += (out.empty() ? "" : " ") + std::to_string(loop.getIterations());
    if (std::string inner = loopsOf(loop.getBlock()); !inner.empty())
      out += "(" + inner + ")";
  }
  return out;
}

/// The loops of a spec after rolling; its numbers must not change.
std::string rolled(const std::string &spec, const std::string &config, const std::vector<std::string> &settings) {
  std::string path = source("examples/" + spec + ".quern");
  std::string configPath = config.empty() ? "" : source("tests/data/" + config + "/config.json");
  Program before(path, configPath, settings), after(path, configPath, settings);
  after.roll();
  std::string name = before.function("forward") ? "forward" : "decode";
  Program::Inputs inputs = inputsFor(before.function(name), 2, 5, 3, 60);
  EXPECT_EQ(difference(before.evaluate(name, inputs), after.evaluate(name, inputs)), 0);
  return loopsOf(after.function(name).front());
}

std::string rolledSpec(const std::string &body) {
  std::string text = "quern 1\nmodel m {\n  dim V = 13, D = 4\n  forward(tokens: int[B, T]) -> [B, T, D] {\n    param "
                     "words: [V, D] @ \"words\"\n"
                     "    x = words[V = tokens]\n" +
                     body + "  }\n}\n";
  auto before = Program::fromSpec(text), after = Program::fromSpec(text);
  after->roll();
  Program::Inputs inputs = inputsFor(before->function("forward"), 2, 5, 3, 13);
  EXPECT_EQ(difference(before->evaluate("forward", inputs), after->evaluate("forward", inputs)), 0);
  return loopsOf(after->function("forward").front());
}

} // namespace

TEST(RollRepeats, EqualLayers) {
  EXPECT_EQ(rolled("gpt2", "gpt2", {}), "2");
  EXPECT_EQ(rolled("gpt2", "gpt2", {"n_layer=12"}), "12");
  EXPECT_EQ(rolled("mixtral", "mixtral", {"num_hidden_layers=3"}), "3");
  EXPECT_EQ(rolled("t5", "t5", {"num_decoder_layers=5"}), "5");
  EXPECT_EQ(rolled("bart", "m2m100", {"decoder_layers=5"}), "5");
}

TEST(RollRepeats, LayersThatAlternate) {
  EXPECT_EQ(rolled("smollm3", "smollm3", {"num_hidden_layers=12", "no_rope_layers=null"}), "3(3 1)");
  EXPECT_EQ(rolled("smollm3", "smollm3", {"num_hidden_layers=10", "no_rope_layers=null"}), "2(3 1) 2");
  EXPECT_EQ(rolled("gemma", "gemma3-text", {"num_hidden_layers=14", "layer_types=null"}), "2(5 1) 2");
}

TEST(RollRepeats, Patterns) {
  auto layers = [](const std::string &condition, int count) {
    return rolledSpec(
        "    repeat i in " + std::to_string(count) + " @ \"l.{i}\" {\n      if " + condition +
        " { x = tanh(linear[D -> D](x) @ \"a\") } else { x = linear[D -> D](x) @ \"b\" }\n    }\n    return x\n");
  };
  EXPECT_EQ(layers("i % 2 == 0", 6), "3(1 1)");
  EXPECT_EQ(layers("i % 2 == 0", 7), "3(1 1) 1");
  EXPECT_EQ(layers("i < 3", 8), "3 5");
  EXPECT_EQ(layers("i % 3 == 1", 9), "1 2(1 2) 1 1");
  EXPECT_EQ(layers("i % 6 in [0, 1, 3]", 12), "2(2 1 1 2)");
}

TEST(RollRepeats, CarriedValues) {
  // Several values, used by other iterations, and one that leaves the loop without being read in it.
  EXPECT_EQ(rolledSpec("    y = x * 2\n    repeat i in 4 @ \"l.{i}\" {\n      z = linear[D -> D](x) @ \"a\"\n      x = "
                       "y + z\n      y = z * 0.5\n    }\n    return x + y\n"),
            "4");
  EXPECT_EQ(rolledSpec("    y = x * 2\n    repeat i in 4 {\n      x, y = y, x + y\n    }\n    return x + 2 * y\n"),
            "4");
  EXPECT_EQ(rolledSpec("    y = x * 2\n    repeat i in 6 {\n      if i % 2 == 0 { x = x + y } else { y = y * 0.5 + x "
                       "}\n    }\n    return x + y\n"),
            "3(1 1)");
  EXPECT_EQ(rolledSpec("    y = x * 2\n    repeat i in 6 {\n      if i % 2 == 0 { x = x + y } else { y = y * 0.5 + i "
                       "}\n    }\n    return x + y\n"),
            "1 1 1 1 1 1");
}

TEST(RollRepeats, Nested) {
  EXPECT_EQ(rolledSpec("    repeat i in 3 @ \"l.{i}\" {\n      repeat j in 2 @ \"m.{j}\" {\n        x = linear[D -> "
                       "D](x) @ \"a\"\n      }\n      x = tanh(x)\n    }\n    return x\n"),
            "3(2)");
  EXPECT_EQ(rolledSpec("    repeat i in 2 @ \"l.{i}\" {\n      repeat j in 4 @ \"m.{j}\" {\n        if j % 2 == 0 { x "
                       "= linear[D -> D](x) @ \"a\" } else { x = tanh(x) }\n      }\n    }\n    return x\n"),
            "2(2(1 1))");
}

TEST(RollRepeats, ManyLayers) {
  Program program(source("examples/llama.quern"), source("tests/data/llama/config.json"), {"num_hidden_layers=256"});
  program.roll();
  EXPECT_EQ(loopsOf(program.function("forward").front()), "256");
}
