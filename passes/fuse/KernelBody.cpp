// Takes: a kernel just cut out of a function, in the function's names. Gives: the same in canonical form.
// Why: equal kernels of different layers and functions must have equal text, to be compiled once; and a contraction
// over [B, T, D] is a plain matrix product over B * T rows wherever nothing distinguishes the two.
#include "passes/fuse/KernelBody.h"

#include "mlir/IR/AttrTypeSubElements.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace quern::passes;
using namespace quern::ir;

/// Attributes that hold sizes.
static constexpr StringLiteral sizeAttrs[] = {"offset", "size"};

/// The values of a kernel whose types change together, and the operations between them.
struct Scope {
  SmallVector<Value> values;
  SmallVector<Operation *> ops;
  bool outputs = true; ///< what the kernel gives changes too
};

static Scope whole(KernelOp kernel) {
  Scope scope;
  scope.values.append(kernel.getBlock().args_begin(), kernel.getBlock().args_end());
  kernel.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) { // bodies of attention included
    scope.ops.push_back(op);
    scope.values.append(op->result_begin(), op->result_end());
    for (Region &region : op->getRegions())
      scope.values.append(region.args_begin(), region.args_end());
  });
  return scope;
}

static void forEachType(KernelOp kernel, function_ref<void(Value)> visit) {
  for (Value value : whole(kernel).values)
    visit(value);
}

/// All dimension names that operations mention in attributes.
static llvm::SmallSet<StringRef, 8> mentionedNames(ArrayRef<Operation *> ops) {
  llvm::SmallSet<StringRef, 8> names;
  for (Operation *op : ops)
    for (NamedAttribute attr : op->getAttrs()) {
      attr.getValue().walk([&](LabelAttr label) { names.insert(label.getName()); });
      attr.getValue().walk([&](DimAttr dim) { names.insert(dim.getName()); });
    }
  return names;
}

/// True if a buffer has both dimensions, `b` right after `a` in memory, or neither.
static bool nested(NamedTensorType type, ArrayRef<Size> strides, DimAttr a, DimAttr b) {
  int i = type.find(a.getName()), j = type.find(b.getName());
  if (i < 0 && j < 0)
    return true;
  return i >= 0 && j == i + 1 && strides[i] == strides[j] * b.getSize();
}

/// The buffers that a scope reads or gives, with their values in the body.
static SmallVector<std::pair<Value, KernelBuffer *>> buffersOf(KernelBody &body, const Scope &scope) {
  SmallVector<std::pair<Value, KernelBuffer *>> buffers;
  for (auto [argument, buffer] : llvm::zip(body.kernel.getBlock().getArguments(), body.inputs))
    if (llvm::is_contained(scope.values, argument))
      buffers.emplace_back(argument, &buffer);
  for (auto [value, buffer] : llvm::zip(body.kernel.getYield().getValues(), body.outputs))
    if (scope.outputs && llvm::is_contained(scope.values, value))
      buffers.emplace_back(value, &buffer);
  return buffers;
}

static bool canMerge(KernelBody &body, const Scope &scope, DimAttr a, DimAttr b) {
  for (Value value : scope.values)
    if (typeOf(value).has(a.getName()) != typeOf(value).has(b.getName()))
      return false;
  return llvm::all_of(buffersOf(body, scope), [&](auto &entry) {
    NamedTensorType type = typeOf(entry.first);
    return nested(type, entry.second->strides, a, b) && !(entry.second->tile && type.has(a.getName()));
  });
}

static void mergePair(KernelBody &body, const Scope &scope, DimAttr a, DimAttr b) {
  DimAttr both = DimAttr::get(a.getContext(), a.getName(), a.getSize() * b.getSize());
  for (auto &[value, buffer] : buffersOf(body, scope)) {
    int i = typeOf(value).find(a.getName()), j = typeOf(value).find(b.getName());
    if (i < 0)
      continue;
    buffer->strides[i] = buffer->strides[j];
    buffer->strides.erase(buffer->strides.begin() + j);
    buffer->merged.emplace_back(a, b);
  }
  for (Value value : scope.values) {
    SmallVector<DimAttr> dims;
    for (DimAttr dim : typeOf(value).getDims())
      if (dim != b)
        dims.push_back(dim == a ? both : dim);
    value.setType(typeOf(value).withDims(dims));
  }
}

