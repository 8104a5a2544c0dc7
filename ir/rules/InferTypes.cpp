// Takes: operand types and attributes. Gives: result types by name, or an error labelled with its constraint.
// Why one file: the rules are short, and shape inference by name is best read in one place. Labels (`reduce_c1`) are
// repeated in the negative tests.
#include "ir/Dialect.h"
#include "support/numbers/RealFunctions.h"

using namespace mlir;
using namespace quern::ir;

using Types = SmallVectorImpl<Type>;

static NamedTensorType type(Value value) {
  return cast<NamedTensorType>(value.getType());
}

static SmallVector<NamedTensorType> typesOf(ValueRange values) {
  return llvm::map_to_vector(values, [](Value value) { return type(value); });
}

static Kind widerKind(ArrayRef<NamedTensorType> types) {
  return llvm::any_of(types, [](NamedTensorType t) { return t.isReal(); }) ? Kind::Real : types.front().getKind();
}

/// A result of these dimensions; an error if a name occurs twice.
static LogicalResult give(std::optional<Location> loc, MLIRContext *context, Storage storage, ArrayRef<DimAttr> dims,
                          Types &results) {
  NamedTensorType made = NamedTensorType::getChecked(
      [&] { return mlir::emitError(loc.value_or(UnknownLoc::get(context))); }, context, storage, dims);
  if (!made)
    return failure();
  results.push_back(made);
  return success();
}

/// The union of the operands' dimensions in the storage given.
static LogicalResult aligned(std::optional<Location> loc, ValueRange operands, Storage storage, Types &results) {
  SmallVector<NamedTensorType> types = typesOf(operands);
  std::optional<SmallVector<DimAttr>> dims = unionDims(types);
  if (!dims)
    return emitOptionalError(loc, "elementwise_c1: operands give one name two sizes");
  results.push_back(NamedTensorType::get(types[0].getContext(), storage, *dims));
  return success();
}

/// The union of the operands' dimensions, of values of a kind that are computed.
static LogicalResult aligned(std::optional<Location> loc, ValueRange operands, Kind kind, Types &results) {
  return aligned(loc, operands, storageOf(kind), results);
}

static LogicalResult needs(std::optional<Location> loc, ValueRange operands, std::initializer_list<Storage> storages,
                           StringRef label) {
  for (Value operand : operands)
    if (!llvm::is_contained(storages, type(operand).getStorage()))
      return emitOptionalError(loc, label, ": operands of kind ", elementName(type(operand).getStorage()),
                               " are not allowed");
  return success();
}

#define QUERN_INFER(OP)                                                                                                \
  LogicalResult OP::inferReturnTypes([[maybe_unused]] MLIRContext *context, std::optional<Location> loc,               \
                                     ValueRange operands, [[maybe_unused]] DictionaryAttr attrs,                       \
                                     [[maybe_unused]] OpaqueProperties props, [[maybe_unused]] RegionRange regions,    \
                                     Types &results)

// ---- elementwise: one name, one size; the union of the dimensions

#define QUERN_NUMERIC(OP, KIND, LABEL)                                                                                 \
  QUERN_INFER(OP) {                                                                                                    \
    if (failed(needs(loc, operands, {Storage::F32, Storage::I32}, LABEL)))                                             \
      return failure();                                                                                                \
    return aligned(loc, operands, KIND, results);                                                                      \
  }
#define QUERN_KEEPS(OP, LABEL) QUERN_NUMERIC(OP, widerKind(typesOf(operands)), LABEL)
QUERN_KEEPS(NegOp, "unary_c1")
QUERN_KEEPS(AbsOp, "unary_c1")
#define QUERN_REAL_FUNCTION(NAME, WORD, VALUE) QUERN_NUMERIC(NAME##Op, Kind::Real, "unary_c1")
QUERN_REAL_FUNCTIONS(QUERN_REAL_FUNCTION)
QUERN_NUMERIC(FloorOp, Kind::Int, "unary_c1")
QUERN_NUMERIC(CeilOp, Kind::Int, "unary_c1")
QUERN_NUMERIC(RoundOp, Kind::Int, "unary_c1")
QUERN_KEEPS(AddOp, "binary_c1")
QUERN_KEEPS(SubOp, "binary_c1")
QUERN_KEEPS(MulOp, "binary_c1")
QUERN_KEEPS(MaxOp, "binary_c1")
QUERN_KEEPS(MinOp, "binary_c1")
QUERN_NUMERIC(DivOp, Kind::Real, "binary_c1")
QUERN_NUMERIC(PowOp, Kind::Real, "binary_c1")

