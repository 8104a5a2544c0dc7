// A golden model whose kernels come from a producer that the compiler knows nothing of: plans, cache, host program and
// runtime do with it what they do with Halide's.
#include "codegen/PlanKernels.h"
#include "codegen/schedule/ChoosePlan.h"
#include "frontend/Frontend.h"
#include "ir/Attributes.h"
#include "ir/Dialect.h"
#include "ir/analysis/Functions.h"
#include "passes/Phases.h"
#include "tests/specs/CompiledModule.h"
#include "tests/specs/PlainProducer.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstring>
#include <fstream>

using namespace quern;

static std::string textOf(const std::string &path) {
  std::ifstream file(std::string(std::getenv("QUERN_SOURCE")) + "/" + path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

namespace {
struct Golden {
  std::vector<int64_t> shape;
  std::string bytes;
  template <class T> std::vector<T> as() const {
    std::vector<T> numbers(bytes.size() / sizeof(T));
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return numbers;
  }
};
} // namespace

static std::map<std::string, Golden> readGolden(const std::string &path) {
  std::string file = textOf(path);
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  std::map<std::string, Golden> tensors;
  nlohmann::json header = nlohmann::json::parse(file.substr(8, length));
  for (auto &[name, about] : header.items())
    if (name != "__metadata__") {
      auto at = about["data_offsets"].get<std::vector<uint64_t>>();
      tensors[name] = {about["shape"], file.substr(8 + length + at[0], at[1] - at[0])};
    }
  return tensors;
}

TEST(SecondProducer, MakesAllKernelsOfAGoldenModel) {
  mlir::MLIRContext context;
  context.loadDialect<ir::QuernDialect, mlir::func::FuncDialect>();
  frontend::SpecInput input;
  input.name = "llama.quern";
  input.text = textOf("examples/llama.quern");
  input.configText = textOf("tests/data/llama/config.json");
  frontend::Diagnostics diagnostics;
  mlir::OwningOpRef<mlir::ModuleOp> module = frontend::elaborate(context, input, diagnostics);
  ASSERT_TRUE(module);

  codegen::PlanOptions plans{
      codegen::cpuTarget("native"), codegen::ScheduleTable::standard(), {&test::plainProducer()}};
  passes::PassOptions options;
  options.packing = codegen::packingRule(plans.schedules, plans.target);
  options.planning = [&](mlir::ModuleOp module) { return codegen::planKernels(module, plans); };
  ASSERT_TRUE(succeeded(passes::runPhases(*module, options)));
  for (ir::KernelOp kernel : module->getOps<ir::KernelOp>()) {
    auto plan = kernel->getAttrOfType<mlir::StringAttr>(ir::planAttr);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan.getValue(), "plain");
  }

  std::map<std::string, Golden> golden = readGolden("tests/data/llama/expected.safetensors");
  test::Checkpoint weights;
  for (auto &[name, stored] : readGolden("tests/data/llama/model.safetensors"))
    weights[name] = {stored.shape, stored.as<float>()};
  test::CompiledModule program(*module, weights, plans, std::string(std::getenv("QUERN_BUILD")) + "/specs/cache");
  auto function = module->lookupSymbol<mlir::func::FuncOp>("forward");
  std::vector<ir::NamedSize> dims;
  const Golden &tokens = golden.at("input_ids");
  for (ir::DimAttr dim : mlir::cast<ir::NamedTensorType>(function.getArgumentTypes()[0]).getDims())
    dims.push_back({dim.getName().str(), tokens.shape[dims.size()]});
  std::string name = ir::argumentName(function, 0).str();
  std::vector<double> got = program.evaluate("forward", {{name, ir::Array(ir::Kind::Int, dims, tokens.as<int64_t>())}});
  std::vector<double> want = golden.at("logits_f64").as<double>();
  ASSERT_EQ(got.size(), want.size());
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i)
    worst = std::max(worst, std::abs(got[i] - want[i]));
  EXPECT_LE(worst, 1e-5);
}
