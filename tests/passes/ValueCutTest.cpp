// Which values are kept and which are recomputed, by their costs.
#include "passes/ValueCut.h"

#include "ir/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace quern::passes;

namespace {

/// %a = neg %x, %b = exp %a, %c = %b + %a; %c is wanted, %a cannot be recomputed. Letters as K, A and N for a, b, c.
std::string chosen(std::vector<double> keep, std::vector<double> make) {
  MLIRContext context;
  context.loadDialect<quern::ir::QuernDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(R"(
func.func @f(%x: !quern.tensor<real[A = 2]>) {
  %a = quern.neg %x : (!quern.tensor<real[A = 2]>) -> !quern.tensor<real[A = 2]>
  %b = quern.exp %a : (!quern.tensor<real[A = 2]>) -> !quern.tensor<real[A = 2]>
  %c = quern.add %b, %a : (!quern.tensor<real[A = 2]>, !quern.tensor<real[A = 2]>) -> !quern.tensor<real[A = 2]>
  return
})",
                                                             &context);
  std::vector<Value> values;
  for (Operation &op : module->lookupSymbol<func::FuncOp>("f").front().without_terminator())
    values.push_back(op.getResult(0));
  auto costOf = [&](Value value, const std::vector<double> &costs) {
    return costs[size_t(std::find(values.begin(), values.end(), value) - values.begin())];
  };
  std::vector<Value> region(values.rbegin(), values.rend()); // what is wanted comes first
  std::vector<Had> had = leastCut(
      region, 1, [&](Value value) { return costOf(value, keep); }, [&](Value value) { return costOf(value, make); });
  std::string text;
  for (size_t i = had.size(); i-- > 0;)
    text += had[i] == Had::Kept ? 'K' : had[i] == Had::Again ? 'A' : 'N';
  return text;
}

TEST(ValueCut, TheCheapestWayToHaveWhatIsWanted) {
  constexpr double never = MinimumCut::unlimited;
  EXPECT_EQ(chosen({1, 1, 3}, {never, 5, 2}), "NNK") << "one value that spares all others";
  EXPECT_EQ(chosen({1, 1, 10}, {never, 5, 2}), "KKA") << "both operands, and the sum is recomputed";
  EXPECT_EQ(chosen({1, 20, 10}, {never, 5, 2}), "KAA") << "what cannot be recomputed alone is kept";
  EXPECT_EQ(chosen({1, 20, never}, {never, 50, 2}), "KKA") << "20 + 1 + 2 is less than 50 + 1 + 2";
  EXPECT_EQ(chosen({1, never, never}, {never, 50, 2}), "KAA") << "what must not be kept is made, whatever that costs";
}

} // namespace
