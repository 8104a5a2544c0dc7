// Takes: a module to be trained (`quern.train`). Gives: the functions that a training step calls after @loss.grad, each
// on `elements` numbers of all parameters that follow one another in memory, whatever tensors they belong to:
//
//   @update.sgd(p, g, rate, scale, decay) -> p            @update.adam, @update.adamw(p, g, m, v, ...) -> p, m, v
//   @update.momentum, @update.nesterov(p, g, m, ...) -> p, m
//   @gradient.squares(g) -> sum of g * g                  @gradient.add(a, g, scale) -> a + scale * g
//
// Why flat: an update is the same for every element, so one kernel serves all tensors of all models. The runtime calls
// it in pieces that stay in the cache: the p, g, m, v of memory are read once and written once.
#include "ir/Attributes.h"
#include "ir/analysis/Functions.h"
#include "ir/analysis/Options.h"
#include "passes/Passes.h"
#include "passes/gradient/Gradients.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace quern::passes;
using namespace quern::ir;

namespace {

using Values = llvm::StringMap<Value>;

/// A function being built: its arguments by name, tensors first, then plain numbers.
class Function : public GradientBuilder {
public:
  Function(ModuleOp module, StringRef name, ArrayRef<StringRef> tensors, ArrayRef<StringRef> numbers)
      : GradientBuilder(OpBuilder::atBlockEnd(module.getBody()), module.getLoc()) {
    MLIRContext *context = module.getContext();
    NamedTensorType number = NamedTensorType::get(context, Kind::Real, {});
    DimAttr elements = DimAttr::get(context, "E", Size::symbol("elements"));
    SmallVector<Type> types(tensors.size(), NamedTensorType::get(context, Kind::Real, {elements}));
    types.append(numbers.size(), number);
    function = func::FuncOp::create(b, loc, name, b.getFunctionType(types, {}));
    setRole(function, Role::Update);
    b.setInsertionPointToStart(function.addEntryBlock());
    SmallVector<StringRef> names(tensors);
    names.append(numbers.begin(), numbers.end());
    for (auto [i, label] : llvm::enumerate(names)) {
      function.setArgAttr(i, nameAttr, b.getStringAttr(label));
      arguments[label] = function.getArgument(i);
    }
  }
  Value operator[](StringRef name) { return arguments[name]; }

  void finish(ArrayRef<std::pair<StringRef, Value>> results) {
    SmallVector<Value> values;
    for (auto &[name, value] : results)
      values.push_back(value);
    func::ReturnOp::create(b, loc, values);
    function.setType(b.getFunctionType(function.getArgumentTypes(), ValueRange(values).getTypes()));
    for (auto [i, result] : llvm::enumerate(results))
      function.setResultAttr(i, nameAttr, b.getStringAttr(result.first));
  }

private:
  func::FuncOp function;
  Values arguments;
};

// ---- the formulas; `scale` makes the stored gradient that of the mean loss, clipped

void buildSgd(ModuleOp module) {
  Function f(module, "update.sgd", {"p", "g"}, {"rate", "scale", "decay"});
  Value g = f.add(f.mul(f["g"], f["scale"]), f.mul(f["p"], f["decay"]));
  f.finish({{"p", f.sub(f["p"], f.mul(f["rate"], g))}});
}

/// m' = momentum * m + g; p' = p - rate * m', or with the slope where the momentum will lead (Nesterov 1983).
void buildMomentum(ModuleOp module, bool nesterov) {
  Function f(module, nesterov ? "update.nesterov" : "update.momentum", {"p", "g", "m"},
             {"rate", "scale", "decay", "momentum"});
  Value g = f.add(f.mul(f["g"], f["scale"]), f.mul(f["p"], f["decay"]));
  Value m = f.add(f.mul(f["momentum"], f["m"]), g);
  Value step = nesterov ? f.add(g, f.mul(f["momentum"], m)) : m;
  f.finish({{"p", f.sub(f["p"], f.mul(f["rate"], step))}, {"m", m}});
}

/// Kingma and Ba 2014; `decoupled`: decay shrinks p itself (Loshchilov and Hutter 2017) instead of joining the
/// gradient. correct1 = 1 / (1 - beta1^step), correct2 likewise.
void buildAdam(ModuleOp module, bool decoupled) {
  Function f(module, decoupled ? "update.adamw" : "update.adam", {"p", "g", "m", "v"},
             {"rate", "scale", "decay", "beta1", "beta2", "epsilon", "correct1", "correct2"});
  Value g = f.mul(f["g"], f["scale"]), p = f["p"], one = f.number(1.0);
  if (decoupled)
    p = f.mul(p, f.sub(one, f.mul(f["rate"], f["decay"])));
  else
    g = f.add(g, f.mul(p, f["decay"]));
  auto blend = [&](StringRef beta, StringRef old, Value now) {
    return f.add(f.mul(f[beta], f[old]), f.mul(f.sub(one, f[beta]), now));
  };
  Value m = blend("beta1", "m", g), v = blend("beta2", "v", f.mul(g, g));
  Value width = f.add(f.make<SqrtOp>(f.mul(v, f["correct2"])), f["epsilon"]);
  f.finish({{"p", f.sub(p, f.mul(f["rate"], f.div(f.mul(m, f["correct1"]), width)))}, {"m", m}, {"v", v}});
}

void buildSquares(ModuleOp module) {
  Function f(module, "gradient.squares", {"g"}, {});
  f.finish({{"sum", f.sum(f.mul(f["g"], f["g"]), {"E"})}});
}

void buildAdd(ModuleOp module) {
  Function f(module, "gradient.add", {"a", "g"}, {"scale"});
  f.finish({{"a", f.add(f["a"], f.mul(f["g"], f["scale"]))}});
}

class OptimizersPass : public PassWrapper<OptimizersPass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(OptimizersPass)
  StringRef getArgument() const final { return "optimizers"; }
  StringRef getDescription() const final { return "Add the functions that update parameters"; }
  void getDependentDialects(DialectRegistry &registry) const final {
    registry.insert<func::FuncDialect, QuernDialect>();
  }

  void runOnOperation() final {
    ModuleOp module = getOperation();
    if (!optionsOf(module).train)
      return;
    buildSgd(module);
    buildMomentum(module, /*nesterov=*/false);
    buildMomentum(module, /*nesterov=*/true);
    buildAdam(module, /*decoupled=*/false);
    buildAdam(module, /*decoupled=*/true);
    buildSquares(module);
    buildAdd(module);
  }
};

} // namespace

std::unique_ptr<Pass> quern::passes::createOptimizersPass() {
  return std::make_unique<OptimizersPass>();
}
