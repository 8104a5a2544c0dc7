// Tuning with planted faults: plans whose kernels are wrong or crash never win; what was measured is not measured again;
// databases and texts of plans that are not what they should be.
#include "codegen/PlanKernels.h"
#include "codegen/ReadKernel.h"
#include "codegen/halide/HalideProducer.h"
#include "codegen/halide/gpu/GpuProducer.h"
#include "codegen/kernel/KernelCache.h"
#include "codegen/kernel/PlanText.h"
#include "codegen/link/Link.h"
#include "codegen/schedule/ChoosePlan.h"
#include "frontend/Frontend.h"
#include "ir/Attributes.h"
#include "ir/Dialect.h"
#include "passes/Phases.h"
#include "runtime/tuning/Child.h"
#include "support/OutputFile.h"
#include "tools/tune/PlanSeeds.h"
#include "tools/tune/TunePage.h"
#include "tools/tune/TunedPlans.h"
#include "tools/tune/Tuner.h"

#include "mlir/IR/MLIRContext.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace quern;
using namespace quern::codegen;
using namespace quern::tools;
using testing::HasSubstr;

namespace {

std::string folderOfTest() {
  std::string folder = std::string(std::getenv("QUERN_BUILD")) + "/tests/tune-" +
                       testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

int countOf(const std::string &part, const std::string &text) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

std::string messageOf(const std::function<void()> &run) {
  try {
    run();
  } catch (const std::runtime_error &error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// Another producer's kernels and plans under a name of their own.
class Behind : public KernelProducer {
public:
  Behind(std::string name, const KernelProducer &real) : own(std::move(name)), real(real) {}
  std::string name() const override { return own; }
  std::string revision() const override { return real.revision(); }
  std::optional<std::string> refuses(const KernelGraph &graph, const CpuTarget &target) const override {
    return real.refuses(graph, target);
  }
  std::vector<Anchor> anchors(const KernelGraph &graph, const CpuTarget &target) const override {
    return real.anchors(graph, target);
  }
  KernelPlan choose(const KernelGraph &graph, const CpuTarget &target, const ScheduleTable &schedules) const override {
    return {name(), real.choose(graph, target, schedules).parts};
  }
  Scratch make(const KernelGraph &graph, const KernelPlan &plan, const CpuTarget &target, const std::string &symbol,
               EmitForm form, const std::string &path) const override {
    return real.make(graph, {real.name(), plan.parts}, target, symbol, form, path);
  }
  bool shares() const override { return real.shares(); }
  void makeShared(const CpuTarget &target, const std::string &path) const override { real.makeShared(target, path); }
  std::string loops(const KernelGraph &, const KernelPlan &, const CpuTarget &) const override { return ""; }

protected:
  static bool multiplies(const KernelGraph &graph) {
    return llvm::any_of(graph.nodes, [](const Node &node) { return node.op == Op::Mul; });
  }
  /// The same, adding instead of multiplying.
  static KernelGraph wrong(KernelGraph graph) {
    for (Node &node : graph.nodes)
      if (node.op == Op::Mul)
        node.op = Op::Add;
    return graph;
  }

private:
  std::string own;
  const KernelProducer &real;
};

/// Halide's kernels, of a small space: `work` may be half or one less.
class Small : public Behind {
public:
  Small() : Behind("small", halideProducer()) {}
  using Behind::refuses;
  std::optional<std::string> refuses(const KernelPlan &plan, const KernelGraph &graph,
                                     const CpuTarget &target) const override {
    KernelPlan first = choose(graph, target, ScheduleTable::standard()), other = plan;
    if (plan == first)
      return std::nullopt;
    int64_t work = first.parts.back()["work"], &own = other.parts.back().numbers["work"];
    if (own == work / 2 || own == work - 1)
      own = work;
    return other == first ? std::nullopt : std::optional<std::string>("too far");
  }
};

/// Its plans with half of the work compute something else, those with one less end the process. All in kernels that
/// multiply.
class Planted : public Small {
public:
  std::string revision() const override { return "planted 1 " + Small::revision(); }
  using Small::refuses;
  std::optional<std::string> refuses(const KernelPlan &plan, const KernelGraph &graph,
                                     const CpuTarget &target) const override {
    if (!multiplies(graph) && plan != choose(graph, target, ScheduleTable::standard()))
      return "no fault is planted here";
    return Small::refuses(plan, graph, target);
  }
  Scratch make(const KernelGraph &graph, const KernelPlan &plan, const CpuTarget &target, const std::string &symbol,
               EmitForm form, const std::string &path) const override {
    int64_t first = choose(graph, target, ScheduleTable::standard()).parts.back()["work"],
            work = plan.parts.back()["work"];
    if (work == first)
      return Small::make(graph, plan, target, symbol, form, path);
    if (work == first / 2)
      return Small::make(wrong(graph), plan, target, symbol, form, path);
    std::string source = path + ".c", messages;
    support::writeFile(source, "int " + symbol + "(void) { __builtin_trap(); }\nint " + symbol +
                                   "_argv(void **a) { (void)a; __builtin_trap(); }\n");
    EXPECT_EQ(runCommand({"cc", "-c", "-o", path, source}, messages), 0) << messages;
    return {};
  }
};

/// Kernels for devices: groups half as wide compute something else (in kernels that multiply), groups of twice as many work-items
/// are right. Others there are not.
class PlantedOnDevice : public Behind {
public:
  PlantedOnDevice() : Behind("planted", gpuProducer()) {}
  using Behind::refuses;
  std::string revision() const override { return "planted 1 " + Behind::revision(); }
  std::optional<std::string> refuses(const KernelPlan &plan, const KernelGraph &graph,
                                     const CpuTarget &target) const override {
    KernelPlan first = choose(graph, target, ScheduleTable::standard()), other = plan;
    PlanPart &its = other.parts.at(0);
    const PlanPart &part = first.parts[0];
    if (its["group"] == 2 * part["group"])
      its.numbers["group"] = part["group"];
    if (multiplies(graph) && isWrong(plan, first)) // elsewhere no fault is planted
      its.numbers["wide"] = part["wide"];
    if (other == first)
      return std::nullopt;
    return "too far";
  }
  Scratch make(const KernelGraph &graph, const KernelPlan &plan, const CpuTarget &target, const std::string &symbol,
               EmitForm form, const std::string &path) const override {
    bool adds = isWrong(plan, choose(graph, target, ScheduleTable::standard()));
    return Behind::make(adds ? wrong(graph) : graph, plan, target, symbol, form, path);
  }
  static bool isWrong(const KernelPlan &plan, const KernelPlan &first) {
    return 2 * plan.parts.at(0)["wide"] == first.parts.at(0)["wide"];
  }
};

class TuneTest : public testing::Test {
protected:
  std::string folder = folderOfTest();
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> scheduled, planned;
  TuneOptions options;

  void SetUp() override {
    context.loadDialect<ir::QuernDialect, mlir::func::FuncDialect>();
    options.compile.target = cpuTarget("native");
    options.compile.schedules = ScheduleTable::standard();
    options.compile.cache = std::string(std::getenv("QUERN_BUILD")) + "/specs/cache";
    options.compile.spec = "squares.quern";
    options.where = {options.compile.target.resolved, "a machine", "1 thread, prefill 64"};
    options.workload = {"-p", "64", "--threads", "1", "--seconds", "0.05"};
    options.draws = 0;
  }

  /// One kernel, elementwise.
  void build() {
    frontend::SpecInput input;
    input.name = "squares.quern";
    input.text =
        "quern 1\nmodel squares {\n  dim V = 50, D = 40\n  forward(tokens: int[B, T]) -> [B, T, D] {\n"
        "    param words: [V, D] @ \"words\" ~ normal(1.0)\n    x = words[V = tokens]\n    return x * x\n  }\n}\n";
    frontend::Diagnostics diagnostics;
    scheduled = frontend::elaborate(context, input, diagnostics);
    std::ostringstream messages;
    diagnostics.print(messages, false);
    ASSERT_TRUE(scheduled) << messages.str();
    passes::PassOptions passes;
    passes.packing = packingRule(options.compile.schedules, options.compile.target);
    passes.planning = [this](mlir::ModuleOp module) { return planKernels(module, options.compile); };
    ASSERT_TRUE(mlir::succeeded(passes::runPhases(*scheduled, passes, "resolved", "scheduled")));
    planned = mlir::cast<mlir::ModuleOp>((*scheduled)->clone());
    ASSERT_TRUE(mlir::succeeded(passes::runPhases(*planned, passes, "scheduled", "")));
  }
};

} // namespace

TEST_F(TuneTest, WhatIsWrongOrCrashesNeverWins) {
  static const Planted planted;
  options.compile.producers = {&planted};
  build();
  TuningDatabase database(folder + "/tuning.sqlite");
  TuneReport report = tune(*scheduled, *planned, options, database);
  EXPECT_TRUE(report.finished);
  int wrong = 0, crashed = 0;
  for (const TunedKernel &kernel : report.kernels) {
    EXPECT_EQ(kernel.wrong, kernel.trials);
    EXPECT_EQ(kernel.after, kernel.before);
    for (const auto &[plans, trial] : database.trials(kernel.key, options.where)) {
      wrong += trial.outcome == "wrong";
      crashed += trial.outcome == "crashed";
      if (trial.outcome == "wrong")
        EXPECT_GT(trial.difference, options.tolerance) << plans.second;
      else
        EXPECT_THAT(trial.note, HasSubstr("signal")) << plans.second;
    }
  }
  EXPECT_GT(wrong, 0);
  EXPECT_EQ(crashed, wrong);
  std::string page = tunePage(report, "<squares>.quern", options.where);
  EXPECT_THAT(page, HasSubstr("Plans of &lt;squares&gt;.quern"));
  EXPECT_EQ(countOf("<circle class=\"wrong\"", page), wrong);
  EXPECT_EQ(countOf("<circle class=\"crashed\"", page), crashed);
  EXPECT_THAT(page, HasSubstr("work ")); // what was changed
  EXPECT_TRUE(database.plans().empty());
}

/// The device's memory is where results are compared.
TEST_F(TuneTest, WhatIsWrongOnADeviceNeverWins) {
  static const PlantedOnDevice planted;
  const std::string folderOfBuild = std::getenv("QUERN_BUILD");
  setenv("QUERN_CUDA_LIBRARY", (folderOfBuild + "/lib/libquern_fake_cuda.so").c_str(), 0);
  setenv("POCL_CACHE_DIR", folder.c_str(), 0);
  for (const char *target : {"opencl", "cuda"}) {
    SCOPED_TRACE(target);
    options.compile.target = cpuTarget(target);
    options.compile.producers = {&planted};
    build();
    options.where = {options.compile.target.resolved, deviceOf(*planned, options), "prefill 64"};
    EXPECT_THAT(options.where.machine, testing::StartsWith(target == std::string("cuda") ? "CUDA" : "OpenCL"));
    TuningDatabase database(folder + "/" + target + ".sqlite");
    TuneReport report = tune(*scheduled, *planned, options, database);
    EXPECT_TRUE(report.finished);
    int wrong = 0, right = 0;
    for (const TunedKernel &kernel : report.kernels)
      for (const auto &[plans, trial] : database.trials(kernel.key, options.where)) {
        bool isWrong = PlantedOnDevice::isWrong(parsePlan(plans.second), parsePlan(kernel.before));
        EXPECT_EQ(trial.outcome == "wrong", isWrong) << plans.second << " " << trial.outcome << " " << trial.note;
        EXPECT_TRUE(isWrong || trial.outcome == "faster" || trial.outcome == "slower") << trial.outcome;
        EXPECT_EQ(trial.difference > options.tolerance, isWrong);
        EXPECT_FALSE(isWrong && kernel.after == plans.second);
        ++(isWrong ? wrong : right);
      }
    EXPECT_GT(wrong, 0);
    EXPECT_GT(right, 0);
    EXPECT_EQ(tune(*scheduled, *planned, options, database).measured, 0);
  }
}

TEST_F(TuneTest, ASecondRunMeasuresNothing) {
  static const Small small;
  options.compile.producers = {&small};
  build();
  TuningDatabase database(folder + "/tuning.sqlite");
  options.budget = 0;
  TuneReport none = tune(*scheduled, *planned, options, database);
  EXPECT_FALSE(none.finished);
  EXPECT_EQ(none.measured, 0);
  options.budget = 600;
  TuneReport first = tune(*scheduled, *planned, options, database);
  EXPECT_TRUE(first.finished);
  EXPECT_GE(first.measured, 2);
  EXPECT_EQ(first.kernels[0].wrong, 0);
  int64_t trials = database.trialCount();
  EXPECT_EQ(first.measured, trials);
  TuneReport second = tune(*scheduled, *planned, options, database);
  EXPECT_TRUE(second.finished);
  EXPECT_EQ(second.measured, 0);
  EXPECT_EQ(second.kernels[0].after, first.kernels[0].after);
  EXPECT_EQ(second.kernels[0].gain, first.kernels[0].gain);
  EXPECT_EQ(database.trialCount(), trials);
  // Other lengths are other measurements.
  options.where.work = "1 thread, prefill 65";
  options.budget = 0;
  EXPECT_FALSE(tune(*scheduled, *planned, options, database).finished);
}

TEST_F(TuneTest, PlansInAModule) {
  build();
  auto kernel = *scheduled->getOps<ir::KernelOp>().begin();
  auto planNow = [&]() -> std::string {
    auto plan = kernel->getAttrOfType<mlir::StringAttr>(ir::planAttr);
    return plan ? plan.str() : "";
  };
  KernelPlan plan = parsePlan(planNow());
  kernel->removeAttr(ir::planAttr);
  TunedPlan tuned{
      KernelCache::keyOf(readKernel(kernel).text), options.compile.target.resolved, "m", "w", "", 1, "", false};
  auto apply = [&](int64_t work, const std::string &target) {
    kernel->removeAttr(ir::planAttr);
    plan.parts.back().numbers["work"] = work;
    tuned.plan = plan.text();
    tuned.target = target;
    return applyPlans(*scheduled, {tuned}, options.compile);
  };
  AppliedPlans applied = apply(1234, options.compile.target.resolved);
  EXPECT_EQ(applied.applied, 1);
  EXPECT_EQ(planNow(), plan.text());
  EXPECT_EQ(applyPlans(*scheduled, {tuned}, options.compile).applied, 0) << "a kernel keeps the plan that it has";
  applied = apply(0, options.compile.target.resolved);
  EXPECT_EQ(applied.applied, 0);
  ASSERT_EQ(applied.refused.size(), 1u);
  EXPECT_THAT(applied.refused[0], HasSubstr("work 0 is not among 1 to 16777216"));
  EXPECT_EQ(planNow(), "");
  EXPECT_EQ(apply(1234, "another target").applied, 0);
}

// ---- files

static TunedPlan somePlan(const std::string &kernel, const std::string &machine) {
  return {kernel, "x86", machine, "2 threads, prefill 512", "halide: map(most = 64, work = 128)", 1.25, "gate_proj"};
}

TEST(TuningDatabase, KeepsWhatItIsGiven) {
  std::string folder = folderOfTest(), key(32, 'a');
  TuningConditions where{"x86", "mine", "2 threads"};
  {
    TuningDatabase database(folder + "/new/tuning.sqlite");
    database.keepTrial(key, where, "one", "other", {"slower", 1.5, 0.01, 1e-7, 20, 0, ""});
    database.keepTrial(key, where, "one", "third", {"unfinished", 0, 0, 0, 0, 2, ""});
    database.keepPlan(somePlan(key, "mine"));
    database.keepPlan(somePlan(key, "another"));
    database.keepShares("program", {{key, {1e6, "gate_proj", "a.quern:3:1"}}}, where);
  }
  TuningDatabase database(folder + "/new/tuning.sqlite");
  auto trials = database.trials(key, where);
  ASSERT_EQ(trials.size(), 2u);
  EXPECT_EQ(trials.at({"one", "other"}).ratio, 1.5);
  EXPECT_EQ(trials.at({"one", "third"}).attempts, 2);
  EXPECT_EQ(database.trialCount(), 1);
  EXPECT_TRUE(database.trials(key, {"x86", "mine", "1 threads"}).empty());
  EXPECT_EQ(database.plans().size(), 2u);
  EXPECT_EQ(database.plans("x86", "mine").size(), 1u);
  EXPECT_TRUE(database.plans("arm").empty());
  EXPECT_EQ(database.share("program", key, where)->title, "gate_proj");
  EXPECT_FALSE(database.share("other", key, where));
  database.dropPlan(key, where);
  EXPECT_EQ(database.plans().size(), 1u);
  EXPECT_EQ(database.lastDevice("cuda", ""), "");
  for (const char *device : {"an H100", "an A100", "an H100", "a T4"})
    database.keepDevice({device[0] == 'a' && device[2] == 'T' ? "opencl" : "cuda", device, ""});
  EXPECT_EQ(database.lastDevice("cuda", ""), "an H100");
  EXPECT_EQ(database.lastDevice("cuda", "A100"), "an A100");
  EXPECT_EQ(database.lastDevice("cuda", "T4"), "");
}

TEST(PlanSeeds, TheNearestKernelsPlanFitted) {
  TuningDatabase database(folderOfTest() + "/tuning.sqlite");
  TuningConditions where{"a target", "a machine", "1 thread"};
  auto anchors = [](int64_t outer, int64_t inner, const char *family = "contract") {
    Facts facts = factsOf(cpuTarget("x86-64-v3"));
    facts.insert({{"outer", outer}, {"inner", inner}, {"tile", 16}});
    return std::vector<Anchor>{{family, -1, facts}};
  };
  auto plan = [&](const std::string &kernel, int unroll) {
    KernelPlan made{"halide", chooseParts(anchors(768, 768), ScheduleTable())};
    made.parts[0].numbers["unroll"] = unroll;
    database.keepPlan({kernel, where.target, where.machine, where.work, made.text(), 1.1, "", false});
  };
  { // none is known yet, and that is kept
    PlanSeeds seeds(database, where);
    EXPECT_EQ(seeds.seedOf("near", "halide", anchors(1024, 768)), "");
    EXPECT_EQ(seeds.seedOf("far", "halide", anchors(64, 64)), "");
    EXPECT_EQ(seeds.seedOf("other", "halide", anchors(1024, 768, "grouped")), "");
  }
  plan("near", 8), plan("far", 2);
  PlanSeeds seeds(database, where);
  auto unrollOf = [&](const std::string &kernel, const std::vector<Anchor> &its) {
    std::string text = seeds.seedOf(kernel, "halide", its);
    return text.empty() ? 0 : parsePlan(text).parts[0]["unroll"];
  };
  EXPECT_EQ(unrollOf("new", anchors(768, 768)), 8);
  EXPECT_EQ(unrollOf("small", anchors(64, 48)), 2);
  EXPECT_EQ(unrollOf("odd", anchors(768, 700)), 4); // which divides the depth
  EXPECT_EQ(unrollOf("family", anchors(768, 768, "dense")), 0);
  EXPECT_EQ(seeds.seedOf("producer", "plain", anchors(768, 768)), "");
  EXPECT_EQ(seeds.seedOf("near", "halide", anchors(1024, 768)), "") << "a search goes on with what it began with";
  plan("new", 1);
  EXPECT_EQ(PlanSeeds(database, where).seedOf("new", "halide", anchors(768, 768)),
            seeds.seedOf("new", "halide", anchors(768, 768)));
}

TEST(TuningDatabase, SaysWhatIsWrongWithAFile) {
  std::string folder = folderOfTest(), path = folder + "/tuning.sqlite";
  auto open = [&] { return messageOf([&] { TuningDatabase database(path); }); };
  std::ofstream(path) << std::string(5000, 'x');
  EXPECT_THAT(open(), HasSubstr(path + ": file is not a database; it is broken or something else: name another with "
                                       "--database, or remove it"));
  std::filesystem::remove(path);
  {
    TuningDatabase database(path);
  }
  std::filesystem::resize_file(path, 5000); // of pages of 4096
  EXPECT_THAT(open(), HasSubstr(path + ": "));
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(path);
  EXPECT_THAT(open(), HasSubstr(path + ": unable to open database file"));
}

TEST(TunedPlans, AsText) {
  std::string key(32, 'b');
  std::vector<TunedPlan> plans = {somePlan(key, "mine"), somePlan(std::string(32, 'c'), "mine")};
  std::string text = plansText(plans);
  std::vector<TunedPlan> read = parsePlans(text, "a");
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].plan, plans[0].plan);
  EXPECT_EQ(read[0].gain, 1.25);
  EXPECT_EQ(read[0].title, "gate_proj");
  EXPECT_EQ(plansText(read), text);
  auto failure = [](const std::string &line) { return messageOf([&] { parsePlans("# plans\n" + line, "a.plans"); }); };
  EXPECT_EQ(failure("aa | bb"),
            "a.plans:2: KERNEL | TARGET | MACHINE | WORK | GAIN | PLAN | TITLE is needed, not 2 fields");
  EXPECT_EQ(failure("aa | x86 | m | w | 1.1 | halide | t"),
            "a.plans:2: 'aa' is no kernel's key of 32 hexadecimal digits");
  EXPECT_EQ(failure(key + " | x86 | m | w | fast | halide | t"), "a.plans:2: the gain 'fast' is no number above 0");
  EXPECT_THAT(failure(key + " | x86 | m | w | 1.1 | halide: map( | t"),
              HasSubstr("a.plans:2: its plan reads 'halide: map('"));
}

TEST(TunedPlans, Change) {
  EXPECT_EQ(planChange("halide: map(most = 1, work = 2)", "halide: map(most = 1, work = 4)"), "work 2 -> 4");
  EXPECT_EQ(planChange("halide: row(work = 1), map(work = 2)", "halide: row(work = 3), map(work = 4)"),
            "row work 1 -> 3, map work 2 -> 4");
}

TEST(Child, TellsLinesAndHowItEnded) {
  std::string errors = folderOfTest() + "/errors";
  {
    runtime::Child child({"/bin/sh", "-c", "echo one; echo two; echo wrong >&2; exit 3"}, errors);
    EXPECT_EQ(child.line(60), "one");
    EXPECT_EQ(child.line(60), "two");
    EXPECT_EQ(child.line(60), std::nullopt);
    EXPECT_FALSE(child.timedOut());
    runtime::Ending end = child.finish();
    EXPECT_EQ(end.status, 3);
    EXPECT_EQ(end.how, "status 3");
  }
  runtime::Child crashing({"/bin/sh", "-c", "kill -SEGV $$"}, errors);
  EXPECT_EQ(crashing.line(60), std::nullopt);
  runtime::Ending end = crashing.finish();
  EXPECT_EQ(end.status, -1);
  EXPECT_THAT(end.how, HasSubstr("signal 11"));
  runtime::Child hanging({"/bin/sh", "-c", "exec sleep 600"}, errors);
  EXPECT_EQ(hanging.line(0.05), std::nullopt);
  EXPECT_TRUE(hanging.timedOut());
  EXPECT_THAT(hanging.finish().how, HasSubstr("signal 9"));
}
