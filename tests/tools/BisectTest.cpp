// Faults planted in a pass, in a kernel and in a weight, and what bisect makes of them.
#include "tools/bisect/Bisect.h"
#include "codegen/PlanKernels.h"
#include "codegen/schedule/ChoosePlan.h"
#include "frontend/Frontend.h"
#include "ir/analysis/Options.h"
#include "tools/interpret/InterpretSafetensors.h"

#include "mlir/IR/MLIRContext.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

using namespace mlir;
using namespace quern::ir;
using namespace quern::tools;
using testing::HasSubstr;
using testing::StartsWith;

namespace {

std::string source(const std::string &path) {
  return std::string(std::getenv("QUERN_SOURCE")) + "/" + path;
}

std::string textOf(const std::string &path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

OutputTensor tensorOf(std::vector<int64_t> shape, const std::vector<double> &numbers) {
  return {"F64", std::move(shape), std::string(reinterpret_cast<const char *>(numbers.data()), numbers.size() * 8)};
}

class BisectTest : public testing::Test {
protected:
  void SetUp() override {
    folder = std::string(std::getenv("QUERN_BUILD")) + "/tests/bisect-" +
             testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder);
    std::vector<int64_t> tokens = {1, 5, 9, 2, 7, 3, 8, 4, 6, 11};
    writeSafetensors(
        folder + "/input.safetensors",
        {{"tokens", {"I64", {2, 5}, std::string(reinterpret_cast<const char *>(tokens.data()), tokens.size() * 8)}}});
    options.files.weights = source("tests/data/llama/model.safetensors");
    options.files.input = folder + "/input.safetensors";
    options.compile.target = quern::codegen::cpuTarget("native");
    options.compile.schedules = quern::codegen::ScheduleTable::standard();
    options.compile.cache = std::string(std::getenv("QUERN_BUILD")) + "/specs/cache";
    options.compile.spec = "llama.quern";
    options.compile.schedules.add("contract vector > 0 : rows 2, columns 16, unroll 1, row_block 4\n", "small tiles");
    options.passes.packing = quern::codegen::packingRule(options.compile.schedules, options.compile.target);
    options.passes.planning = [this](ModuleOp module) { return quern::codegen::planKernels(module, options.compile); };
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  OwningOpRef<ModuleOp> llama(MLIRContext &context) {
    quern::frontend::SpecInput input;
    input.name = "llama.quern";
    input.text = textOf(source("examples/llama.quern"));
    input.configText = textOf(source("tests/data/llama/config.json"));
    quern::frontend::Diagnostics diagnostics;
    return quern::frontend::elaborate(context, input, diagnostics);
  }

  Divergence run() {
    MLIRContext context(DialectRegistry(), MLIRContext::Threading::DISABLED);
    OwningOpRef<ModuleOp> module = llama(context);
    EXPECT_TRUE(module);
    setOptions(*module, asked);
    return bisect(*module, options);
  }
  /// The number of the line of the spec that holds `text`.
  std::string lineOf(const std::string &text) {
    std::string spec = textOf(source("examples/llama.quern"));
    size_t at = spec.find(text);
    EXPECT_NE(at, std::string::npos) << text;
    return "llama.quern:" + std::to_string(std::count(spec.begin(), spec.begin() + at, '\n') + 1) + ":";
  }
  /// The checkpoint with one element of one tensor changed.
  std::string alteredWeights(const std::string &name, double value) {
    SafetensorsFiles files(options.files.weights);
    std::map<std::string, OutputTensor> tensors;
    for (const auto &[key, stored] : files.getTensors()) {
      std::vector<double> numbers = stored.asDoubles();
      if (key == name)
        numbers.at(3) = value;
      tensors[key] = tensorOf(stored.shape, numbers);
    }
    EXPECT_TRUE(tensors.count(name));
    writeSafetensors(folder + "/altered.safetensors", tensors);
    return folder + "/altered.safetensors";
  }

  std::string folder;
  BisectOptions options;
  ProgramOptions asked;
};

} // namespace

TEST_F(BisectTest, FindsNothingWhereNothingIsWrong) {
  Divergence found = run();
  EXPECT_EQ(found.stage, "none") << found.message;
  EXPECT_LT(found.difference, 1e-4);
  EXPECT_THAT(found.message, HasSubstr("nothing differs"));
}

/// What a pass rounds as it is asked to is the judge of what comes behind it.
TEST_F(BisectTest, FollowsWhatIsRounded) {
  asked.quantize = "w8a8";
  options.tolerance = 3e-2; // a row's number may fall to either of two codes
  options.passes.pairCodes = true;
  Divergence found = run();
  EXPECT_EQ(found.stage, "none") << found.message;
  EXPECT_LT(found.difference, options.tolerance);
  EXPECT_THAT(found.message, HasSubstr("the pass 'narrow-storage' rounds, as the program's options ask: by "));
  EXPECT_THAT(found.message, HasSubstr("the pass 'pair-codes' rounds"));
  // A pass that must not.
  options.plantInPass = [](StringRef pass, ModuleOp module) {
    if (pass == "write-out-softmax")
      module.walk([](QuantizeOp codes) { codes.setPaired(false); });
  };
  found = run();
  EXPECT_EQ(found.stage, "pass") << found.message;
  EXPECT_EQ(found.name, "write-out-softmax");
  EXPECT_EQ(found.op, "quern.quantize");
}

TEST_F(BisectTest, NamesAPassThatChangesAConstant) {
  // A pass that takes the epsilon of the norms for another number.
  options.plantInPass = [](StringRef pass, ModuleOp module) {
    if (pass != "incremental")
      return;
    module.lookupSymbol<func::FuncOp>("forward").walk([](RepeatOp repeat) {
      repeat.walk([](SqrtOp root) {
        auto sum = root.getX().getDefiningOp<AddOp>();
        OpBuilder builder(root);
        auto twice = AddOp::create(builder, sum.getLoc(), sum.getType(), sum.getResult(), sum.getB());
        root->setOperand(0, twice.getResult());
        return WalkResult::interrupt();
      });
    });
  };
  Divergence found = run();
  EXPECT_EQ(found.stage, "pass") << found.message;
  EXPECT_EQ(found.name, "incremental");
  EXPECT_EQ(found.layer, "model.layers.0");
  EXPECT_EQ(found.op, "quern.add");
  EXPECT_THAT(found.place, StartsWith(lineOf("@ \"input_layernorm\"")));
  EXPECT_THAT(found.place, HasSubstr("std.quern:"));
}

TEST_F(BisectTest, NamesTheOperationInAKernelThatAPassMade) {
  // Outlining that swaps a division's sides: norms.
  options.plantInPass = [](StringRef pass, ModuleOp module) {
    if (pass != "outline-kernels")
      return;
    for (KernelOp kernel : module.getOps<KernelOp>())
      for (DivOp op : kernel.getBlock().getOps<DivOp>()) {
        if (typeOf(op.getA()).getRank() < 2)
          continue; // frequencies of rotary positions
        Value a = op.getA();
        op->setOperand(0, op.getB());
        op->setOperand(1, a);
      }
  };
  Divergence found = run();
  EXPECT_EQ(found.stage, "pass") << found.message;
  EXPECT_EQ(found.name, "outline-kernels");
  EXPECT_EQ(found.layer, "model.layers.0");
  EXPECT_THAT(found.op, StartsWith("quern.div in kernel @"));
  EXPECT_THAT(found.place, StartsWith(lineOf("@ \"input_layernorm\"")));
}

TEST_F(BisectTest, NamesAPassWhoseResultCannotRun) {
  options.plantInPass = [](StringRef pass, ModuleOp module) {
    if (pass == "cse")
      module.lookupSymbol<func::FuncOp>("forward").walk([](GatherOp gather) {
        OpBuilder builder(gather);
        auto far = ConstOp::create(builder, gather.getLoc(), NamedTensorType::get(builder.getContext(), Kind::Int, {}),
                                   builder.getI64IntegerAttr(1000));
        auto moved = AddOp::create(builder, gather.getLoc(), cast<NamedTensorType>(gather.getPositions().getType()),
                                   gather.getPositions(), far.getResult());
        gather->setOperand(1, moved.getResult());
      });
  };
  Divergence found = run();
  EXPECT_EQ(found.stage, "pass") << found.message;
  EXPECT_EQ(found.name, "cse");
  EXPECT_THAT(found.message, HasSubstr("Q028"));
}

TEST_F(BisectTest, NamesAKernelAndItsLayer) {
  // A code generator that forgets the activation: only the feed-forward's kernel is wrong.
  options.plantInKernels = [](ModuleOp planned) {
    for (KernelOp kernel : planned.getOps<KernelOp>())
      kernel.walk([](SigmoidOp op) { op->replaceAllUsesWith(ValueRange{op.getX()}); });
  };
  Divergence found = run();
  EXPECT_EQ(found.stage, "kernel") << found.message;
  EXPECT_EQ(found.layer, "model.layers.0");
  EXPECT_THAT(found.op, HasSubstr("quern.launch of kernel @" + found.name));
  EXPECT_THAT(found.message, HasSubstr("quern.sigmoid at " + lineOf("activation(gate, hidden_act)")));
}

TEST_F(BisectTest, NamesAWeight) {
  std::string right = options.files.weights;
  options.files.weights = alteredWeights("model.layers.1.mlp.up_proj.weight", 3);
  options.reference = right;
  Divergence found = run();
  EXPECT_EQ(found.stage, "weights") << found.message;
  EXPECT_EQ(found.name, "model.layers.1.mlp.up_proj.weight");
  EXPECT_EQ(found.layer, "model.layers.1");
  EXPECT_THAT(found.place, StartsWith(lineOf("@ \"mlp.up_proj\"")));
  EXPECT_THAT(found.message, HasSubstr("is 3.000000, not "));
}

TEST_F(BisectTest, KnowsThatTheCompilerIsNotToBlame) {
  // The results of the right weights, as a golden file has them.
  InterpretOptions golden = options.files;
  golden.output = options.expected = folder + "/expected.safetensors";
  {
    MLIRContext context(DialectRegistry(), MLIRContext::Threading::DISABLED);
    OwningOpRef<ModuleOp> module = llama(context);
    ASSERT_EQ(interpretMain(*module, golden), 0);
  }
  EXPECT_EQ(run().stage, "none");
  options.files.weights = alteredWeights("model.layers.0.self_attn.v_proj.weight", 2);
  Divergence found = run();
  EXPECT_EQ(found.stage, "spec") << found.message;
  EXPECT_THAT(found.message, HasSubstr("not in the compiler"));
  EXPECT_THAT(found.message, HasSubstr("--reference-weights"));
  options.reference = source("tests/data/llama/model.safetensors");
  found = run();
  EXPECT_EQ(found.stage, "weights");
  EXPECT_EQ(found.name, "model.layers.0.self_attn.v_proj.weight");
}

TEST_F(BisectTest, NamesAWeightThatIsNotANumber) {
  options.files.weights = alteredWeights("model.layers.1.self_attn.o_proj.weight", NAN);
  Divergence found = run();
  EXPECT_EQ(found.stage, "weights") << found.message;
  EXPECT_EQ(found.name, "model.layers.1.self_attn.o_proj.weight");
  EXPECT_EQ(found.layer, "model.layers.1");
}
