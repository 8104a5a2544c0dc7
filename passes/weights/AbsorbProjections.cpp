// Takes: step functions for few rows that project a remembered latent at every old position and contract new rows with
// the result (DeepSeek's keys and values). Gives: the same, where new rows are projected and meet the latent itself.
//
//   %c = quern.remember %latent            : [B, S, L]         %p = quern.contract %q, %w over ["K"] : [B, T, H, L]
//   %k = quern.contract %c, %w over ["L"]  : [B, S, H, K]  =>  %s = quern.contract %p, %c over ["L"] : [B, T, H, S]
//   %s = quern.contract %q, %k over ["K"]  : [B, T, H, S]
//
//   %v = quern.contract %c, %w over ["L"]  : [B, S, H, U]  =>  %m = quern.contract %a, %c over ["S"] : [B, T, H, L]
//   %o = quern.contract %a, %v over ["S"]  : [B, T, H, U]      %o = quern.contract %m, %w over ["L"] : [B, T, H, U]
//
// Shape operations between move to w; a contraction over a concatenation is the sum of those over its parts. So a step
// reads L numbers a position, not H * (K + U). For many rows the projection is cheaper: it is made once for all of
// them.
#include "passes/weights/AbsorbProjections.h"

#include "ir/Attributes.h"
#include "ir/analysis/AssumedLengths.h"
#include "ir/analysis/Window.h"
#include "mlir/Pass/Pass.h"
#include "passes/Passes.h"
#include "passes/Rewriting.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

namespace {

double product(ArrayRef<DimAttr> dims, llvm::function_ref<bool(DimAttr)> counts) {
  double result = 1;
  for (DimAttr dim : dims)
    if (counts(dim))
      result *= static_cast<double>(atAssumedLengths(dim.getSize()));
  return result;
}

/// The operands of a projection: what is projected, and the fixed weight.
std::optional<std::pair<Value, Value>> projected(ContractOp y, DimAttr batch) {
  Value x = y.getA(), w = y.getB();
  if (!typeOf(x).has(batch.getName()))
    std::swap(x, w);
  bool isFixed = llvm::all_of(typeOf(w).getDims(), [](DimAttr dim) { return dim.getStatic().has_value(); });
  if (!typeOf(x).has(batch.getName()) || typeOf(w).has(batch.getName()) || !isFixed)
    return std::nullopt;
  return std::pair(x, w);
}

/// What a projection has become on its way to a contraction: the dimensions of its part, the concatenation it is in.
struct Piece {
  Value value;
  NamedTensorType part;
  std::optional<std::string> joined; // the dimension of the concatenation
};

bool isShape(Operation *op) {
  return isa<RenameOp, SplitOp, MergeOp, CutOp, SqueezeOp, PermuteOp>(op);
}

class UsesOfProjection {
public:
  UsesOfProjection(ContractOp y, DimAttr batch, llvm::function_ref<bool(DimAttr)> isMemory)
      : y(y), batch(batch), isMemory(isMemory) {}

  std::optional<Absorption> find() {
    auto operands = projected(y, batch);
    if (!operands)
      return std::nullopt;
    x = operands->first;
    std::optional<SmallVector<DimAttr>> all = unionDims({typeOf(y.getA()), typeOf(y.getB())});
    inner = 1;
    for (StringRef label : names(y.getDims())) {
      if (!typeOf(x).has(label) || !typeOf(operands->second).has(label))
        return std::nullopt;
      inner *= product({typeOf(x).dim(label)}, [](DimAttr) { return true; });
    }
    auto isStatic = [](DimAttr dim) { return dim.getStatic().has_value(); };
    Absorption result{0, 2 * product(*all, isStatic), {}};
    SmallVector<Piece> todo = {{y.getResult(), typeOf(y.getResult()), {}}};
    while (!todo.empty()) {
      Piece piece = todo.pop_back_val();
      for (OpOperand &use : piece.value.getUses())
        if (!follow(piece, use, todo, result))
          return std::nullopt;
    }
    return result.meets.empty() ? std::nullopt : std::optional(result);
  }

private:
  ContractOp y;
  DimAttr batch;
  llvm::function_ref<bool(DimAttr)> isMemory;
  Value x;
  double inner;

