// Takes: a kernel and one of its arguments. Gives: whether the result may be written over it.
// Why by names: elementwise operations match dimensions by name, so as long as nothing renames, reduces, joins or
// gathers on the way, element (b, t, d) of the result sees element (b, t, d) of the argument and no other.
//
//   yes: %y = add(contract(%a, %w), %x)        no: %y = add(contract(norm(%x), %w), %x)      a row of x makes a whole row of y
#include "passes/memory/InPlace.h"

#include "ir/Scan.h"
#include "ir/analysis/Operations.h"

using namespace mlir;
using namespace quern::ir;

/// Every way from `value` to the result is element by element.
static bool flowsElementwise(Value value, llvm::DenseSet<Value> &seen) {
  if (!seen.insert(value).second)
    return true;
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    if (user->hasTrait<OpTrait::IsTerminator>())
      return true;
    return (isElementwise(user) || isa<PermuteOp>(user)) && flowsElementwise(user->getResult(0), seen);
  });
}

bool quern::passes::mayShareMemory(KernelOp kernel, unsigned argument) {
  Block &body = kernel.getBlock();
  Operation *end = body.getTerminator();
  if (end->getNumOperands() != 1)
    return false;
  Value from = body.getArgument(argument), result = end->getOperand(0);
  if (from.getType() != result.getType() || kernel.getArgLayouts()[argument] != kernel.getResultLayouts()[0])
    return false;
  // A result that is written part by part, or added to where positions say, is stored more than once.
  for (Operation &op : body)
    if (isa<ScatterAddOp>(op))
      return false;
  llvm::DenseSet<Value> seen;
  return flowsElementwise(from, seen) && seen.contains(result);
}

bool quern::passes::mayReplaceState(KernelOp kernel, unsigned argument, unsigned result) {
  Block &body = kernel.getBlock();
  Value last = body.getTerminator()->getOperand(result);
  if (auto permute = last.getDefiningOp<PermuteOp>())
    last = permute.getX();
  auto scan = last.getDefiningOp<ScanOp>();
  unsigned number = scan ? cast<OpResult>(last).getResultNumber() : 0;
  if (!scan || !scan.isCarried(number) || kernel.getArgLayouts()[argument] != kernel.getResultLayouts()[result] ||
      body.getArgument(argument).getType() != body.getTerminator()->getOperand(result).getType())
    return false;
  // One way leads from the argument to the beginning of the scan, element by element.
  Value from = body.getArgument(argument);
  for (; from.hasOneUse(); from = from.user_begin()->getResult(0)) {
    OpOperand &use = *from.use_begin();
    if (use.getOwner() == scan)
      return use.getOperandNumber() == number;
    if (!isElementwise(use.getOwner()) && !isa<PermuteOp>(use.getOwner()))
      return false;
  }
  return false;
}