#define QUERN_CAST(OP, KIND)                                                                                           \
  QUERN_INFER(OP) {                                                                                                    \
    if (failed(needs(loc, operands, {Storage::F32, Storage::I32, Storage::U8}, "cast_c1")))                            \
      return failure();                                                                                                \
    return aligned(loc, operands, KIND, results);                                                                      \
  }
QUERN_CAST(ToIntOp, Kind::Int)
QUERN_CAST(ToRealOp, Kind::Real)

#define QUERN_OF_KIND(OP, KIND, LABEL)                                                                                 \
  QUERN_INFER(OP) {                                                                                                    \
    if (failed(needs(loc, operands, {storageOf(KIND)}, LABEL)))                                                        \
      return failure();                                                                                                \
    return aligned(loc, operands, KIND, results);                                                                      \
  }
QUERN_OF_KIND(FloorDivOp, Kind::Int, "integer_c1")
QUERN_OF_KIND(ModOp, Kind::Int, "integer_c1")
QUERN_OF_KIND(NotOp, Kind::Bool, "logic_c1")
QUERN_OF_KIND(AndOp, Kind::Bool, "logic_c1")
QUERN_OF_KIND(OrOp, Kind::Bool, "logic_c1")

/// Nothing else computes with numbers of one or two bytes. f16 is what parameters alone are stored in.
QUERN_INFER(NarrowOp) {
  if (failed(needs(loc, operands, {Storage::F32, Storage::I32}, "narrow_c1")))
    return failure();
  return aligned(loc, operands, type(operands[0]).isInt() ? Storage::I8 : Storage::BF16, results);
}
QUERN_INFER(WidenOp) {
  if (failed(needs(loc, operands, {Storage::BF16, Storage::F16}, "widen_c1")))
    return failure();
  return aligned(loc, operands, Storage::F32, results);
}
QUERN_INFER(RescaleOp) {
  if (failed(needs(loc, operands[0], {Storage::I8}, "rescale_c1")) ||
      failed(needs(loc, operands[1], {Storage::BF16}, "rescale_c2")))
    return failure();
  for (DimAttr dim : type(operands[1]).getDims())
    if (!type(operands[0]).has(dim.getName()))
      return emitOptionalError(loc, "rescale_c3: the codes have no dimension ", dim.getName());
  return aligned(loc, operands, Storage::F32, results);
}

QUERN_INFER(DequantizeOp) {
  if (!type(operands[0]).isCoded())
    return emitOptionalError(loc, "dequantize_c1: operands of kind ", elementName(type(operands[0]).getStorage()),
                             " are not allowed");
  return aligned(loc, operands, Kind::Real, results);
}

QUERN_INFER(CompareOp) {
  Adaptor op(operands, attrs, props, regions);
  if (failed(needs(loc, operands, {Storage::F32, Storage::I32, Storage::U8}, "compare_c2")))
    return failure();
  bool a = type(op.getA()).isBool(), b = type(op.getB()).isBool();
  Predicate predicate = op.getPredicate();
  if (a != b || (a && predicate != Predicate::eq && predicate != Predicate::ne))
    return emitOptionalError(loc, "compare_c1: bools are compared with bools, by eq and ne alone");
  return aligned(loc, operands, Kind::Bool, results);
}

QUERN_INFER(WhereOp) {
  Adaptor op(operands, attrs, props, regions);
  if (!type(op.getCondition()).isBool())
    return emitOptionalError(loc, "where_c1: the condition is not bool");
  if (failed(needs(loc, {op.getA(), op.getB()}, {Storage::F32, Storage::I32, Storage::U8}, "where_c3")))
    return failure();
  SmallVector<NamedTensorType> sides = {type(op.getA()), type(op.getB())};
  if (sides[0].isBool() != sides[1].isBool())
    return emitOptionalError(loc, "where_c2: one side is bool, the other a number");
  return aligned(loc, operands, widerKind(sides), results);
}

// ---- what combines positions

/// `type` without the dimensions named; an error if one is missing.
static LogicalResult without(std::optional<Location> loc, ArrayRef<DimAttr> dims, ArrayRef<StringRef> over,
                             StringRef label, SmallVectorImpl<DimAttr> &kept) {
  for (StringRef name : over)
    if (llvm::none_of(dims, [&](DimAttr dim) { return dim.getName() == name; }))
      return emitOptionalError(loc, label, ": the value has no dimension ", name);
  for (DimAttr dim : dims)
    if (!llvm::is_contained(over, dim.getName()))
      kept.push_back(dim);
  return success();
}

