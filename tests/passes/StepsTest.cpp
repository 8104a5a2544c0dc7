// For every spec of the examples: the whole text at once, in pieces, and one position at a time give the same numbers.
#include "CausalSpecs.h"

#include "ir/Dialect.h"
#include "ir/Scan.h"

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

using namespace mlir;
using namespace quern::passes::test;

namespace {

class Steps : public testing::TestWithParam<SpecCase> {};
class Refused : public testing::TestWithParam<SpecCase> {};

/// The rows of [B, T, ...] at the ends of the chunks, chunk by chunk.
std::vector<double> endsOf(const std::vector<double> &whole, int64_t batch, int64_t length,
                           llvm::ArrayRef<int64_t> chunks) {
  std::vector<double> out;
  size_t width = whole.size() / (batch * length);
  int64_t end = 0;
  for (int64_t chunk : chunks) {
    end += chunk;
    for (int64_t b = 0; b < batch; ++b)
      out.insert(out.end(), whole.begin() + (b * length + end - 1) * width, whole.begin() + (b * length + end) * width);
  }
  return out;
}

} // namespace

TEST_P(Steps, EqualTheWhole) {
  auto program = load(GetParam()), lowered = load(GetParam());
  std::string name = textFunction(*program);
  lowered->lower();
  func::FuncOp function = lowered->function(name);
  ASSERT_TRUE(function);
  EXPECT_FALSE(function->hasAttr("quern.refusal")) << function->getAttrOfType<StringAttr>("quern.refusal").str();
  ASSERT_TRUE(lowered->function(name + ".last"));

  Program::Inputs inputs = inputsFor(program->function(name), 2, 11, 5, GetParam().words);
  std::vector<double> whole = program->evaluate(name, inputs);
  EXPECT_LE(difference(whole, lowered->evaluate(name, inputs)), 1e-12);
  // Longrope's spec compares T with a length beyond these texts, so the answer stays (its test is in
  // CausalityTest.cpp).
  ASSERT_FALSE(function->hasAttr("quern.recompute"));
  std::vector<int64_t> single(11, 1);
  EXPECT_LE(difference(whole, lowered->evaluateSteps(name, inputs, {4, 1, 1, 5})), 1e-12);
  EXPECT_LE(difference(whole, lowered->evaluateSteps(name, inputs, single)), 1e-12);

  // The last row alone; where there is one, the form for few rows serves any number of rows.
  Dice dice(GetParam().name);
  for (const std::vector<int64_t> &chunks :
       {std::vector<int64_t>{4, 1, 1, 5}, single, dice.chunks(11), dice.chunks(11), dice.chunks(11)}) {
    std::vector<double> expected = endsOf(whole, 2, 11, chunks);
    EXPECT_LE(difference(expected, lowered->evaluateSteps(name + ".last", inputs, chunks)), 1e-12)
        << testing::PrintToString(chunks);
    if (lowered->function(name + ".step")) {
      EXPECT_LE(difference(expected, lowered->evaluateSteps(name + ".step", inputs, chunks)), 1e-12)
          << testing::PrintToString(chunks);
    }
  }
}

TEST_P(Steps, EqualTheWholeAsKernels) {
  auto program = load(GetParam()), lowered = load(GetParam());
  std::string name = textFunction(*program);
  lowered->lower();
  std::vector<std::unique_ptr<Pass>> passes;
  passes.push_back(quern::passes::createOutlineKernelsPass({}));
  passes.push_back(quern::passes::createPlanMemoryPass());
  lowered->run(std::move(passes));
  Program::Inputs inputs = inputsFor(program->function(name), 2, 11, 5, GetParam().words);
  std::vector<double> whole = program->evaluate(name, inputs);
  EXPECT_LE(difference(whole, lowered->evaluate(name, inputs)), 1e-12);
  EXPECT_LE(difference(whole, lowered->evaluateSteps(name, inputs, {4, 1, 6})), 1e-12);
  std::vector<int64_t> chunks = Dice(GetParam().name).chunks(11);
  for (const char *variant : {".last", ".step"})
    if (lowered->function(name + variant)) {
      EXPECT_LE(difference(endsOf(whole, 2, 11, chunks), lowered->evaluateSteps(name + variant, inputs, chunks)), 1e-12)
          << variant;
    }
}

INSTANTIATE_TEST_SUITE_P(Specs, Steps, testing::ValuesIn(causalSpecs()), nameOf);