/// Merges neighbours of `type` until nothing more fits. Returns what was merged.
static SmallVector<std::pair<DimAttr, DimAttr>> collapse(KernelBody &body, const Scope &scope, Value guide) {
  auto mentioned = mentionedNames(scope.ops);
  SmallVector<std::pair<DimAttr, DimAttr>> merged;
  for (bool again = true; again;) {
    again = false;
    ArrayRef<DimAttr> dims = typeOf(guide).getDims();
    for (size_t i = 0; i + 1 < dims.size() && !again; ++i) {
      DimAttr a = dims[i], b = dims[i + 1];
      if (mentioned.contains(a.getName()) || mentioned.contains(b.getName()) || !canMerge(body, scope, a, b))
        continue;
      mergePair(body, scope, a, b);
      merged.emplace_back(a, b);
      again = true;
    }
  }
  return merged;
}

void quern::passes::reorder(KernelBody &body, unsigned index, ArrayRef<unsigned> order) {
  BlockArgument argument = body.kernel.getBlock().getArgument(index);
  SmallVector<DimAttr> dims;
  SmallVector<Size> strides;
  for (unsigned i : order) {
    dims.push_back(typeOf(argument).getDims()[i]);
    strides.push_back(body.inputs[index].strides[i]);
  }
  argument.setType(typeOf(argument).withDims(dims));
  body.inputs[index].strides = strides;
}

void quern::passes::collapseDims(KernelBody &body) {
  collapse(body, whole(body.kernel), body.kernel.getYield().getValues()[0]);
}

void quern::passes::collapseInputDims(KernelBody &body) {
  auto contracts = body.kernel.getBlock().getOps<ContractOp>();
  if (!llvm::hasSingleElement(contracts))
    return;
  ContractOp contract = *contracts.begin();
  Scope scope;
  scope.outputs = false; // a result that is given as it is goes through the splits below
  llvm::SetVector<Value> values;
  values.insert(contract.getResult());
  for (size_t i = 0; i < values.size(); ++i)
    if (Operation *op = values[i].getDefiningOp()) {
      scope.ops.push_back(op);
      values.insert(op->operand_begin(), op->operand_end());
    }
  scope.values = values.takeVector();
  // What else is made of these values would see other dimensions.
  for (Value value : scope.values)
    if (value != contract.getResult() && typeOf(value).getRank() &&
        llvm::any_of(value.getUsers(), [&](Operation *user) { return !llvm::is_contained(scope.ops, user); }))
      return;
  Value result = contract.getResult();
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : result.getUses())
    uses.push_back(&use);
  OpBuilder builder(contract->getContext());
  builder.setInsertionPointAfter(contract);
  Value split = result;
  auto collapsed = collapse(body, scope, result);
  for (auto [a, b] : llvm::reverse(collapsed))
    split = SplitOp::create(builder, contract.getLoc(), split, a.getName(), builder.getArrayAttr({a, b}));
  for (OpOperand *use : uses)
    use->set(split);
}

