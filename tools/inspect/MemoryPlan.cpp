// Takes: a planned module. Gives: which value is in which slot of the arena from which launch to which.
// Why again and not from the pass that planned: the attributes are the plan, also of a dump that someone edited.
#include "tools/inspect/MemoryPlan.h"

#include "ir/Attributes.h"
#include "ir/analysis/Views.h"
#include "tools/inspect/ModuleJson.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <set>

using namespace mlir;
using namespace quern::ir;
using namespace quern::tools;
using Json = nlohmann::json;

/// The launch that fills a loop's stack, a part each iteration; null where there is none.
static Operation *fillerOf(OpResult result) {
  auto repeat = dyn_cast<RepeatOp>(result.getOwner());
  if (!repeat || repeat.isCarried(result.getResultNumber()))
    return nullptr;
  Value part = cast<YieldOp>(repeat.getBlock().getTerminator()).getValues()[result.getResultNumber()];
  while (part.getDefiningOp() && isViewLike(part.getDefiningOp()))
    part = part.getDefiningOp()->getOperand(0);
  return part.getDefiningOp();
}

/// The forms that a program holds a stored tensor in: in codes, as it is, or both.
static void formsOf(Value weight, std::set<Storage> &forms) {
  for (Operation *user : weight.getUsers()) {
    if (auto codes = dyn_cast<QuantizeOp>(user))
      forms.insert(typeOf(codes.getResult()).getStorage());
    else if (isViewLike(user) || isa<ConcatOp>(user))
      formsOf(user->getResult(0), forms);
    else
      forms.insert(typeOf(weight).getStorage());
  }
}

namespace {
class Plan {
public:
  Plan(func::FuncOp function, const llvm::DenseMap<Operation *, int> &number) : function(function), number(number) {}
  Json json();

private:
  struct Buffer {
    unsigned slot;
    int begin, end;
    OpResult value;
  };
  void visit(Block &block);
  int lastUse(Value value, Block *home) const;
  void addResults(Operation *op, int begin, int end);
  void addBuffers();
  void addOccupants(Json &out) const;
  std::string weightBytes() const;

  func::FuncOp function;
  const llvm::DenseMap<Operation *, int> &number;
  std::vector<Operation *> launches;
  llvm::DenseMap<Operation *, int> step, last; // of an operation: the step that it is or comes before; a loop's last
  std::vector<Buffer> buffers;
};
} // namespace

void Plan::visit(Block &block) {
  for (Operation &op : block) {
    step[&op] = static_cast<int>(launches.size());
    if (isa<LaunchOp>(op))
      launches.push_back(&op);
    if (auto repeat = dyn_cast<RepeatOp>(op)) {
      visit(repeat.getBlock());
      last[&op] = static_cast<int>(launches.size()) - 1;
    }
  }
}

/// The last step that reads a value, itself or through views; what a loop reads is needed until it ends.
int Plan::lastUse(Value value, Block *home) const {
  int end = -1;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (isViewLike(user)) {
      end = std::max(end, lastUse(user->getResult(0), home));
      continue;
    }
    bool carriedOn = isa<YieldOp>(user) && user->getBlock() == home;
    while (user->getBlock() != home)
      user = user->getParentOp();
    int at = last.count(user) ? last.lookup(user) : step.lookup(user);
    end = std::max(end, carriedOn ? at - 1 : at); // the loop has the value from there on
  }
  return end;
}

void Plan::addResults(Operation *op, int begin, int end) {
  auto places = op->getAttrOfType<ArrayAttr>(placesAttr);
  for (auto [result, attr] : llvm::zip(op->getResults(), places ? places.getValue() : ArrayRef<Attribute>()))
    if (auto place = cast<PlaceAttr>(attr); place.getKind() == PlaceKind::Arena)
      buffers.push_back({place.getIndex(), begin, std::max(end, lastUse(result, op->getBlock())), result});
}