TEST_P(Refused, SaysWhy) {
  auto program = load(GetParam()), lowered = load(GetParam());
  lowered->lower();
  func::FuncOp function = lowered->function("forward");
  ASSERT_TRUE(function->hasAttr("quern.refusal"));
  std::string refusal = function->getAttrOfType<StringAttr>("quern.refusal").str();
  std::string at = GetParam().spec.substr(GetParam().spec.rfind('/') + 1) + ":[0-9]+:[0-9]+: ";
  EXPECT_THAT(
      refusal,
      // A convolution over the words or a count of them stands before; a decoder that embeds has only its pooling.
      testing::MatchesRegex("(" + at + "(gather along T|sum\\[T\\]) [^\n]*\n)*" + at +
                            "(sum\\[T\\] (combines positions of T itself|counts all positions of "
                            "T)[^\n]*|softmax\\[S\\] is not causal: it sees positions of S "
                            "after T: nothing masks it by index\\(S\\) <= index\\(T\\) "
                            "\\(std\\.quern:[0-9]+:[0-9]+\\))(\n.*)?"));
  EXPECT_FALSE(lowered->function("forward.last"));
  Program::Inputs inputs = inputsFor(program->function("forward"), 2, 7, 5, GetParam().words);
  EXPECT_LE(difference(program->evaluate("forward", inputs), lowered->evaluate("forward", inputs)), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Specs, Refused, testing::ValuesIn(otherSpecs()), nameOf);

/// The spec where each position sees one more, later one; running sums over all positions. Empty if it combines none.
static std::string lookingAhead(std::string text) {
  bool changed = false;
  auto replace = [&](const std::string &from, const std::string &to) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
      changed = true;
    }
  };
  replace("index(S) <= index(T)", "index(S) <= index(T) + 1");
  replace("index(Past) <= index(T)", "index(Past) <= index(T) + 1");
  replace("cumsum[T](k", "sum[T](k");
  for (const std::string keys : {"S", "Past"}) {
    const std::string mask = "causal[T, " + keys + "](";
    for (size_t at = text.find(mask); at != std::string::npos; at = text.find(mask, at + mask.size())) {
      size_t end = at + mask.size();
      for (int open = 1; open > 0; ++end)
        open += (text.at(end) == '(') - (text.at(end) == ')');
      text.insert(end, " or index(" + keys + ") == index(T) + 1");
      changed = true;
    }
  }
  return changed ? text : "";
}

TEST_P(Steps, RefusedWhereTheyLookAhead) {
  std::ifstream file(source(GetParam().spec));
  std::stringstream original;
  original << file.rdbuf();
  std::string text = lookingAhead(original.str());
  if (text.empty()) {
    // Mamba and RWKV look nowhere but through their states; a scan from the end is refused in recurrences_test.py.
    auto program = load(GetParam());
    int scans = 0, softmaxes = 0;
    program->module().walk([&](quern::ir::ScanOp) { ++scans; });
    program->module().walk([&](quern::ir::SoftmaxOp) { ++softmaxes; });
    bool states = scans && !softmaxes;
    EXPECT_TRUE(GetParam().name == "manual_article" || states) << "no mask was found";
    return;
  }
  std::string path = testing::TempDir() + "/" + GetParam().name + "_ahead.quern";
  std::ofstream(path) << text;
  Program lowered(path, GetParam().config.empty() ? "" : source("tests/data/" + GetParam().config + "/config.json"),
                  GetParam().settings);
  std::filesystem::remove(path);
  lowered.lower();
  auto refusal = lowered.function(textFunction(lowered))->getAttrOfType<StringAttr>("quern.refusal");
  ASSERT_TRUE(refusal);
  // The first reason: the reduction by its name, and the line of the spec that asks for it.
  std::smatch match;
  std::string reason = refusal.str();
  std::regex form("^" + GetParam().name + R"(_ahead\.quern:([0-9]+):[0-9]+: (softmax|sum)\[(\w+)\] (.*))");
  ASSERT_TRUE(std::regex_search(reason, match, form)) << reason;
  if (match[2] == "softmax") {
    // Joined with an attention sink, the scores' mask is known by parts.
    std::string why = match[3] == "N" ? "it sees positions of S after T"
                                      : "its mask only implies index(" + match[3].str() + ") <= index(T) + 1";
    EXPECT_THAT(match[4], testing::StartsWith("is not causal: " + why));
  } else {
    EXPECT_THAT(match[4], testing::HasSubstr("combines positions of T itself"));
  }
  std::istringstream lines(text);
  std::string line;
  for (int i = 0; i < std::stoi(match[1]); ++i)
    std::getline(lines, line);
  EXPECT_TRUE(std::regex_search(line, std::regex(R"((attention|softmax|sum)\[)"))) << line;
  EXPECT_FALSE(lowered.function(textFunction(lowered) + ".last"));
}

// A spec that nobody lists is a spec that nobody tests.
TEST(Specs, AllAreListed) {
  std::set<std::string> listed;
  for (const std::vector<SpecCase> &specs : {causalSpecs(), otherSpecs(), stillSpecs()})
    for (const SpecCase &example : specs)
      listed.insert(example.spec);
  for (const char *folder : {"examples", "tests/frontend/specs"})
    for (const auto &entry : std::filesystem::recursive_directory_iterator(source(folder)))
      if (entry.path().extension() == ".quern") {
        std::string path = std::filesystem::relative(entry.path(), source("")).string();
        EXPECT_TRUE(listed.count(path)) << path;
      }
}
