// Takes: functions of launches, loops and views. Gives: the place of every buffer, as attributes that dumps show:
//
//   quern.launch ... {quern.places = [#quern.place<arena 2>]}      a slot of the arena; or <output 0>, <kept 1>, <rows> (of
//                                                                  a cache), <state> (that it is stored to), <part 3> (this
//                                                                  iteration's of the loop's result 3)
//   quern.repeat ... {quern.places = [...], quern.copy_in = [...], quern.copy_out = [...]}    carried values
//   func.func ... {quern.arena = [["4 * B * T"], ...], quern.kept = ["..."]}                  bytes; a slot is the largest
//
// A result overlaps an argument that its kernel reads element by element and nobody reads again (a residual is added
// in place).
//
// Why slots: lengths are known only when the program runs, so offsets cannot be; which buffers may share a slot can
// (linear scan over live intervals, Poletto and Sarkar 1999), and offsets are then sums of a few maxima.
#include "ir/Attributes.h"
#include "ir/Chunk.h"
#include "ir/analysis/AssumedLengths.h"
#include "ir/analysis/Functions.h"
#include "ir/analysis/Views.h"
#include "passes/Passes.h"
#include "passes/Without.h"
#include "passes/memory/InPlace.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace quern::passes;
using namespace quern::ir;

namespace {

struct Buffer {
  unsigned begin = 0, end = 0;
  Size bytes;
  int slot = -1;
  PlaceAttr place; // if it is outside of the arena
};

class Planner {
public:
  Planner(func::FuncOp function, const Without &without)
      : function(function), without(without), builder(function.getContext()) {}
  void run();

private:
  void number(Block &block);
  void findBuffers();
  void shareInPlace();
  Value sharedArgument(LaunchOp launch);
  bool replacesState(LaunchOp launch, OpResult result);
  void join(unsigned from, unsigned into);
  bool isTakenBy(RepeatOp repeat, unsigned number, Value init);
  void joinLoops(RepeatOp repeat, unsigned number);
  void directCarried();
  void takeOver();
  int scatteredInto(LaunchOp launch);
  void assignSlots();
  void annotate();
  Value owner(Value value) const;
  unsigned lastUse(Value buffer);
  std::optional<unsigned> indexOf(Value buffer) const;
  PlaceAttr at(PlaceKind kind, unsigned index = 0) { return PlaceAttr::get(builder.getContext(), kind, index); }

