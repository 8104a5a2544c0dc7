// From a quern.kernel as text to an object: reading, the cache, and what is said when it cannot be used.
#include "codegen/CompileKernels.h"
#include "codegen/PlanKernels.h"
#include "codegen/ReadKernel.h"
#include "codegen/kernel/KernelCache.h"
#include "ir/Attributes.h"
#include "ir/Dialect.h"
#include "support/Files.h"

#include "mlir/IR/Verifier.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <filesystem>
#include <gtest/gtest.h>

using namespace quern;
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
  ASSERT_EQ(first.paths.size(), 1u);
  for (const std::string &path : first.paths)
    EXPECT_GT(std::filesystem::file_size(path), 0u);
  KernelFiles second = compileKernels(*module, options, folder.string());
  EXPECT_EQ(second.cached, 1);
  EXPECT_EQ(second.paths, first.paths);
  EXPECT_EQ(second.symbols, first.symbols);
  // A schedule that leads to the same plan is the same object; another plan is another.
  options.schedules.add("attention : keys 256\n# nothing\ncontract inner > 1000 : unroll 1", "test");
  EXPECT_EQ(compileKernels(*module, options, folder.string()).cached, 1);
  options.schedules.add("contract : unroll 1", "test");
  KernelFiles third = compileKernels(*module, options, folder.string());
  EXPECT_EQ(third.cached, 0);
  EXPECT_NE(third.symbols, first.symbols);
}

TEST_F(Compile, TheNameOfAKernelIsNotInItsKey) {
  KernelFiles first = compileKernels(*module, options, folder.string());
  quern::ir::KernelOp kernel = *module->getOps<quern::ir::KernelOp>().begin();
  kernel.setSymName("another");
  KernelFiles second = compileKernels(*module, options, folder.string());
  EXPECT_EQ(second.cached, 1);
  EXPECT_EQ(second.symbols.at("another"), first.symbols.at("scale_0"));
}

TEST_F(Compile, DamagedObjectsAreMadeAgain) {
  KernelFiles first = compileKernels(*module, options, folder.string());
  size_t size = support::readFile(first.paths[0]).size();
  std::vector<std::filesystem::path> entries;
  for (const auto &entry : std::filesystem::directory_iterator(folder / "cache/kernels"))
    entries.push_back(entry.path());
  ASSERT_EQ(entries.size(), 1u);
  for (size_t byte : {size_t(20), size / 2, size - 1}) {
    for (const std::filesystem::path &entry : entries) {
      std::string content = support::readFile(entry.string());
      content[byte] ^= 4;
      writeWhole(entry, content);
    }
    KernelFiles again = compileKernels(*module, options, folder.string());
    EXPECT_EQ(again.cached, 0);
    std::string made =
        support::readFile(again.paths[0]); // Halide numbers its names anew in each compilation of a process
    KernelFiles third = compileKernels(*module, options, folder.string());
    EXPECT_EQ(third.cached, 1);
    EXPECT_TRUE(support::readFile(third.paths[0]) == made);
  }
}

TEST_F(Compile, PlansAreWrittenDownAndHonoured) {
  std::string message;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    message = diagnostic.str();
    return mlir::success();
  });
  ASSERT_TRUE(succeeded(planKernels(*module, options)));
  std::string printed;
  llvm::raw_string_ostream stream(printed);
  module->print(stream);
  std::string chosen =
      "quern.plan = \"halide: contract(ahead = 512, alone = 2, amx = 0, columns = 16, depth = 24, few = 0, "
      "group = 1, row_block = 10, rows = 6, side = 3, tiles = 4, together = 4, unroll = 4), "
      "row(inside = 512, lanes = 32, most = 64, work = 16384), map(most = 4096, work = 32768)\"";
  EXPECT_NE(printed.find(chosen), std::string::npos) << printed;
  KernelFiles first = compileKernels(*module, options, folder.string());
  std::string object = support::readFile(first.paths[0]);

  auto compile = [&](const std::string &from, const std::string &to) {
    std::string edited = printed;
    edited.replace(edited.find(from), from.size(), to);
    mlir::OwningOpRef<mlir::ModuleOp> again = mlir::parseSourceString<mlir::ModuleOp>(edited, &context);
    EXPECT_TRUE(again) << message;
    message.clear();
    bool fine = succeeded(planKernels(*again, options));
    EXPECT_EQ(fine, message.empty());
    return again ? compileKernels(*again, options, folder.string()) : KernelFiles();
  };
  EXPECT_EQ(compile("rows = 6", "rows = 6").cached, 1);
  KernelFiles other = compile("rows = 6", "rows = 3");
  EXPECT_EQ(other.cached, 0);
  EXPECT_TRUE(support::readFile(other.paths[0]) != object);
  EXPECT_EQ(compile("attributes {" + chosen + "} ", "").cached, 1); // chosen anew
  EXPECT_THROW(compile("rows = 6", "rows = 9"), std::runtime_error);
  EXPECT_EQ(message,
            "kernel scale_0: its plan cannot be made for x86-64-v3: contract: rows 9 x columns 16 do not fit the "
            "target's 16 registers of 8 floats");
  EXPECT_THROW(compile("halide:", "stone:"), std::runtime_error);
  EXPECT_EQ(message,
            "kernel scale_0: its plan is for 'stone', which makes no kernels; there are halide, scan, tile and gpu");
}

TEST_F(Compile, PlansThatAreNoneAreRefused) {
  std::string message;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    message = diagnostic.str();
    return mlir::success();
  });
  quern::ir::KernelOp kernel = *module->getOps<quern::ir::KernelOp>().begin();
  auto refusal = [&](const char *plan) {
    kernel->setAttr(quern::ir::planAttr, mlir::StringAttr::get(&context, plan));
    EXPECT_TRUE(failed(planKernels(*module, options)));
    return message;
  };
  EXPECT_EQ(refusal("halide: contract(rows = 6, rows = 6)"), "kernel scale_0: its plan says 'rows' of contract twice");
  EXPECT_EQ(refusal("halide: contract(rows 6)"),
            "kernel scale_0: its plan reads 'halide: contract(rows 6)': '=' is missing at position 23");
  EXPECT_EQ(refusal("halide: map(work = -1)"),
            "kernel scale_0: its plan reads 'halide: map(work = -1)': a number is missing at position 20");
  EXPECT_EQ(refusal(""), "kernel scale_0: its plan reads '': a producer is missing at position 1");
  kernel->setAttr(quern::ir::planAttr, mlir::UnitAttr::get(&context));
  EXPECT_TRUE(failed(mlir::verify(kernel)));
  EXPECT_EQ(message, "'quern.plan' is a string, not unit");
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