void quern::passes::collapseSummedDims(KernelBody &body) {
  Scope scope = whole(body.kernel);
  SmallVector<Operation *> sums, rest;
  for (Operation *op : scope.ops)
    (isa<ContractOp, ReduceOp, ScatterAddOp>(op) ? sums : rest).push_back(op);
  auto mentioned = mentionedNames(rest);
  for (Operation *op : sums)
    if (auto scatter = dyn_cast<ScatterAddOp>(op))
      mentioned.insert(scatter.getInto().getName());
  auto summed = [](Operation *op, DimAttr dim) {
    return llvm::is_contained(names(op->getAttrOfType<ArrayAttr>("dims")), dim.getName());
  };
  auto next = [&]() -> std::optional<std::pair<DimAttr, DimAttr>> {
    for (Operation *op : sums) {
      ArrayRef<DimAttr> dims = typeOf(op->getOperand(0)).getDims();
      for (size_t i = 0; i + 1 < dims.size(); ++i) {
        DimAttr a = dims[i], b = dims[i + 1];
        bool together =
            summed(op, a) && llvm::all_of(sums, [&](Operation *other) { return summed(other, a) == summed(other, b); });
        if (together && !mentioned.contains(a.getName()) && !mentioned.contains(b.getName()) &&
            canMerge(body, scope, a, b))
          return std::make_pair(a, b);
      }
    }
    return std::nullopt;
  };
  while (auto pair = next()) {
    mergePair(body, scope, pair->first, pair->second);
    for (Operation *op : sums) {
      SmallVector<StringRef> left;
      for (StringRef name : names(op->getAttrOfType<ArrayAttr>("dims")))
        if (name != pair->second.getName())
          left.push_back(name);
      Builder builder(op->getContext());
      op->setAttr("dims", labelArray(builder, left));
    }
  }
}

namespace {
/// Canonical names in the order of first appearance.
class Names {
public:
  explicit Names(MLIRContext *context) : context(context) {}

  StringRef dim(StringRef name) {
    auto [it, isNew] = dims.try_emplace(name, "");
    if (isNew)
      it->second = "d" + std::to_string(dims.size() - 1);
    return it->second;
  }
  /// A size over canonical symbols.
  Size size(const Size &size) {
    std::map<std::string, Size> table;
    for (const std::string &symbol : size.symbols()) {
      auto [it, isNew] = symbols.try_emplace(symbol, "");
      if (isNew)
        it->second = "s" + std::to_string(symbols.size() - 1);
      table[symbol] = Size::symbol(it->second);
    }
    return size.substitute(table);
  }
  DimAttr dim(DimAttr attr) { return DimAttr::get(context, dim(attr.getName()), size(attr.getSize())); }

  MLIRContext *context;
  llvm::StringMap<std::string> dims;
  std::map<std::string, std::string> symbols;
};
} // namespace

static Attribute renamed(NamedAttribute attr, Names &names, AttrTypeReplacer &replacer) {
  MLIRContext *context = names.context;
  if (llvm::is_contained(sizeAttrs, attr.getName().getValue()))
    if (auto text = dyn_cast<StringAttr>(attr.getValue()))
      return StringAttr::get(context, names.size(*Size::parse(text.getValue())).str());
  return replacer.replace(attr.getValue());
}

/// Symbols that occur only as one product (B * T rows) become one symbol. Returns symbol -> the caller's size.
static std::map<std::string, Size> fuseProducts(KernelBody &body) {
  std::map<std::string, Size> fused;
  std::vector<Size> sizes; // every size that occurs
  auto note = [&](const Size &size) {
    if (!size.isConstant() && !llvm::is_contained(sizes, size))
      sizes.push_back(size);
  };
  forEachType(body.kernel, [&](Value value) {
    for (DimAttr dim : typeOf(value).getDims())
      note(dim.getSize());
  });
  for (Operation &op : body.kernel.getBlock()) {
    if (auto size = dyn_cast<SizeOp>(op))
      note(size.getPolynomial());
    if (auto cut = dyn_cast<CutOp>(op))
      note(cut.getOffsetSize());
    if (auto gradient = dyn_cast<AttentionGradientOp>(op); gradient && gradient.isAlongDistance())
      note(gradient.getOffsetSize());
  }
  std::map<std::string, Size> table; // text of a size -> its replacement
  for (const Size &size : sizes) {
    if (size.getTerms().size() != 1 || size.asSymbol())
      continue;
    std::vector<std::string> symbols = size.symbols();
    bool alone = llvm::none_of(sizes, [&](const Size &other) {
      return other != size && llvm::any_of(symbols, [&](const std::string &s) { return other.mentions(s); });
    });
    if (!alone)
      continue;
    std::string name = "rows" + std::to_string(fused.size());
    fused[name] = size;
    table[size.str()] = Size::symbol(name);
  }
  if (table.empty())
    return fused;
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](DimAttr dim) -> std::optional<Attribute> {
    auto it = table.find(dim.getSizeText());
    return it == table.end() ? dim : DimAttr::get(dim.getContext(), dim.getName(), it->second);
  });
  replacer.recursivelyReplaceElementsIn(body.kernel, /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
  for (Operation &op : body.kernel.getBlock())
    for (StringRef name : sizeAttrs)
      if (auto text = op.getAttrOfType<StringAttr>(name))
        if (auto it = table.find(text.getValue().str()); it != table.end())
          op.setAttr(name, StringAttr::get(op.getContext(), it->second.str()));
  return fused;
}

