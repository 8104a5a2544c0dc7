// Takes: facts of what a scan reads. Gives: facts of what it makes: causal along T where it runs forwards, as a position
// sees its own slices and, through the states, those before it; or the reason why it looks ahead.
// Why the body is walked too: every value of a function has facts, and a scan over another dimension may hold anything.
#include "ir/Scan.h"
#include "passes/time/TimeTransfer.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

static StringRef spelled(StringRef label) {
  return label.split('.').first;
}

void TimeTransfer::scan(Operation *op) {
  auto scan = cast<ScanOp>(op);
  StringRef label = scan.getDim().getName();
  bool alongTime = analysis.isTime(scan.getDim());
  std::vector<const Facts *> all;
  for (Value operand : scan->getOperands())
    all.push_back(&get(operand));
  Facts joint = merged(all); // of everything that goes in: what comes out depends on no more
  if (isOdd(scan.getDim()) && joint.data)
    refuse(op, "scan of " + spelled(label) + ", a dimension made from " + time() + ", cannot be done step by step");
  if (alongTime) {
    if (label != time())
      refuse(op, "scan of a twin of " + time() + " cannot be done step by step");
    if (scan.getReversed())
      refuse(op, "scan " + spelled(label) + " from end sees later positions");
    if (op->getParentOfType<ScanOp>())
      refuse(op, "scan " + spelled(label) + " inside of another scan cannot be done step by step");
    joint.dep.insert(time());
    for (unsigned i = 0; i < scan.getCarriedCount(); ++i) {
      if (joint.data && !analysis.times(scan.getInits()[i]).empty())
        refuse(op, "a state of scan " + spelled(label) + " that also has " +
                       spelled(analysis.times(scan.getInits()[i]).front()) + " would grow with the text");
      if (!scan.getResult(i).use_empty())
        refuse(op, "the state after the last position of scan " + spelled(label) + " is of the whole text");
    }
  }
  Block &body = scan.getBlock();
  for (BlockArgument argument : body.getArguments())
    set(argument, joint);
  for (unsigned i = 0; i < scan.getSlices().size(); ++i)
    if (!get(scan.getSlices()[i]).data) { // positions, say
      Facts own = get(scan.getSlices()[i]);
      set(scan.getSlice(i), own);
    }
  for (unsigned i = 0; i < scan.getInputs().size(); ++i) {
    Facts own = get(scan.getInputs()[i]);
    set(scan.getInput(i), own);
  }
  run(body);
  for (Value yielded : scan.getYielded()) { // no more than `joint`, whatever the body does
    const Facts &made = get(yielded);
    joint.raw |= made.raw;
    joint.comparisons.insert(made.comparisons.begin(), made.comparisons.end());
  }
  for (Value result : scan.getResults())
    set(result, joint);
}
