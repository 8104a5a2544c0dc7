// Every pass and rule that can be left out, left out alone and all together, on every spec: the kernels' algebra gives
// the spec's numbers, whole and in pieces. (Compiled: tests/specs/PassMatrix.cpp.)
#include "ExampleSpecs.h"
#include "Support.h"

#include "passes/Phases.h"
#include "tests/Zoo.h"

#include "llvm/ADT/StringExtras.h"

#include <cstdlib>
#include <filesystem>

using namespace mlir;
using namespace quern::passes;
using namespace quern::passes::test;

namespace {

std::unique_ptr<Program> load(const ExampleSpec &example) {
  std::string root = std::getenv("QUERN_SOURCE");
  std::string config = example.config ? root + "/tests/data/" + example.config + "/config.json" : "";
  return std::make_unique<Program>(root + "/examples/" + example.spec + ".quern", config, example.settings);
}

std::string nameOf(const testing::TestParamInfo<ExampleSpec> &info) {
  return info.param.name;
}

class PassMatrix : public testing::TestWithParam<ExampleSpec> {};

/// The functions that the spec itself has.
std::vector<std::string> functionsOf(Program &program) {
  std::vector<std::string> names;
  for (func::FuncOp function : program.module().getOps<func::FuncOp>())
    if (function.getName().find('.') == StringRef::npos)
      names.push_back(function.getName().str());
  return names;
}

bool steps(Program &lowered, const std::string &name) {
  func::FuncOp function = lowered.function(name);
  // Comparisons with T (`.epoch`) do not change within so short a text.
  return lowered.function(name + ".last") && !function->hasAttr("quern.refusal") &&
         !function->hasAttr("quern.recompute");
}

} // namespace

TEST_P(PassMatrix, EveryWayGivesTheSameNumbers) {
  constexpr int64_t time = 7;
  auto program = load(GetParam());
  std::map<std::string, Program::Inputs> inputs;
  std::map<std::string, std::vector<double>> expected;
  for (const std::string &name : functionsOf(*program)) {
    inputs[name] = inputsFor(program->function(name), 2, time, 5, GetParam().vocabulary);
    expected[name] = program->evaluate(name, inputs[name]);
    ASSERT_FALSE(expected[name].empty());
  }
  std::vector<std::string> ways = optionalNames();
  std::string all = llvm::join(ways, ",");
  ways.insert(ways.begin(), {"", all});
  std::set<std::string> seen; // what changes nothing on this spec need not be evaluated again
  bool causal = false;
  for (const std::string &without : ways) {
    auto lowered = load(GetParam());
    PassOptions options;
    options.packing.tile = [](int64_t rows, int64_t) { return rows % 8 ? 0 : 8; };
    options.without.add(without);
    ASSERT_TRUE(succeeded(runPhases(lowered->module(), options, "resolved"))) << "without " << without;
    if (!seen.insert(lowered->print()).second)
      continue;
    for (auto &[name, want] : expected) {
      EXPECT_LE(difference(want, lowered->evaluate(name, inputs[name])), 1e-9) << name << " without " << without;
      if (!steps(*lowered, name))
        continue;
      causal = true;
      EXPECT_LE(difference(want, lowered->evaluateSteps(name, inputs[name], {3, 1, 3})), 1e-9)
          << name << " in pieces, without " << without;
    }
  }
  EXPECT_GE(seen.size(), 4u);
  StringRef spec = GetParam().name;
  bool encoder = llvm::is_contained({"bert", "distilbert", "vit"}, spec) || spec.starts_with("sentence") ||
                 spec.starts_with("manual");
  EXPECT_TRUE(causal || encoder) << "no way compiled this spec to steps";
}

TEST_P(PassMatrix, EveryDumpIsReadAgain) {
  // What the compiler makes of the module after any pass, read from text, is what it makes of the module itself.
  auto printed = [](ModuleOp module) {
    std::string text;
    llvm::raw_string_ostream out(text);
    module.print(out, OpPrintingFlags().enableDebugInfo());
    return text;
  };
  auto program = load(GetParam());
  PassOptions options;
  options.packing.tile = [](int64_t rows, int64_t) { return rows % 8 ? 0 : 8; };
  std::vector<std::pair<std::string, std::string>> dumps = {{"resolved", printed(program->module())}};
  ASSERT_TRUE(
      succeeded(runPhases(program->module(), options, "resolved", "", [&](StringRef pass, ModuleOp now, double) {
        dumps.emplace_back(pass.str(), printed(now));
      })));
  std::string last = program->print();
  std::set<std::string> stages;
  for (const Phase &phase : phases())
    for (const PassEntry &pass : phase.passes)
      stages.insert(pass.name);
  EXPECT_EQ(dumps.size(), stages.size() + 1);
  for (auto &[pass, text] : dumps) {
    Program again(text);
    ASSERT_TRUE(again.module()) << pass;
    ASSERT_TRUE(succeeded(runPhases(again.module(), options, pass))) << pass;
    EXPECT_EQ(again.print(), last) << "from " << pass;
  }
}

/// One of each kind of architecture, or all others (in the tier `nightly`).
static std::vector<ExampleSpec> specsOf(bool eachKind) {
  const std::set<std::string> kinds = {"bert",   "bloom",   "gemma3",     "linear_attention", "llama",
                                       "m2m100", "mixtral", "qwen3_next", "recurrent_gemma",  "sparse",
                                       "t5",     "vit"};
  std::vector<ExampleSpec> specs = exampleSpecs();
  std::erase_if(specs, [&](const ExampleSpec &spec) { return kinds.contains(spec.name) != eachKind; });
  return specs;
}
INSTANTIATE_TEST_SUITE_P(Specs, PassMatrix, testing::ValuesIn(specsOf(true)), nameOf);
INSTANTIATE_TEST_SUITE_P(MoreSpecs, PassMatrix, testing::ValuesIn(specsOf(false)), nameOf);

TEST(ExampleSpecs, AreAllExamples) {
  std::set<std::string> known;
  for (const ExampleSpec &example : exampleSpecs())
    known.insert(std::string(example.spec) + ".quern");
  for (const char *kind : {"decoders", "pairs", "encoders", "images", "contrasts"})
    for (const auto &[fixture, spec] : quern::test::zoo(kind))
      known.insert(spec + ".quern"); // made of the parts of the others: Steps and the golden tests are enough
  std::filesystem::path folder = std::string(std::getenv("QUERN_SOURCE")) + "/examples";
  std::set<std::string> there;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".quern")
      there.insert(std::filesystem::relative(entry.path(), folder).string());
  EXPECT_EQ(known, there) << "a spec that is new belongs into ExampleSpecs.h, small enough for the interpreter";
}
