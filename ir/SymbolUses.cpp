// Takes: operations that name a kernel or a state. Gives: an error unless there is one, and it fits what the operation
// says of it. Why: dumps are edited by hand, and what a verifier lets pass crashes where code is made of it.
#include "ir/Dialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace quern::ir;

// ---- states

/// The state that `op` names; null after an error.
static StateOp stateOf(Operation *op, FlatSymbolRefAttr symbol, SymbolTableCollection &tables, StringRef label) {
  auto state = tables.lookupNearestSymbolFrom<StateOp>(op, symbol);
  if (!state)
    op->emitOpError(label) << ": there is no quern.state " << symbol;
  return state;
}

/// Whether a state holds a value of `type`: the same kind, and its dimensions behind that of the turns, which a state
/// has within loops.
static LogicalResult holds(Operation *op, StateOp state, NamedTensorType type, StringRef label, bool sizes) {
  auto memory = cast<NamedTensorType>(state.getType());
  bool stacked = op->getParentOfType<RepeatOp>() && !state.getCheck();
  auto wrong = [&]() -> LogicalResult {
    return op->emitOpError(label) << ": the state " << state.getSymName() << " is " << memory << ", which "
                                  << (stacked ? "for each turn " : "") << "does not hold " << type;
  };
  if (memory.getKind() != type.getKind() || memory.getRank() != type.getRank() + stacked)
    return wrong();
  if (!sizes)
    return success();
  Size elements(1);
  for (DimAttr dim : memory.getDims().drop_front(stacked))
    elements = elements * dim.getSize();
  return elements == type.elements() ? success() : wrong();
}

LogicalResult RememberOp::verifySymbolUses(SymbolTableCollection &tables) {
  StateOp state = stateOf(*this, getStateAttr(), tables, "remember_c2");
  // A state has room for `cap` rows where the result has the rows so far.
  return state ? holds(*this, state, getResult().getType(), "remember_c3", /*sizes=*/false) : failure();
}

LogicalResult RecallOp::verifySymbolUses(SymbolTableCollection &tables) {
  StateOp state = stateOf(*this, getStateAttr(), tables, "recall_c1");
  return state ? holds(*this, state, getResult().getType(), "recall_c2", /*sizes=*/true) : failure();
}

LogicalResult StoreOp::verifySymbolUses(SymbolTableCollection &tables) {
  StateOp state = stateOf(*this, getStateAttr(), tables, "store_c1");
  return state ? holds(*this, state, getX().getType(), "store_c2", /*sizes=*/true) : failure();
}

// ---- kernels

/// Whether a value of the caller is what the kernel takes or gives, with `lengths` in the place of its symbols.
static bool fits(NamedTensorType own, NamedTensorType caller, const std::map<std::string, Size> &lengths) {
  return own.getKind() == caller.getKind() && own.getRank() == caller.getRank() &&
         llvm::all_of(llvm::zip(own.getDims(), caller.getDims()), [&](auto pair) {
           return std::get<0>(pair).getSize().substitute(lengths) == std::get<1>(pair).getSize();
         });
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto kernel = tables.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("launch_c1: there is no quern.kernel ") << getKernelAttr();
  SmallVector<std::string> symbols = kernel.getSymbols();
  if (symbols.size() != getSymbols().size())
    return emitOpError("launch_c2: the kernel has ") << symbols.size() << " lengths (" << llvm::join(symbols, ", ")
                                                     << "), the launch gives " << getSymbols().size();
  for (StringRef size : names(getSymbols()))
    if (!Size::parse(size))
      return emitOpError("launch_c3: '") << size << "' is no polynomial over run-time lengths";
  auto compare = [&](TypeRange own, TypeRange caller, StringRef what) -> LogicalResult {
    if (own.size() != caller.size())
      return emitOpError("launch_c4: the kernel has ")
             << own.size() << " " << what << "s, the launch " << caller.size();
    std::map<std::string, Size> lengths = lengthsOf(kernel, *this);
    for (auto [i, pair] : llvm::enumerate(llvm::zip(own, caller)))
      if (!fits(cast<NamedTensorType>(std::get<0>(pair)), cast<NamedTensorType>(std::get<1>(pair)), lengths))
        return emitOpError("launch_c5: ") << what << " " << i << " of the kernel is " << std::get<0>(pair)
                                          << ", the launch has " << std::get<1>(pair);
    return success();
  };
  if (failed(compare(kernel.getBlock().getArgumentTypes(), getInputs().getTypes(), "argument")))
    return failure();
  return compare(kernel.getYield().getValues().getTypes(), getResultTypes(), "result");
}