QUERN_INFER(ReduceOp) {
  Adaptor op(operands, attrs, props, regions);
  NamedTensorType x = type(op.getX());
  bool logic = op.getReduction() == Reduction::any || op.getReduction() == Reduction::all;
  SmallVector<DimAttr> kept;
  if (failed(needs(loc, operands, {Storage::F32, Storage::I32, Storage::U8}, "reduce_c3")))
    return failure();
  if (logic != x.isBool())
    return emitOptionalError(loc, "reduce_c2: any and all take bools, the others numbers");
  if (failed(without(loc, x.getDims(), names(op.getDims()), "reduce_c1", kept)))
    return failure();
  results.push_back(
      NamedTensorType::get(context, op.getReduction() == Reduction::mean ? Kind::Real : x.getKind(), kept));
  return success();
}

QUERN_INFER(ContractOp) {
  Adaptor op(operands, attrs, props, regions);
  if (failed(needs(loc, operands, {Storage::F32, Storage::I32}, "contract_c2")))
    return failure();
  std::optional<SmallVector<DimAttr>> all = unionDims({type(op.getA()), type(op.getB())});
  SmallVector<DimAttr> kept;
  if (!all)
    return emitOptionalError(loc, "contract_c3: operands give one name two sizes");
  if (failed(without(loc, *all, names(op.getDims()), "contract_c1", kept)))
    return failure();
  results.push_back(NamedTensorType::get(context, Kind::Real, kept));
  return success();
}

QUERN_INFER(SoftmaxOp) {
  Adaptor op(operands, attrs, props, regions);
  SmallVector<DimAttr> kept;
  if (failed(needs(loc, operands, {Storage::F32, Storage::I32}, "softmax_c2")) ||
      failed(without(loc, type(op.getX()).getDims(), names(op.getDims()), "softmax_c1", kept)))
    return failure();
  results.push_back(type(op.getX()).withKind(Kind::Real));
  return success();
}

QUERN_INFER(CumsumOp) {
  Adaptor op(operands, attrs, props, regions);
  SmallVector<DimAttr> kept;
  if (failed(needs(loc, operands, {Storage::F32, Storage::I32}, "cumsum_c2")) ||
      failed(without(loc, type(op.getX()).getDims(), {op.getDim()}, "cumsum_c1", kept)))
    return failure();
  if (op.getReverse() && op.getState())
    return emitOptionalError(loc, "cumsum_c3: a running sum that goes on from a state runs forwards");
  results.push_back(op.getX().getType());
  return success();
}

QUERN_INFER(ScatterAddOp) {
  Adaptor op(operands, attrs, props, regions);
  NamedTensorType x = type(op.getX()), positions = type(op.getPositions());
  if (!x.isF32() || !positions.isInt())
    return emitOptionalError(loc, "scatter_add_c1: reals are added at int positions");
  std::optional<SmallVector<DimAttr>> all = unionDims({x, positions});
  if (!all)
    return emitOptionalError(loc, "scatter_add_c2: operands give one name two sizes");
  SmallVector<DimAttr> kept = {op.getInto()};
  if (failed(without(loc, *all, names(op.getDims()), "scatter_add_c3", kept)))
    return failure();
  for (DimAttr dim : ArrayRef<DimAttr>(kept).drop_front())
    if (dim.getName() == op.getInto().getName())
      return emitOptionalError(loc, "scatter_add_c4: the result would have ", dim.getName(), " twice");
  results.push_back(x.withDims(kept));
  return success();
}

QUERN_INFER(ArgmaxOp) {
  Adaptor op(operands, attrs, props, regions);
  SmallVector<DimAttr> kept;
  if (failed(needs(loc, operands, {Storage::F32, Storage::I32}, "argmax_c2")) ||
      failed(without(loc, type(op.getX()).getDims(), {op.getDim()}, "argmax_c1", kept)))
    return failure();
  results.push_back(NamedTensorType::get(context, Kind::Int, kept));
  return success();
}

