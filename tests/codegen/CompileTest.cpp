// From a quern.kernel as text to an object: reading, the cache, and what is said when it cannot be used.
#include "codegen/CompileKernels.h"
#include "codegen/halide/EmitKernel.h"
#include "codegen/ReadKernel.h"
#include "ir/Dialect.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <filesystem>
#include <gtest/gtest.h>

using namespace quern::codegen;

static const char text[] = R"(
quern.kernel @scale_0(%x: !quern.tensor<real[d0 = s0, d1 = 24]> #quern.layout<"strided", ["_", "1"]>,
                      %w: !quern.tensor<real[d2 = 40, d1 = 24]> #quern.layout<"packed", ["24", "1"], tile = 16, dims = ["d2", "d1"]>)
    -> (#quern.layout<"strided", ["40", "1"]>) {
  %0 = quern.contract %x, %w over ["d1"] : (!quern.tensor<real[d0 = s0, d1 = 24]>, !quern.tensor<real[d2 = 40, d1 = 24]>) -> !quern.tensor<real[d0 = s0, d2 = 40]>
  %1 = quern.const 5.000000e-01 : f64 -> !quern.tensor<real[]>
  %2 = quern.mul %0, %1 : (!quern.tensor<real[d0 = s0, d2 = 40]>, !quern.tensor<real[]>) -> !quern.tensor<real[d0 = s0, d2 = 40]>
  quern.yield %2 : !quern.tensor<real[d0 = s0, d2 = 40]>
}
)";

namespace {
class Compile : public testing::Test {
protected:
  Compile() {
    context.loadDialect<quern::ir::QuernDialect>();
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    folder = std::filesystem::temp_directory_path() / ("quern_compile_test_" + std::to_string(getpid()));
    options.target = cpuTarget("x86-64-v3");
    options.schedules = ScheduleTable::standard();
    options.cache = (folder / "cache").string();
  }
  ~Compile() override { std::filesystem::remove_all(folder); }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::filesystem::path folder;
  CompileOptions options;
};
} // namespace

TEST_F(Compile, ReadsSymbolsLayoutsAndNodes) {
  ASSERT_TRUE(module);
  KernelGraph graph = readKernel(*module->getOps<quern::ir::KernelOp>().begin());
  EXPECT_EQ(graph.symbols, std::vector<std::string>{"s0"});
  ASSERT_EQ(graph.argumentCount(), 2);
  EXPECT_FALSE(graph.argumentLayouts[0].strides[0].has_value());
  EXPECT_TRUE(graph.argumentLayouts[1].packed);
  EXPECT_EQ(graph.argumentLayouts[1].tile, 16);
  EXPECT_EQ(graph.nodes[2].op, Op::Contract);
  EXPECT_EQ(graph.results, std::vector<int>{4});
}

TEST_F(Compile, SecondTimeComesFromTheCache) {
  KernelFiles first = compileKernels(*module, options, folder.string());
  EXPECT_EQ(first.count, 1);
  EXPECT_EQ(first.cached, 0);
  ASSERT_EQ(first.paths.size(), 2u); // the kernel, and Halide's runtime
  for (const std::string &path : first.paths)
    EXPECT_GT(std::filesystem::file_size(path), 0u);
  KernelFiles second = compileKernels(*module, options, folder.string());
  EXPECT_EQ(second.cached, 1);
  EXPECT_EQ(second.paths, first.paths);
  // Another schedule is another object.
  options.schedules.add("contract : unroll 1", "test");
  EXPECT_EQ(compileKernels(*module, options, folder.string()).cached, 0);
}

TEST_F(Compile, ACacheThatCannotBeMade) {
  options.cache = "/dev/null/cache";
  try {
    compileKernels(*module, options, folder.string());
    FAIL();
  } catch (const std::exception &error) {
    EXPECT_NE(std::string(error.what()).find("name another with --cache-dir"), std::string::npos) << error.what();
  }
}