  bool follow(const Piece &piece, OpOperand &use, SmallVector<Piece> &todo, Absorption &result) {
    Operation *op = use.getOwner();
    if (auto contract = dyn_cast<ContractOp>(op))
      return meet(piece, contract, result);
    if (auto rename = dyn_cast<RenameOp>(op)) {
      Relabelling table;
      for (auto [from, to] : llvm::zip(names(rename.getFrom()), rename.getTo().getAsRange<DimAttr>()))
        table[from.str()] = to;
      auto joined = piece.joined;
      if (joined && table.count(*joined))
        joined = table[*joined].getName().str();
      todo.push_back({op->getResult(0), relabelled(piece.part, table), joined});
      return true;
    }
    if (auto concat = dyn_cast<ConcatOp>(op); concat && !piece.joined) {
      todo.push_back({op->getResult(0), piece.part, concat.getInto().getName().str()});
      return true;
    }
    // Any other shape operation moves to w, so it must leave x's own dimensions alone.
    if (!isShape(op) || (piece.joined && !isa<PermuteOp>(op)))
      return false;
    for (StringRef label : cast<TimeOpInterface>(op).getTouchedDims())
      if (typeOf(x).has(label))
        return false;
    todo.push_back({op->getResult(0), piece.joined ? piece.part : typeOf(op->getResult(0)), piece.joined});
    return true;
  }

  bool meet(const Piece &piece, ContractOp contract, Absorption &result) {
    if (contract.getA() == contract.getB())
      return false;
    Value other = contract.getA() == piece.value ? contract.getB() : contract.getA();
    SmallVector<StringRef> over = names(contract.getDims());
    std::string memory;
    for (DimAttr dim : typeOf(piece.value).getDims())
      if (isMemory(dim))
        memory = dim.getName().str();
    if (memory.empty() || !typeOf(other).has(batch.getName()))
      return false;
    bool alongMemory = llvm::is_contained(over, memory);
    if (alongMemory    ? over.size() > 1 || piece.joined || !typeOf(other).has(memory)
        : piece.joined ? over.size() > 1 || over[0] != *piece.joined || typeOf(other).has(memory)
                       : typeOf(other).has(memory) || !llvm::all_of(over, [&](StringRef label) {
                           return piece.part.has(label) && !typeOf(x).has(label);
                         }))
      return false;
    NamedTensorType out = typeOf(contract.getResult());
    auto isHead = [&](DimAttr dim) {
      return dim != batch && dim.getStatic() && typeOf(other).has(dim.getName()) && out.has(dim.getName());
    };
    double heads = product(typeOf(other).getDims(), isHead);
    double replaced =
        product(piece.part.getDims(), [&](DimAttr dim) { return dim != batch && dim.getStatic() && !isHead(dim); });
    result.added += 2 * heads * (inner - replaced);
    if (!llvm::is_contained(result.meets, contract))
      result.meets.push_back(contract);
    return true;
  }
};

/// A value as contract(x, w) over inner, shape operations moved to w.
struct Projection {
  Value x, w;
  SmallVector<StringRef> inner;
};

class Absorber {
public:
  Absorber(ContractOp meet, DimAttr batch, const llvm::SetVector<Operation *> &projections)
      : builder(meet), loc(meet.getLoc()), batch(batch), projections(projections) {}

  Value run(ContractOp meet) {
    SmallVector<std::string> over;
    for (StringRef label : names(meet.getDims()))
      over.push_back(label.str());
    for (auto [a, f] : {std::pair(meet.getA(), meet.getB()), std::pair(meet.getB(), meet.getA())})
      if (Value made = absorbed(a, f, over))
        return made.getType() == meet.getType() ? made
                                                : PermuteOp::create(builder, loc, meet.getType(), made).getResult();
    return {};
  }

private:
  OpBuilder builder;
  Location loc;
  DimAttr batch;
  const llvm::SetVector<Operation *> &projections;