QUERN_INFER(TopKOp) {
  Adaptor op(operands, attrs, props, regions);
  NamedTensorType x = type(op.getX());
  SmallVector<DimAttr> kept;
  if (failed(needs(loc, operands, {Storage::F32, Storage::I32}, "top_k_c2")) ||
      failed(without(loc, x.getDims(), {op.getFrom()}, "top_k_c1", kept)))
    return failure();
  std::optional<int64_t> count = op.getInto().getStatic(), size = x.dim(op.getFrom()).getStatic();
  if (count && size && *count > *size)
    return emitOptionalError(loc, "top_k_c3: ", *count, " of only ", *size, " positions");
  kept.push_back(op.getInto());
  return failure(failed(give(loc, context, x.getStorage(), kept, results)) ||
                 failed(give(loc, context, storageOf(Kind::Int), kept, results)));
}

// ---- shape

QUERN_INFER(RenameOp) {
  Adaptor op(operands, attrs, props, regions);
  NamedTensorType x = type(op.getX());
  SmallVector<StringRef> from = names(op.getFrom());
  if (from.size() != op.getTo().size())
    return emitOptionalError(loc, "rename_c1: as many new dimensions as old names are needed");
  SmallVector<DimAttr> dims(x.getDims());
  for (auto [name, to] : llvm::zip(from, op.getTo().getAsRange<DimAttr>())) {
    int at = x.find(name);
    if (at < 0)
      return emitOptionalError(loc, "rename_c2: the value has no dimension ", name);
    if (x.getDims()[at].getSize() != to.getSize())
      return emitOptionalError(loc, "rename_c3: ", name, " is ", x.getDims()[at].getSizeText(), ", but ", to.getName(),
                               " is ", to.getSizeText());
    dims[at] = to;
  }
  return give(loc, context, x.getStorage(), dims, results);
}

QUERN_INFER(SplitOp) {
  Adaptor op(operands, attrs, props, regions);
  NamedTensorType x = type(op.getX());
  int at = x.find(op.getDim());
  if (at < 0)
    return emitOptionalError(loc, "split_c1: the value has no dimension ", op.getDim());
  SmallVector<DimAttr> dims(x.getDims().take_front(at));
  Size product(1);
  for (DimAttr dim : op.getInto().getAsRange<DimAttr>()) {
    dims.push_back(dim);
    product = product * dim.getSize();
  }
  if (product != x.getDims()[at].getSize())
    return emitOptionalError(loc, "split_c2: ", op.getDim(), " is ", x.getDims()[at].getSizeText(), ", its parts make ",
                             product.str());
  llvm::append_range(dims, x.getDims().drop_front(at + 1));
  return give(loc, context, x.getStorage(), dims, results);
}

QUERN_INFER(MergeOp) {
  Adaptor op(operands, attrs, props, regions);
  NamedTensorType x = type(op.getX());
  SmallVector<StringRef> over = names(op.getDims());
  SmallVector<DimAttr> dims;
  Size product(1);
  if (over.empty())
    return emitOptionalError(loc, "merge_c3: nothing is merged");
  for (StringRef name : over) {
    if (!x.has(name))
      return emitOptionalError(loc, "merge_c1: the value has no dimension ", name);
    product = product * x.dim(name).getSize();
  }
  if (product != op.getInto().getSize())
    return emitOptionalError(loc, "merge_c2: the parts make ", product.str(), ", but ", op.getInto().getName(), " is ",
                             op.getInto().getSizeText());
  for (DimAttr dim : x.getDims()) {
    if (dim.getName() == over.front())
      dims.push_back(op.getInto());
    else if (!llvm::is_contained(over, dim.getName()))
      dims.push_back(dim);
  }
  return give(loc, context, x.getStorage(), dims, results);
}

/// x with dimension `name` replaced by `into`.
static LogicalResult replaced(std::optional<Location> loc, NamedTensorType x, StringRef name, DimAttr into,
                              StringRef label, Types &results) {
  int at = x.find(name);
  if (at < 0)
    return emitOptionalError(loc, label, ": the value has no dimension ", name);
  SmallVector<DimAttr> dims(x.getDims());
  dims[at] = into;
  return give(loc, x.getContext(), x.getStorage(), dims, results);
}

QUERN_INFER(CutOp) {
  Adaptor op(operands, attrs, props, regions);
  if (!Size::parse(op.getOffset()))
    return emitOptionalError(loc, "cut_c2: '", op.getOffset(), "' is no size");
  // Only where all three are known; else the range is checked at run time.
  std::optional<int64_t> first = Size::parse(op.getOffset())->constant(), count = op.getInto().getStatic();
  DimAttr dim = type(op.getX()).dim(op.getDim());
  if (first && count && dim && dim.getStatic() && (*first < 0 || *first + *count > *dim.getStatic()))
    return emitOptionalError(loc, "cut_c3: positions ", *first, " to ", *first + *count - 1, " of ", *dim.getStatic());
  return replaced(loc, type(op.getX()), op.getDim(), op.getInto(), "cut_c1", results);
}

