// `--memory` with and without bf16 in memory: the same budget leaves less to be recomputed.
#include "tools/spec/TrainingMemory.h"

#include "frontend/Frontend.h"
#include "ir/Dialect.h"
#include "ir/analysis/Options.h"
#include "passes/Passes.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/FormatVariadic.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

using namespace mlir;
using namespace quern;
using namespace quern::tools;

namespace {

struct Plan {
  bool fits = false;
  int64_t segment = 0; ///< iterations of a segment; 0: each layer keeps what it saves
  double price = 0, mib = 0;
};

class TrainingMemory : public testing::Test {
protected:
  Plan within(const std::string &memory, StringRef precision) {
    OwningOpRef<ModuleOp> module = gpt2();
    quern::ir::ProgramOptions asked = quern::ir::optionsOf(*module);
    asked.precision = *quern::support::storageByName(precision);
    quern::ir::setOptions(*module, asked);
    Plan plan;
    std::string report;
    try {
      EXPECT_TRUE(succeeded(runWithin(module, {memory, 1, 1024}, {}, "resolved", report)));
    } catch (const std::runtime_error &) {
      return plan;
    }
    plan.fits = true;
    plan.price = quern::ir::optionsOf(*module).savingPrice;
    plan.segment = quern::ir::optionsOf(*module).segmentIterations;
    StringRef(report).split("works in ").second.split(" MiB").first.getAsDouble(plan.mib);
    return plan;
  }

private:
  OwningOpRef<ModuleOp> gpt2() {
    context.loadDialect<ir::QuernDialect, func::FuncDialect>();
    std::ifstream file(std::string(std::getenv("QUERN_SOURCE")) + "/examples/gpt2.quern");
    frontend::SpecInput input;
    input.name = "gpt2.quern";
    input.text = std::string(std::istreambuf_iterator<char>(file), {});
    for (const char *setting : {"vocab_size=512", "n_positions=1024"})
      input.settings.push_back(*frontend::parseSetting(setting));
    input.train = true;
    frontend::Diagnostics diagnostics;
    OwningOpRef<ModuleOp> module = frontend::elaborate(context, input, diagnostics);
    EXPECT_TRUE(module);
    return module;
  }
  MLIRContext context{DialectRegistry(), MLIRContext::Threading::DISABLED};
};

} // namespace

TEST_F(TrainingMemory, NarrowSavesMoreOfTheSameBudget) {
  Plan ample = within("1G", "f32"), narrow = within("1G", "bf16");
  ASSERT_TRUE(ample.fits && narrow.fits);
  EXPECT_EQ(ample.segment, 0);
  EXPECT_LT(narrow.mib, 0.7 * ample.mib);
  int recomputed = 0, refused = 0; // budgets where only f32 recomputes, and where only f32 does not fit
  for (double share : {1.0, 0.7, 0.4}) {
    std::string budget = llvm::formatv("{0}K", static_cast<int64_t>(share * (narrow.mib + 0.1) * 1024));
    SCOPED_TRACE(budget);
    Plan wide = within(budget, "f32"), small = within(budget, "bf16");
    EXPECT_TRUE(small.fits || !wide.fits);
    refused += small.fits && !wide.fits;
    if (!wide.fits || !small.fits)
      continue;
    recomputed += (wide.segment || wide.price > 0) && !small.segment && small.price == 0;
    EXPECT_TRUE(!small.segment || wide.segment);
    EXPECT_TRUE(small.segment != wide.segment || small.price <= wide.price) << small.price << " and " << wide.price;
  }
  EXPECT_GT(recomputed, 0);
  EXPECT_GT(refused, 0);
}
