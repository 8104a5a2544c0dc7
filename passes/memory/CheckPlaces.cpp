// Takes: a module in phase `planned`. Gives: an error where the host program would find no memory for a result, or write
// beyond it.
#include "passes/Legality.h"

#include "ir/Attributes.h"
#include "ir/Dialect.h"
#include "ir/analysis/Functions.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace quern::ir;

/// Whether one of `sizes` is at least `bytes`, whatever the lengths are.
static bool hold(ArrayRef<Attribute> sizes, const Size &bytes) {
  return llvm::any_of(sizes, [&](Attribute text) {
    Size rest = *Size::parse(cast<StringAttr>(text).getValue()) - bytes;
    return llvm::all_of(rest.getTerms(), [](auto &term) { return term.second >= 0; });
  });
}

static Size iterationsAround(Operation *op) {
  Size iterations(1);
  for (auto loop = op->getParentOfType<RepeatOp>(); loop; loop = loop->getParentOfType<RepeatOp>())
    iterations = iterations * Size(static_cast<int64_t>(loop.getIterations()));
  return iterations;
}

static LogicalResult checkPlace(func::FuncOp function, Value result, PlaceAttr place) {
  Operation *op = result.getDefiningOp();
  unsigned index = place.getIndex();
  Size bytes = storedBytes(cast<NamedTensorType>(result.getType()));
  auto lacks = [&](const Twine &what) -> LogicalResult { return op->emitError() << place << ": " << what; };
  auto none = [&](const Twine &whose, size_t count) {
    return lacks(whose + " has " + Twine(count) + (count == 1 ? " such place" : " such places"));
  };
  switch (place.getKind()) {
  case PlaceKind::Arena: {
    ArrayRef<Attribute> slots = function->getAttrOfType<ArrayAttr>(arenaAttr).getValue();
    if (index >= slots.size())
      return none("the arena of the function", slots.size());
    if (!hold(cast<ArrayAttr>(slots[index]).getValue(), bytes))
      return lacks("the slot does not hold the " + bytes.str() + " bytes of the result");
    return success();
  }
  case PlaceKind::Kept: {
    ArrayRef<Attribute> sizes = function->getAttrOfType<ArrayAttr>(keptAttr).getValue();
    if (index >= sizes.size())
      return none("what the function keeps", sizes.size());
    if (!hold(sizes[index], bytes * iterationsAround(op)))
      return lacks("it does not hold the " + bytes.str() + " bytes of the result in each iteration");
    return success();
  }
  case PlaceKind::Output:
    if (index >= function.getNumResults())
      return none("the function", function.getNumResults());
    if (storedBytes(cast<NamedTensorType>(function.getResultTypes()[index])) != bytes &&
        !op->getParentOfType<RepeatOp>())
      return lacks("the function's result has another size");
    return success();
  case PlaceKind::Part: {
    auto loop = dyn_cast<RepeatOp>(op->getParentOp());
    if (!loop || index >= loop.getNumResults())
      return none("the loop around it", loop ? loop.getNumResults() : 0);
    if (loop.isCarried(index))
      return lacks("that result of the loop is no stack");
    return success();
  }
  case PlaceKind::Rows:
    if (llvm::none_of(result.getUsers(), llvm::IsaPred<RememberOp>))
      return lacks("no quern.remember takes the result");
    return success();
  case PlaceKind::State:
    if (!result.hasOneUse() || !isa<StoreOp>(*result.user_begin()))
      return lacks("no quern.store alone takes the result");
    return success();
  }
  llvm_unreachable("every kind of place is above");
}

LogicalResult quern::passes::checkPlaces(ModuleOp module) {
  LogicalResult all = success();
  for (auto function : module.getOps<func::FuncOp>()) {
    if (isEpoch(function))
      continue;
    if (!function->hasAttr(arenaAttr) || !function->hasAttr(keptAttr)) {
      all = function.emitError() << "has no plan of memory ('" << arenaAttr << "', '" << keptAttr << "')";
      continue;
    }
    function.walk([&](Operation *op) {
      if (!isa<LaunchOp, RepeatOp>(op))
        return;
      auto places = op->getAttrOfType<ArrayAttr>(placesAttr);
      if (!places || (isa<RepeatOp>(op) && (!op->hasAttr(copyInAttr) || !op->hasAttr(copyOutAttr)))) {
        all = op->emitError() << "has no '" << (places ? copyInAttr : placesAttr) << "': its results have no memory";
        return;
      }
      for (auto [result, place] : llvm::zip(op->getResults(), places))
        if (failed(checkPlace(function, result, cast<PlaceAttr>(place))))
          all = failure();
    });
  }
  return all;
}