QUERN_INFER(RememberOp) {
  Adaptor op(operands, attrs, props, regions);
  return replaced(loc, type(op.getX()), op.getFrom(), op.getTo(), "remember_c1", results);
}

QUERN_INFER(UnitOp) {
  Adaptor op(operands, attrs, props, regions);
  if (op.getInto().getStatic() != 1)
    return emitOptionalError(loc, "unit_c1: ", op.getInto().getName(), " is not of size 1");
  SmallVector<DimAttr> dims(type(op.getX()).getDims());
  dims.push_back(op.getInto());
  return give(loc, context, type(op.getX()).getStorage(), dims, results);
}

QUERN_INFER(SqueezeOp) {
  Adaptor op(operands, attrs, props, regions);
  NamedTensorType x = type(op.getX());
  SmallVector<DimAttr> kept;
  if (failed(without(loc, x.getDims(), {op.getDim()}, "squeeze_c1", kept)))
    return failure();
  if (x.dim(op.getDim()).getStatic() != 1)
    return emitOptionalError(loc, "squeeze_c2: ", op.getDim(), " is not of size 1");
  results.push_back(x.withDims(kept));
  return success();
}

QUERN_INFER(ConcatOp) {
  Adaptor op(operands, attrs, props, regions);
  SmallVector<StringRef> parts = names(op.getParts());
  SmallVector<NamedTensorType> types = typesOf(op.getInputs()), relabelled;
  if (types.empty() || parts.size() != types.size())
    return emitOptionalError(loc, "concat_c1: as many names as operands are needed, and at least one");
  Size total(0);
  bool real = false;
  for (auto [t, part] : llvm::zip(types, parts)) {
    int at = t.find(part);
    if (at < 0)
      return emitOptionalError(loc, "concat_c2: an operand has no dimension ", part);
    bool stored = !isComputed(t.getStorage()) || !isComputed(types[0].getStorage());
    if (t.isBool() != types[0].isBool() || (stored && t.getStorage() != types[0].getStorage()))
      return emitOptionalError(loc, "concat_c3: bools, numbers of few bytes and others cannot be one tensor");
    real |= t.isF32();
    total = total + t.getDims()[at].getSize();
    SmallVector<DimAttr> dims(t.getDims());
    dims[at] = op.getInto();
    SmallVector<Type, 1> one;
    if (failed(give(loc, context, t.getStorage(), dims, one)))
      return failure();
    relabelled.push_back(cast<NamedTensorType>(one[0]));
  }
  if (total != op.getInto().getSize())
    return emitOptionalError(loc, "concat_c4: the parts make ", total.str(), ", but ", op.getInto().getName(), " is ",
                             op.getInto().getSizeText());
  std::optional<SmallVector<DimAttr>> dims = unionDims(relabelled);
  if (!dims)
    return emitOptionalError(loc, "concat_c5: operands give one name two sizes");
  results.push_back(NamedTensorType::get(context, real ? Storage::F32 : types[0].getStorage(), *dims));
  return success();
}

QUERN_INFER(GatherOp) {
  Adaptor op(operands, attrs, props, regions);
  NamedTensorType x = type(op.getX()), positions = type(op.getPositions());
  if (!positions.isInt())
    return emitOptionalError(loc, "gather_c2: positions are not int");
  int at = x.find(op.getDim());
  if (at < 0)
    return emitOptionalError(loc, "gather_c1: the value has no dimension ", op.getDim());
  // Positions stand where the gathered dimension was, so that embed[V = tokens] is [B, T, D].
  SmallVector<DimAttr> dims;
  for (auto [i, dim] : llvm::enumerate(x.getDims())) {
    if (static_cast<int>(i) != at && !positions.has(dim.getName()))
      dims.push_back(dim);
    if (static_cast<int>(i) == at)
      llvm::append_range(dims, positions.getDims());
    else if (DimAttr other = positions.dim(dim.getName()); other && other != dim)
      return emitOptionalError(loc, "gather_c3: one name has two sizes: ", dim.getName());
  }
  results.push_back(x.withDims(dims));
  return success();
}