void Plan::addBuffers() {
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isa<LaunchOp>(op))
      addResults(op, step.lookup(op), step.lookup(op));
    if (isa<RepeatOp>(op))
      addResults(op, step.lookup(op), last.lookup(op));
  });
}

/// Of all values of a slot that live at a step the one that was written last is what is stored there.
void Plan::addOccupants(Json &out) const {
  out = Json::array();
  unsigned slots = 0;
  for (const Buffer &buffer : buffers)
    slots = std::max(slots, buffer.slot + 1);
  for (unsigned slot = 0; slot < slots; ++slot) {
    const Buffer *before = nullptr;
    for (int at = 0; at < static_cast<int>(launches.size()); ++at) {
      const Buffer *now = nullptr;
      for (const Buffer &buffer : buffers)
        if (buffer.slot == slot && buffer.begin <= at && at <= buffer.end && (!now || buffer.begin >= now->begin))
          now = &buffer;
      if (now && now == before)
        out.back()[2] = at;
      else if (now)
        out.push_back({slot, at, at, number.lookup(now->value.getOwner()), now->value.getResultNumber(),
                       storedBytes(typeOf(now->value)).str(),
                       fillerOf(now->value) ? number.lookup(fillerOf(now->value)) : -1});
      before = now;
    }
  }
}

/// Each stored tensor once in each form, however often it is read.
std::string Plan::weightBytes() const {
  std::map<std::pair<std::string, Storage>, Size> tensors;
  function->walk([&](ParamOp param) {
    std::set<Storage> forms;
    formsOf(param.getResult(), forms);
    for (Storage form : forms)
      for (Attribute names : param.getPaths())
        tensors[{cast<StringAttr>(cast<ArrayAttr>(names)[0]).getValue().str(), form}] =
            storedBytes(NamedTensorType::get(param.getContext(), form, param.getType().getDims()));
  });
  Size total(0);
  for (const auto &[name, bytes] : tensors)
    total = total + bytes;
  return total.str();
}

Json Plan::json() {
  visit(function.getBody().front());
  addBuffers();
  Json out = {{"steps", Json::array()}, {"loops", Json::array()}, {"slots", Json::array()}, {"states", Json::array()}};
  for (Operation *launch : launches)
    out["steps"].push_back(number.lookup(launch));
  function.walk<WalkOrder::PreOrder>([&](RepeatOp repeat) {
    if (step.lookup(repeat) <= last.lookup(repeat))
      out["loops"].push_back({step.lookup(repeat), last.lookup(repeat), repeat.getIterations()});
  });
  for (Attribute slot : function->getAttrOfType<ArrayAttr>(arenaAttr)) {
    Json sizes = Json::array();
    for (Attribute size : cast<ArrayAttr>(slot))
      sizes.push_back(cast<StringAttr>(size).getValue().str());
    out["slots"].push_back(std::move(sizes));
  }
  addOccupants(out["buffers"]);
  out["weights"] = weightBytes();
  Size kept(0), outputs(0);
  if (auto sizes = function->getAttrOfType<ArrayAttr>(keptAttr))
    for (Attribute size : sizes)
      kept = kept + Size::parse(cast<StringAttr>(size).getValue()).value_or(Size(0));
  for (Type type : function.getResultTypes())
    outputs = outputs + storedBytes(cast<NamedTensorType>(type));
  out["kept"] = kept.str();
  out["outputs"] = outputs.str();
  auto module = function->getParentOfType<ModuleOp>();
  for (auto state : module.getOps<StateOp>())
    if (!state.getCheck() && !SymbolTable::symbolKnownUseEmpty(state, function))
      out["states"].push_back({state.getSymName().str(), storedBytes(cast<NamedTensorType>(state.getType())).str()});
  return out;
}

Json quern::tools::memoryPlan(ModuleOp planned) {
  llvm::DenseMap<Operation *, int> number = numberOperations(planned);
  Json out = Json::object();
  for (auto function : planned.getOps<func::FuncOp>())
    if (function->hasAttr(arenaAttr))
      out[function.getSymName().str()] = Plan(function, number).json();
  return out;
}
