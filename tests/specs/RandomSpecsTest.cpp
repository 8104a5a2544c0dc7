// A few random specs, the same ones in every run. `quern_random_specs` checks thousands (tests/README.md).
#include "tests/specs/CheckExamples.h"
#include "tests/specs/CheckSpec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

using namespace quern::test;

namespace {

CheckOptions options(const char *without) {
  CheckOptions options;
  options.cache = std::string(std::getenv("QUERN_BUILD")) + "/specs/cache";
  options.without = without;
  options.schedules = smallTiles;
  return options;
}

class RandomSpecs : public testing::TestWithParam<int> {};

} // namespace

TEST_P(RandomSpecs, CompiledAndInterpreted) {
  Choices choices(static_cast<uint64_t>(GetParam()));
  RandomSpec spec = makeSpec(choices);
  Outcome outcome = checkSpec(spec, choices, options("random"));
  EXPECT_TRUE(outcome.verdict == Verdict::Same || outcome.verdict == Verdict::Unstable)
      << outcome.stage << ": " << outcome.message << "\nwithout " << outcome.without << "\n"
      << spec.text;
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomSpecs, testing::Range(1, 9));

/// Any plan of a kernel's space computes the same. `quern_random_specs --plans` draws for thousands.
TEST(RandomPlans, ComputeTheSame) {
  for (uint64_t seed = 7000; seed < 7002; ++seed) {
    Choices choices(seed);
    RandomSpec spec = makeSpec(choices);
    CheckOptions drawn = options("");
    drawn.plans = true;
    Outcome outcome = checkSpec(spec, choices, drawn);
    EXPECT_TRUE(outcome.verdict == Verdict::Same || outcome.verdict == Verdict::Unstable)
        << "seed " << seed << ", " << outcome.stage << ": " << outcome.message << "\n"
        << spec.text;
  }
}

TEST(RandomSpecsOfTheInterpreter, AfterEveryPass) {
  int causal = 0, unstable = 0;
  for (uint64_t seed = 5000; seed < 5060; ++seed) {
    Choices choices(seed);
    RandomSpec spec = makeSpec(choices);
    CheckOptions interpreted = options("random");
    interpreted.compile = false;
    Outcome outcome = checkSpec(spec, choices, interpreted);
    EXPECT_TRUE(outcome.verdict == Verdict::Same || outcome.verdict == Verdict::Unstable)
        << "seed " << seed << ", " << outcome.stage << ": " << outcome.message << "\n"
        << spec.text;
    causal += outcome.causal;
    unstable += outcome.verdict == Verdict::Unstable;
  }
  EXPECT_GT(causal, 30);
  EXPECT_LE(unstable, 6) << "specs whose numbers say nothing take the place of tests";
}

// Specs of examples/, compiled in other ways than the shipped one. `quern_random_specs --examples all` takes all specs in
// all ways.

static void expectSame(const ExampleWay &way) {
  Choices choices(uint64_t(1));
  CheckOptions small = options("");
  small.without = way.without;
  Outcome outcome = checkSpec(specOf(way.example), choices, small);
  EXPECT_EQ(outcome.verdict, Verdict::Same) << way.label() << ": " << outcome.stage << ": " << outcome.message;
  EXPECT_GT(outcome.kernels, 0) << way.label();
}

class ExamplesCompiled : public testing::TestWithParam<const char *> {};

TEST_P(ExamplesCompiled, WithEverythingLeftOut) {
  std::vector<ExampleWay> ways = exampleWays(GetParam());
  ASSERT_GT(ways.size(), 10u);
  expectSame(ways[1]);
}

INSTANTIATE_TEST_SUITE_P(Specs, ExamplesCompiled,
                         testing::Values("bert", "bloom", "gemma3", "linear_attention", "mixtral", "phi3_longrope",
                                         "sparse", "t5"),
                         [](const auto &info) { return info.param; });

class LlamaWithout : public testing::TestWithParam<std::string> {};

TEST_P(LlamaWithout, Compiled) {
  for (const ExampleWay &way : exampleWays("llama"))
    if (way.without == GetParam())
      return expectSame(way);
  FAIL() << GetParam() << " is not known";
}

INSTANTIATE_TEST_SUITE_P(Each, LlamaWithout, testing::ValuesIn(quern::passes::optionalNames()), [](const auto &info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

/// Rows that a kernel writes into a cache and another reads: with room for more, the second sequence is further off.
TEST(FoundByRandomSpecs, NewRowsInACacheWithRoom) {
  Choices choices(uint64_t(48));
  RandomSpec spec{"quern 1\nmodel m {\n  dim V = 16, D = 4\n  forward(tokens: int[B, T]) -> [B, T, D] {\n"
                  "    param words: [V, D] @ \"words\"\n    x = words[V = tokens]\n    h = normalize[D](x, 0.1)\n"
                  "    return x[T = max(index(T) - 3, 0)] - 0.5 * h\n  }\n}\n",
                  true, 16, 40};
  Outcome outcome = checkSpec(spec, choices, options(""));
  EXPECT_TRUE(outcome.causal);
  EXPECT_EQ(outcome.verdict, Verdict::Same) << outcome.stage << ": " << outcome.message;
}

/// Specs that end where the bytes do; the interpreter's numbers before and after each pass.
TEST(Choices, OfAnyBytesMakeASpec) {
  uint32_t state = 1;
  for (size_t size = 0; size < 400; size += 40) {
    std::vector<uint8_t> bytes(size);
    for (uint8_t &byte : bytes)
      byte = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
    Choices choices(bytes.data(), bytes.size());
    RandomSpec spec = makeSpec(choices);
    CheckOptions passes = options("random");
    passes.compile = false;
    Outcome outcome = checkSpec(spec, choices, passes);
    EXPECT_TRUE(outcome.verdict != Verdict::Different && outcome.verdict != Verdict::Refused)
        << outcome.stage << ": " << outcome.message << "\n"
        << spec.text;
  }
}

TEST(Choices, EndWithTheBytes) {
  uint8_t bytes[] = {200, 3, 90};
  Choices few(bytes, sizeof bytes), none(nullptr, 0);
  RandomSpec spec = makeSpec(few), empty = makeSpec(none);
  EXPECT_NE(spec.text, "");
  CheckOptions interpreted = options("");
  interpreted.compile = false;
  for (const RandomSpec &one : {spec, empty}) {
    Outcome outcome = checkSpec(one, none, interpreted);
    EXPECT_EQ(outcome.verdict, Verdict::Same) << outcome.message << one.text;
  }
}