  Value contract(Value a, Value b, ArrayRef<std::string> over) {
    SmallVector<StringRef> labels(over.begin(), over.end());
    return ContractOp::create(builder, loc, a, b, labelArray(builder, labels));
  }
  Value renamed(Value value, const Relabelling &table) { return quern::passes::renamed(builder, loc, value, table); }

  /// contract(a, f) over `over` with the projections in f absorbed; nothing if there are none that can be.
  Value absorbed(Value a, Value f, ArrayRef<std::string> over) {
    Operation *op = f.getDefiningOp();
    if (!op)
      return {};
    if (isa<PermuteOp>(op))
      return absorbed(a, op->getOperand(0), over);
    if (auto rename = dyn_cast<RenameOp>(op))
      return throughRename(a, rename, over);
    if (auto concat = dyn_cast<ConcatOp>(op))
      return throughConcat(a, concat, over);
    std::optional<Projection> p = projection(f);
    return p ? contractTwice(a, *p, over) : Value();
  }

  Value throughRename(Value a, RenameOp rename, ArrayRef<std::string> over) {
    Relabelling back, forth;
    for (auto [from, to] : llvm::zip(names(rename.getFrom()), rename.getTo().getAsRange<DimAttr>())) {
      back[to.getName().str()] = DimAttr::get(to.getContext(), from, to.getSize());
      forth[from.str()] = to;
    }
    for (DimAttr dim : typeOf(a).getDims()) // a dimension of a's own that has the old name
      if (forth.count(dim.getName().str()) && !back.count(dim.getName().str()))
        return {};
    SmallVector<std::string> inside;
    for (const std::string &label : over)
      inside.push_back(back.count(label) ? back.at(label).getName().str() : label);
    Value made = absorbed(renamed(a, back), rename.getX(), inside);
    return made ? renamed(made, forth) : Value();
  }

  /// The sum over the parts.
  Value throughConcat(Value a, ConcatOp concat, ArrayRef<std::string> over) {
    std::string axis = concat.getInto().getName().str();
    if (over.size() != 1 || over[0] != axis || !typeOf(a).has(axis))
      return {};
    SmallVector<StringRef> parts = names(concat.getParts());
    if (llvm::any_of(parts, [&](StringRef part) { return part != axis && typeOf(a).has(part); }))
      return {};
    Value sum;
    bool any = false;
    Size offset(0);
    for (auto [part, label] : llvm::zip(concat.getInputs(), parts)) {
      DimAttr dim = typeOf(part).dim(label);
      Value own = partOf(a, axis, dim, offset);
      offset = offset + dim.getSize();
      Value made = absorbed(own, part, {label.str()});
      any |= static_cast<bool>(made);
      if (!made)
        made = contract(own, part, {label.str()});
      sum = sum ? AddOp::create(builder, loc, sum, made).getResult() : made;
    }
    return any ? sum : Value();
  }

  /// The positions of a that meet one part; if a is a concatenation of the same parts, its own part.
  Value partOf(Value a, const std::string &axis, DimAttr dim, const Size &offset) {
    if (auto concat = a.getDefiningOp<ConcatOp>(); concat && concat.getInto().getName() == axis) {
      Size at(0);
      for (auto [part, label] : llvm::zip(concat.getInputs(), names(concat.getParts()))) {
        DimAttr own = typeOf(part).dim(label);
        if (at == offset && own.getSize() == dim.getSize())
          return own == dim ? part : renamed(part, {{label.str(), dim}});
        at = at + own.getSize();
      }
    }
    return CutOp::create(builder, loc, relabelled(typeOf(a), {{axis, dim}}), a,
                         LabelAttr::get(builder.getContext(), axis), builder.getStringAttr(offset.str()), dim);
  }