/// Numbers of an attention's body right before whoever reads them first, wherever passes left them.
static void placeConstants(Block &block) {
  llvm::SmallPtrSet<Operation *, 8> placed;
  for (Operation &op : llvm::make_early_inc_range(block))
    for (Value operand : op.getOperands())
      if (auto number = operand.getDefiningOp<ConstOp>(); number && placed.insert(number).second)
        number->moveBefore(&op);
}

SmallVector<Size> quern::passes::canonicalize(KernelBody &body) {
  for (Operation &op : body.kernel.getBlock())
    if (isa<AttentionOp, AttentionGradientOp>(op))
      placeConstants(op.getRegion(0).front());
  std::map<std::string, Size> fused = fuseProducts(body);
  KernelOp kernel = body.kernel;
  MLIRContext *context = kernel.getContext();
  Names names(context);
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](DimAttr dim) -> std::optional<std::pair<Attribute, WalkResult>> {
    return std::make_pair(Attribute(names.dim(dim)), WalkResult::skip());
  });
  replacer.addReplacement([&](LabelAttr label) -> std::optional<Attribute> {
    return LabelAttr::get(label.getContext(), names.dim(label.getName()));
  });
  auto retype = [&](Value value) { value.setType(replacer.replace(value.getType())); };
  for (BlockArgument argument : kernel.getBlock().getArguments())
    retype(argument);
  kernel.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
    SmallVector<NamedAttribute> attrs;
    for (NamedAttribute attr : op->getAttrs())
      attrs.emplace_back(attr.getName(), renamed(attr, names, replacer));
    op->setAttrs(attrs);
    for (Value result : op->getResults())
      retype(result);
    for (Region &region : op->getRegions())
      for (BlockArgument argument : region.getArguments())
        retype(argument);
  });

  // Strides that the run decides are read from the buffer: "_".
  auto layout = [&](NamedTensorType type, const KernelBuffer &buffer) -> Attribute {
    SmallVector<StringAttr> strides;
    for (const Size &stride : buffer.strides)
      strides.push_back(StringAttr::get(context, stride.isConstant() ? stride.str() : "_"));
    if (!buffer.tile)
      return LayoutAttr::get(context, "strided", strides, 0, {}, 1);
    unsigned rank = type.getRank();
    SmallVector<StringAttr> dims = {StringAttr::get(context, type.getDims()[rank - 2].getName()),
                                    StringAttr::get(context, type.getDims()[rank - 1].getName())};
    // How the checkpoint stores the weight is the loader's concern: kernels for both orders are equal.
    SmallVector<StringAttr> any(2, StringAttr::get(context, "_"));
    return LayoutAttr::get(context, "packed", any, *buffer.tile, dims, buffer.beside);
  };
  SmallVector<Attribute> inputs, outputs;
  for (auto [argument, buffer] : llvm::zip(kernel.getBlock().getArguments(), body.inputs))
    inputs.push_back(layout(typeOf(argument), buffer));
  for (auto [value, buffer] : llvm::zip(kernel.getYield().getValues(), body.outputs))
    outputs.push_back(layout(typeOf(value), buffer));
  kernel.setArgLayoutsAttr(ArrayAttr::get(context, inputs));
  kernel.setResultLayoutsAttr(ArrayAttr::get(context, outputs));

  SmallVector<Size> callers;
  for (const std::string &symbol : kernel.getSymbols())
    for (auto &[original, canonical] : names.symbols)
      if (canonical == symbol)
        callers.push_back(fused.count(original) ? fused[original] : Size::symbol(original));
  return callers;
}
