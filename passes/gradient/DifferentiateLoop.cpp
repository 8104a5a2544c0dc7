// Takes: a loop whose results' gradients are known. Gives: the loop of its gradient, from the last iteration to the
// first, and the forward loop made to save what it reads. Why stacks: both loops stay functional, so that whatever
// treats loops (planning, kernels, the interpreter) needs nothing new for gradients.
//
//   %y = repeat 12 carry (%x = %x0) { body }
//   =>  %y, %saved = repeat 12 carry (%x = %x0) gives [iterations, ...] { body; yield %x', %mid }
//       %dx0, %du, %dw = repeat 12 reversed carry (%dx = %dy, %d = 0) over (%mid = %saved) gives [iterations, ...] { body's
//                        rules; yield %dx', %d + ..., %dw }       (u: used by all; w: a parameter of each iteration)
#include "passes/gradient/Differentiate.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

/// A dimension for the iterations, with a name that none of `type` has.
static DimAttr iterationsDim(NamedTensorType type, int64_t iterations) {
  std::string name = "iterations";
  for (int i = 1; type.has(name); ++i)
    name = "iterations." + std::to_string(i);
  return DimAttr::get(type.getContext(), name, Size(iterations));
}

/// The same loop that also gives stacks of `saved`.
static RepeatOp withStacks(RepeatOp repeat, ArrayRef<Value> saved) {
  SmallVector<Type> types(repeat.getResultTypes());
  for (Value value : saved)
    types.push_back(RepeatOp::stackOf(typeOf(value), iterationsDim(typeOf(value), repeat.getIterations())));
  OpBuilder builder(repeat);
  auto more = RepeatOp::create(builder, repeat.getLoc(), types, repeat.getInits(), repeat.getStacks(),
                               repeat.getIterations(), repeat.getReversed(), repeat.getRowsAttr());
  more.getBody().takeBody(repeat.getBody());
  more->setDiscardableAttrs(repeat->getDiscardableAttrDictionary());
  SmallVector<Value> yielded(more.getYield().getValues());
  llvm::append_range(yielded, saved);
  more.getYield()->setOperands(yielded);
  repeat.replaceAllUsesWith(more.getResults().take_front(repeat.getNumResults()));
  repeat.erase();
  return more;
}

// ---- the loop

LogicalResult Differentiator::reverseLoop(RepeatOp repeat, OpBuilder &builder, std::vector<ParameterGradient> &found) {
  bool trains = false;
  repeat.walk([&](ParamOp param) { trains |= isTrained(param); });
  bool reached = llvm::any_of(repeat.getResults(), [&](Value result) { return pending.count(result); });
  if (!trains && !reached)
    return success();
  Location loc = repeat.getLoc();
  Block &body = repeat.getBlock();
  auto gradient = std::make_unique<Block>();
  OpBuilder inside(function.getContext());
  inside.setInsertionPointToEnd(gradient.get());

  // The gradients of what is carried enter from behind.
  SmallVector<unsigned> carried;
  SmallVector<Value> enter, next, iterationParts;
  llvm::MapVector<Value, SmallVector<GradientPart>> outer;
  for (auto [i, argument] : llvm::enumerate(body.getArguments()))
    if (active.contains(argument)) {
      carried.push_back(i);
      enter.push_back(gradientOrZeros(repeat.getResult(i), builder));
    }
  std::swap(outer, pending);
  for (unsigned i : carried) {
    NamedTensorType type = typeOf(repeat.getResult(i));
    give(repeat.getYield().getValues()[i], gradient->addArgument(type, loc), CutOp());
  }
  std::vector<ParameterGradient> parameters;
  if (failed(reverseBlock(body, inside, parameters)))
    return failure();
  for (unsigned i : carried)
    next.push_back(gradientOrZeros(body.getArgument(i), inside));
  // What is left was given to values from outside of the loop, which all iterations use: their gradients add up.
  SmallVector<Value> shared;
  for (auto &entry : pending)
    shared.push_back(entry.first);
  for (Value value : shared) {
    enter.push_back(GradientBuilder(builder, loc).zeros(typeOf(value)));
    BlockArgument before = gradient->addArgument(typeOf(value), loc);
    next.push_back(GradientBuilder(inside, loc).add(before, gradientOf(value, inside)));
  }
  std::swap(outer, pending);

  SmallVector<Type> types = llvm::map_to_vector(enter, [](Value value) -> Type { return value.getType(); });
  SmallVector<Value> yielded = next;
  for (ParameterGradient &parameter : parameters) {
    parameter.type = RepeatOp::stackOf(parameter.type, iterationsDim(parameter.type, repeat.getIterations()));
    types.push_back(parameter.type);
    yielded.push_back(parameter.gradient);
  }
  YieldOp::create(inside, loc, yielded);
  SmallVector<Value> saved = saveForGradient(body, *gradient, recomputing);
  unsigned before = repeat.getNumResults();
  repeat = withStacks(repeat, saved);
  auto reverse =
      RepeatOp::create(builder, loc, types, enter, repeat.getResults().drop_front(before), repeat.getIterations(),
                       /*reversed=*/!repeat.getReversed(), IntegerAttr());
  reverse.getBody().push_back(gradient.release());
  for (auto [place, i] : llvm::enumerate(carried))
    give(repeat.getInits()[i], reverse.getResult(place), CutOp());
  for (auto [place, value] : llvm::enumerate(shared))
    give(value, reverse.getResult(carried.size() + place), CutOp());
  for (auto [place, parameter] : llvm::enumerate(parameters))
    found.push_back({parameter.paths, parameter.type, reverse.getResult(enter.size() + place)});
  return success();
}