  std::optional<Projection> projection(Value f) {
    Operation *op = f.getDefiningOp();
    if (!op)
      return std::nullopt;
    if (auto contract = dyn_cast<ContractOp>(op)) {
      if (!projections.contains(op))
        return std::nullopt;
      auto [x, w] = *projected(contract, batch);
      return Projection{x, w, names(contract.getDims())};
    }
    if (!isShape(op))
      return std::nullopt;
    std::optional<Projection> p = projection(op->getOperand(0));
    if (!p || isa<PermuteOp>(op))
      return p;
    if (auto rename = dyn_cast<RenameOp>(op)) {
      Relabelling table;
      for (auto [from, to] : llvm::zip(names(rename.getFrom()), rename.getTo().getAsRange<DimAttr>())) {
        if (llvm::is_contained(p->inner, to.getName()))
          return std::nullopt;
        table[from.str()] = to;
      }
      return Projection{renamed(p->x, table), renamed(p->w, table), p->inner};
    }
    Value w = cloneOn(builder, op, {p->w})->getResult(0);
    for (DimAttr dim : typeOf(w).getDims()) // new dimensions that x has in another meaning
      if (!typeOf(p->w).has(dim.getName()) && typeOf(p->x).has(dim.getName()))
        return std::nullopt;
    return Projection{p->x, w, p->inner};
  }

  Value contractTwice(Value a, Projection p, ArrayRef<std::string> over) {
    Relabelling fresh; // inner dimensions that a has in another meaning
    for (StringRef label : p.inner)
      if (typeOf(a).has(label))
        fresh[label.str()] =
            DimAttr::get(a.getContext(), (label + ".absorbed").str(), typeOf(p.x).dim(label).getSize());
    SmallVector<std::string> inner;
    for (StringRef label : p.inner)
      inner.push_back(fresh.count(label.str()) ? fresh.at(label.str()).getName().str() : label.str());
    Value x = renamed(p.x, fresh), w = renamed(p.w, fresh);
    auto noneIn = [&](Value value) {
      return llvm::none_of(over, [&](const std::string &label) { return typeOf(value).has(label); });
    };
    if (noneIn(x))
      return contract(contract(a, w, over), x, inner);
    if (noneIn(w))
      return contract(contract(a, x, over), w, inner);
    return {};
  }
};

struct AbsorbProjectionsPass : PassWrapper<AbsorbProjectionsPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(AbsorbProjectionsPass)
  explicit AbsorbProjectionsPass(bool everywhere) : everywhere(everywhere) {}
  StringRef getArgument() const override { return "absorb-projections"; }
  StringRef getDescription() const override { return "new rows meet what is remembered before its projection"; }
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if ((everywhere || function->hasAttr(fewRowsAttr)) && function.getNumArguments())
        run(function);
  }
  bool everywhere;

  static bool isMemory(DimAttr dim) {
    return llvm::any_of(dim.getSize().symbols(),
                        [](const std::string &symbol) { return symbol == "past" || windowOf(symbol); });
  }

  static void run(func::FuncOp function) {
    DimAttr batch = typeOf(function.getArgument(0)).getDims().front();
    llvm::SetVector<Operation *> projections, meets;
    function.walk([&](ContractOp y) {
      if (llvm::none_of(typeOf(y.getResult()).getDims(), isMemory))
        return;
      std::optional<Absorption> found = absorptionOf(y, batch, isMemory);
      if (!found || found->rows() < 1)
        return;
      projections.insert(y);
      meets.insert(found->meets.begin(), found->meets.end());
    });
    for (Operation *meet : meets)
      if (Value made = Absorber(cast<ContractOp>(meet), batch, projections).run(cast<ContractOp>(meet)))
        meet->getResult(0).replaceAllUsesWith(made);
    eraseDead(function);
  }
};

} // namespace

int64_t Absorption::rows() const {
  constexpr double any = 1 << 20;
  return static_cast<int64_t>(added * any <= expanded ? any : expanded / added);
}

std::optional<Absorption> quern::passes::absorptionOf(ContractOp y, DimAttr batch,
                                                      llvm::function_ref<bool(DimAttr)> isMemory) {
  return UsesOfProjection(y, batch, isMemory).find();
}

std::unique_ptr<Pass> quern::passes::createAbsorbProjectionsPass(bool everywhere) {
  return std::make_unique<AbsorbProjectionsPass>(everywhere);
}