  func::FuncOp function;
  const Without &without;
  Builder builder;
  SmallVector<Operation *> order;
  llvm::DenseMap<Operation *, unsigned> position, endOf; // endOf: of a repeat, after its body
  llvm::MapVector<Value, unsigned> bufferOf;             // launch results and repeat results -> index
  llvm::DenseMap<Value, SmallVector<OpOperand *>> uses;  // of a buffer, through views
  SmallVector<Buffer> buffers;
  llvm::DenseMap<Value, Value> writtenOver;   // launch result -> the value whose memory it takes over
  llvm::DenseMap<Value, PlaceAttr> elsewhere; // outputs, parts of stacks, rows of caches, what is kept
  SmallVector<Size> kept;
  llvm::DenseMap<Value, std::pair<bool, bool>> copies; // of a repeat's result: copy in, copy out
};

/// What a view looks at: an argument, a parameter, a launch's or loop's result, a cache.
Value Planner::owner(Value value) const {
  while (Operation *op = value.getDefiningOp()) {
    if (!isViewLike(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

void Planner::number(Block &block) {
  for (Operation &op : block) {
    position[&op] = order.size();
    order.push_back(&op);
    if (auto repeat = dyn_cast<RepeatOp>(op)) {
      number(repeat.getBlock());
      endOf[&op] = order.size() - 1;
    }
    if (!isViewLike(&op))
      for (OpOperand &operand : op.getOpOperands())
        uses[owner(operand.get())].push_back(&operand);
  }
}

unsigned Planner::lastUse(Value buffer) {
  Operation *def = buffer.getDefiningOp();
  Block *home = def ? def->getBlock() : buffer.getParentBlock();
  unsigned last = def ? position[def] : 0;
  for (OpOperand *use : uses[buffer]) {
    // Used in a loop below its own block: needed until that loop has ended.
    Operation *user = use->getOwner();
    while (user->getBlock() != home)
      user = user->getParentOp();
    last = std::max(last, endOf.count(user) ? endOf[user] : position[user]);
  }
  return last;
}

/// The buffer that holds a value of the arena: its own, or the one of the loop that carries it.
std::optional<unsigned> Planner::indexOf(Value buffer) const {
  if (auto argument = dyn_cast<BlockArgument>(buffer))
    if (auto repeat = dyn_cast<RepeatOp>(argument.getOwner()->getParentOp());
        repeat && argument.getArgNumber() < repeat.getInits().size())
      buffer = repeat.getResult(argument.getArgNumber());
  auto it = bufferOf.find(buffer);
  return it == bufferOf.end() ? std::nullopt : std::optional<unsigned>(it->second);
}

void Planner::findBuffers() {
  auto add = [&](Value value) {
    bufferOf[value] = buffers.size();
    Buffer buffer;
    buffer.begin = position[value.getDefiningOp()];
    buffer.end = lastUse(value);
    buffer.bytes = storedBytes(typeOf(value));
    buffers.push_back(buffer);
  };
  for (Operation *op : order) {
    if (auto repeat = dyn_cast<RepeatOp>(op)) {
      for (auto [i, result] : llvm::enumerate(repeat.getResults())) {
        auto part = llvm::find_if(uses[result], [](OpOperand *use) {
          return isa<YieldOp>(use->getOwner()) &&
                 !cast<RepeatOp>(use->getOwner()->getParentOp()).isCarried(use->getOperandNumber());
        });
        if (!repeat.isCarried(i) && part != uses[result].end()) { // a stack of the loop around this one
          elsewhere[result] = at(PlaceKind::Part, (*part)->getOperandNumber());
          continue;
        }
        auto returned =
            llvm::find_if(uses[result], [](OpOperand *use) { return isa<func::ReturnOp>(use->getOwner()); });
        if (!repeat.isCarried(i) && returned != uses[result].end()) {
          elsewhere[result] = at(PlaceKind::Output, (*returned)->getOperandNumber());
          continue;
        }
        add(result);
        buffers.back().end = std::max(buffers.back().end, endOf[op]);
        bool carried = repeat.isCarried(i); // a stack's parts are written where they belong
        if (carried && returned != uses[result].end() && chunkOf(repeat))
          buffers.back().place = at(PlaceKind::Output, (*returned)->getOperandNumber());
        copies[result] = {carried, carried};
      }
      continue;
    }
    auto launch = dyn_cast<LaunchOp>(op);
    if (!launch)
      continue;
    for (Value result : launch.getResults()) {
      PlaceAttr place;
      for (OpOperand *use : uses[result]) {
        if (isa<func::ReturnOp>(use->getOwner()))
          place = at(PlaceKind::Output, use->getOperandNumber());
        if (isa<RememberOp>(use->getOwner()))
          place = at(PlaceKind::Rows);
        if (isa<YieldOp>(use->getOwner()) &&
            !cast<RepeatOp>(use->getOwner()->getParentOp()).isCarried(use->getOperandNumber()))
          place = at(PlaceKind::Part, use->getOperandNumber());
      }
      if (launch.getOnce() && !place) {
        Size iterations(1);
        for (Operation *parent = op->getParentOp(); isa<RepeatOp>(parent); parent = parent->getParentOp())
          iterations = iterations * Size(static_cast<int64_t>(cast<RepeatOp>(parent).getIterations()));
        place = at(PlaceKind::Kept, kept.size());
        kept.push_back(storedBytes(typeOf(result)) * iterations);
      }
      if (!place && !without.has("write-in-place") && replacesState(launch, cast<OpResult>(result)))
        place = at(PlaceKind::State);
      if (!place)
        add(result);
      else
        elsewhere[result] = place;
    }
  }
}

/// Whether a launch's result is the next value of a state that the launch alone reads: it can be written there at once.
bool Planner::replacesState(LaunchOp launch, OpResult result) {
  auto store = result.hasOneUse() ? dyn_cast<StoreOp>(*result.user_begin()) : StoreOp();
  if (!store || store->getBlock() != launch->getBlock())
    return false;
  int from = -1; // the operand that is the state
  for (Operation *op : order)
    if (auto recall = dyn_cast<RecallOp>(op); recall && recall.getStateAttr() == store.getStateAttr())
      for (OpOperand *use : uses[recall.getResult()]) {
        if (use->getOwner() != launch || from >= 0)
          return false;
        from = static_cast<int>(use->getOperandNumber());
      }
  if (from < 0)
    return false;
  Value operand = launch->getOperand(from);
  View view = viewOf(operand);
  auto kernel = SymbolTable::lookupNearestSymbolFrom<KernelOp>(launch, launch.getKernelAttr());
  return view.offset == Size(0) && view.strides == View::denseStrides(typeOf(operand)) &&
         mayReplaceState(kernel, from, result.getResultNumber());
}

/// What a launch's result can be written over: all of a buffer that is read there for the last time.
Value Planner::sharedArgument(LaunchOp launch) {
  if (launch.getNumResults() != 1 || !bufferOf.count(launch.getResult(0)))
    return {};
  auto kernel = SymbolTable::lookupNearestSymbolFrom<KernelOp>(launch, launch.getKernelAttr());
  Size elements = typeOf(launch.getResult(0)).elements();
  for (auto [i, operand] : llvm::enumerate(launch.getInputs())) {
    Value base = owner(operand);
    View view = viewOf(operand);
    Block *home = base.getDefiningOp() ? base.getDefiningOp()->getBlock() : base.getParentBlock();
    bool whole = view.base == base && view.offset == Size(0) && typeOf(base).elements() == elements &&
                 view.strides == View::denseStrides(typeOf(operand));
    bool once = llvm::count_if(launch.getInputs(), [&](Value other) { return owner(other) == base; }) == 1;
    if (whole && once && indexOf(base) && home == launch->getBlock() && lastUse(base) == position[launch] &&
        mayShareMemory(kernel, i))
      return base;
  }
  return {};
}

void Planner::shareInPlace() {
  for (Operation *op : order) {
    auto launch = dyn_cast<LaunchOp>(op);
    Value over = launch ? sharedArgument(launch) : Value();
    if (!over)
      continue;
    Value result = launch.getResult(0);
    unsigned index = *indexOf(over);
    buffers[index].end = std::max(buffers[index].end, buffers[bufferOf[result]].end);
    bufferOf[result] = index;
    writtenOver[result] = over;
  }
}

/// Everything in one buffer is in another from now on.
void Planner::join(unsigned from, unsigned into) {
  for (auto &[value, index] : bufferOf)
    if (index == from)
      index = into;
  buffers[into].begin = std::min(buffers[into].begin, buffers[from].begin);
  buffers[into].end = std::max(buffers[into].end, buffers[from].end);
}

/// Whether nobody reads what `repeat` begins with, its operand `number`, in it or after it.
bool Planner::isTakenBy(RepeatOp repeat, unsigned number, Value init) {
  return llvm::all_of(uses[init], [&](OpOperand *use) {
    Operation *user = use->getOwner();
    return user == repeat ? use->getOperandNumber() == number : position[user] < position[repeat];
  });
}

/// A loop that goes on with what the loop before it, or the loop around it, carries works in the same memory.
void Planner::joinLoops(RepeatOp repeat, unsigned number) {
  Value init = repeat.getInits()[number], result = repeat.getResult(number);
  auto before = init.getDefiningOp<RepeatOp>();
  auto argument = dyn_cast<BlockArgument>(init);
  auto around = argument ? dyn_cast<RepeatOp>(argument.getOwner()->getParentOp()) : RepeatOp();
  RepeatOp other = before ? before : around;
  unsigned carried = before ? cast<OpResult>(init).getResultNumber() : argument ? argument.getArgNumber() : 0;
  if (!other || !other.isCarried(carried) || chunkOf(other) || chunkOf(repeat) || !isTakenBy(repeat, number, init))
    return;
  auto known = bufferOf.find(other.getResult(carried));
  unsigned mine = bufferOf[result];
  if (known == bufferOf.end() || known->second == mine || buffers[known->second].place || buffers[mine].place)
    return;
  if (before && init.getParentBlock() == repeat->getBlock() && buffers[known->second].end <= endOf[repeat])
    return join(known->second, mine);
  // Of the loop around: what is stored there at its end is its next value, and no other.
  bool elsewhere = llvm::any_of(bufferOf, [&](auto &entry) {
    return entry.second == mine && llvm::any_of(uses[entry.first], [&](OpOperand *use) {
             return use->getOwner() == around.getYield() && use->getOperandNumber() != carried;
           });
  });
  if (around && argument.getOwner() == repeat->getBlock() && !elsewhere)
    join(mine, known->second);
}

/// A loop's first value and its next ones are written where the loop carries them, if nobody still reads what is there.
/// Inner loops come first, and of neighbours the later ones.
void Planner::directCarried() {
  SmallVector<Value> results;
  for (auto &[result, index] : bufferOf)
    if (auto repeat = result.getDefiningOp<RepeatOp>();
        repeat && repeat.isCarried(cast<OpResult>(result).getResultNumber()))
      results.push_back(result);
  for (Value result : llvm::reverse(results)) {
    auto repeat = result.getDefiningOp<RepeatOp>();
    unsigned number = cast<OpResult>(result).getResultNumber();
    joinLoops(repeat, number);
    unsigned index = bufferOf[result];
    Value init = owner(repeat.getInits()[number]),
          next = owner(cast<YieldOp>(repeat.getBlock().getTerminator()).getValues()[number]);
    Value argument = repeat.getBlock().getArgument(number);
    auto owned = [&](Value value) { return value.getDefiningOp<LaunchOp>() && bufferOf.count(value); };
    if (indexOf(init) == index)
      copies[result].first = false;
    else if (owned(init) && init.getDefiningOp()->getBlock() == repeat->getBlock() &&
             buffers[bufferOf[init]].end <= endOf[repeat] && isTakenBy(repeat, number, init)) {
      buffers[index].begin = std::min(buffers[index].begin, buffers[bufferOf[init]].begin);
      bufferOf[init] = index;
      copies[result].first = false;
    }
    // What is stored there meanwhile: the carried value, then those that follow each other in its memory.
    unsigned read = uses[argument].empty() ? 0 : lastUse(argument);
    for (auto &[other, at] : bufferOf)
      if (at == index && other != next && other.getParentBlock() == &repeat.getBlock())
        read = std::max(read, lastUse(other));
    if (bufferOf.count(next) && bufferOf[next] == index && next.getParentBlock() == &repeat.getBlock()) {
      copies[result].second = false;
      continue;
    }
    unsigned takers = llvm::count_if(uses[next], [](OpOperand *use) { return isa<YieldOp>(use->getOwner()); });
    if (takers != 1 || !bufferOf.count(next) || next.getParentBlock() != &repeat.getBlock())
      continue;
    if (owned(next) && read < position[next.getDefiningOp()]) {
      bufferOf[next] = index;
      copies[result].second = false;
    } else if (auto inner = next.getDefiningOp<RepeatOp>();
               inner && next == repeat.getYield().getValues()[number] &&
               inner.isCarried(cast<OpResult>(next).getResultNumber()) && !chunkOf(inner) && !chunkOf(repeat) &&
               !buffers[index].place && !buffers[bufferOf[next]].place && read < buffers[bufferOf[next]].begin &&
               position[repeat] < buffers[bufferOf[next]].begin) {
      join(bufferOf[next], index);
      copies[result].second = false;
    }
  }
}

/// Where rows are scattered into what a loop over chunks has added up, and that is a result of the function: they go to
/// it where it is stored, and the kernel need not write the rest.
void Planner::takeOver() {
  auto module = function->getParentOfType<ModuleOp>();
  for (Operation *op : order) {
    auto launch = dyn_cast<LaunchOp>(op);
    if (!launch || launch.getNumResults() != 1)
      continue;
    PlaceAttr place = elsewhere.lookup(launch.getResult(0));
    int into = place && place.getKind() == PlaceKind::Output ? scatteredInto(launch) : -1;
    Value from = into >= 0 ? owner(launch.getInputs()[into]) : Value();
    auto loop = from ? from.getDefiningOp<RepeatOp>() : RepeatOp();
    auto known = bufferOf.find(from);
    if (!loop || !chunkOf(loop) || known == bufferOf.end())
      continue;
    unsigned launches = 0;
    module.walk([&](LaunchOp other) { launches += other.getKernelAttr() == launch.getKernelAttr(); });
    Buffer &buffer = buffers[known->second];
    bool once = llvm::count_if(uses[from], [&](OpOperand *use) { return use->getOwner() == launch; }) == 1;
    if (launches != 1 || !once || buffer.place || buffer.end != position[launch])
      continue;
    buffer.place = place;
    SymbolTable::lookupNearestSymbolFrom<KernelOp>(launch, launch.getKernelAttr()).setInPlace(into);
  }
}

/// The argument that a launch adds scattered rows to and does nothing else with, if that is all it does; else -1.
int Planner::scatteredInto(LaunchOp launch) {
  auto kernel = SymbolTable::lookupNearestSymbolFrom<KernelOp>(launch, launch.getKernelAttr());
  auto sum = kernel.getYield().getValues()[0].getDefiningOp<AddOp>();
  for (unsigned which : {0, 1})
    if (auto argument = sum ? dyn_cast<BlockArgument>(sum->getOperand(which)) : BlockArgument()) {
      unsigned i = argument.getArgNumber();
      bool scattered = sum->getOperand(1 - which).getDefiningOp<ScatterAddOp>() && argument.hasOneUse();
      if (scattered && argument.getType() == sum.getType() &&
          kernel.getArgLayouts()[i] == kernel.getResultLayouts()[0] && viewOf(launch.getInputs()[i]).offset == Size(0))
        return static_cast<int>(i);
    }
  return -1;
}

void Planner::assignSlots() {
  SmallVector<unsigned> byBegin;
  llvm::DenseSet<unsigned> used;
  for (auto &[value, index] : bufferOf)
    if (used.insert(index).second && !buffers[index].place)
      byBegin.push_back(index);
  llvm::stable_sort(byBegin, [&](unsigned a, unsigned b) { return buffers[a].begin < buffers[b].begin; });
  struct Slot {
    unsigned end;
    int64_t bytes;
  };
  SmallVector<Slot> slots;
  for (unsigned index : byBegin) {
    Buffer &buffer = buffers[index];
    int64_t bytes = atAssumedLengths(buffer.bytes);
    int best = -1;
    auto waste = [&](int slot) { return std::abs(slots[slot].bytes - bytes); };
    for (int slot = 0; slot < static_cast<int>(slots.size()); ++slot)
      if (slots[slot].end < buffer.begin && (best < 0 || waste(slot) < waste(best)))
        best = slot;
    if (best < 0) {
      best = slots.size();
      slots.push_back({0, 0});
    }
    slots[best].end = buffer.end;
    slots[best].bytes = std::max(slots[best].bytes, bytes);
    buffer.slot = best;
  }
}

void Planner::annotate() {
  SmallVector<SmallVector<Attribute>> slots;
  for (auto &[value, index] : bufferOf) {
    Buffer &buffer = buffers[index];
    if (buffer.place)
      continue;
    if (static_cast<int>(slots.size()) <= buffer.slot)
      slots.resize(buffer.slot + 1);
    Attribute bytes = builder.getStringAttr(buffer.bytes.str());
    if (!llvm::is_contained(slots[buffer.slot], bytes))
      slots[buffer.slot].push_back(bytes);
  }
  SmallVector<Attribute> arena, keptSizes;
  for (auto &slot : slots)
    arena.push_back(builder.getArrayAttr(slot));
  for (const Size &bytes : kept)
    keptSizes.push_back(builder.getStringAttr(bytes.str()));
  function->setAttr(arenaAttr, builder.getArrayAttr(arena));
  function->setAttr(keptAttr, builder.getArrayAttr(keptSizes));
  for (Operation *op : order) {
    if (!isa<LaunchOp, RepeatOp>(op))
      continue;
    SmallVector<Attribute> places;
    SmallVector<bool> in, out;
    for (Value result : op->getResults()) {
      auto other = elsewhere.find(result);
      if (other != elsewhere.end()) {
        places.push_back(other->second);
      } else {
        const Buffer &buffer = buffers[bufferOf[result]];
        places.push_back(buffer.place ? buffer.place : at(PlaceKind::Arena, buffer.slot));
      }
      if (isa<RepeatOp>(op)) {
        in.push_back(copies[result].first);
        out.push_back(copies[result].second);
      }
    }
    op->setAttr(placesAttr, builder.getArrayAttr(places));
    if (isa<RepeatOp>(op)) {
      op->setAttr(copyInAttr, builder.getBoolArrayAttr(in));
      op->setAttr(copyOutAttr, builder.getBoolArrayAttr(out));
    }
  }
}

void Planner::run() {
  number(function.getBody().front());
  findBuffers();
  if (!without.has("write-in-place"))
    shareInPlace();
  directCarried();
  if (!without.has("write-in-place"))
    takeOver();
  assignSlots();
  annotate();
}

class PlanMemoryPass : public PassWrapper<PlanMemoryPass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PlanMemoryPass)
  explicit PlanMemoryPass(const Without &without) : without(without) {}
  StringRef getArgument() const final { return "plan-memory"; }
  StringRef getDescription() const final { return "Give every buffer its place in one arena, by liveness"; }
  void runOnOperation() final {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!isEpoch(function))
        Planner(function, without).run();
  }

private:
  Without without;
};

} // namespace

std::unique_ptr<Pass> quern::passes::createPlanMemoryPass(const Without &without) {
  return std::make_unique<PlanMemoryPass>(without);
}
