// What --without takes, and that a pass that is left out does not run.
#include "SmallSpecs.h"

#include "passes/Phases.h"

using namespace mlir;
using namespace quern::passes;
using namespace quern::passes::test;
using testing::HasSubstr;

TEST(Without, TakesPassesAndRules) {
  Without without("cse, fuse-norms");
  without.add("roll-repeats");
  EXPECT_TRUE(without.has("cse") && without.has("fuse-norms") && without.has("roll-repeats"));
  EXPECT_FALSE(without.has("canonicalize"));
  EXPECT_EQ(without.str(), "cse,fuse-norms,roll-repeats");
  EXPECT_TRUE(Without("").empty());
}

static std::string refusalOfNames(const char *names) {
  try {
    Without without(names);
  } catch (const std::runtime_error &error) {
    return error.what();
  }
  return "";
}

TEST(Without, RefusesWhatCannotBeLeftOut) {
  EXPECT_EQ(refusalOfNames("cse,plan-memory"),
            "the pass 'plan-memory' cannot be left out: the host program finds buffers by their places");
  EXPECT_THAT(refusalOfNames("raise-atention"), HasSubstr("no pass or rule is named 'raise-atention'; did you mean "
                                                          "'raise-attention'? These can be left out: roll-repeats"));
  EXPECT_THAT(refusalOfNames("resolved"), HasSubstr("no pass or rule is named 'resolved'"));
}

TEST(Without, EveryRuleNamesAPassAndHasANameOfItsOwn) {
  std::set<std::string> seen;
  for (const Rule &rule : rules()) {
    EXPECT_TRUE(seen.insert(rule.name).second && !isPhaseOrPass(rule.name)) << rule.name;
    EXPECT_TRUE(isPhaseOrPass(rule.pass)) << rule.pass;
  }
  std::vector<std::string> names = optionalNames();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
}

TEST(Without, PassesDoNotRun) {
  std::string text =
      specWith("    repeat i in 3 @ \"l.{i}\" {\n      x = x + linear[D -> D](x) @ \"a\"\n    }\n    return x\n");
  for (const char *names : {"", "roll-repeats", "incremental"}) {
    auto program = Program::fromSpec(text);
    PassOptions options;
    options.without.add(names);
    ASSERT_TRUE(succeeded(runPhases(program->module(), options, "resolved", "incremental")));
    size_t loops = 0;
    func::FuncOp forward = program->function("forward");
    forward.walk([&](quern::ir::RepeatOp) { ++loops; });
    EXPECT_EQ(loops, StringRef(names) == "roll-repeats" ? 3u : 1u) << names;
    EXPECT_EQ(program->function("forward.last") == nullptr, StringRef(names) == "incremental") << names;
    EXPECT_EQ(forward->hasAttr("quern.refusal"), StringRef(names) == "incremental") << names;
  }
}
