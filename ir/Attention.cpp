// Takes: a `quern.attention` or its gradient. Gives: what the parts mean by name, and whether it is well formed.
// Why apart: the rules are about a body and lists of operands, where those of other operations take a line.
#include "ir/Dialect.h"

using namespace mlir;
using namespace quern::ir;

Value AttentionOp::getScore() {
  return cast<YieldOp>(getBlock().getTerminator()).getValues()[0];
}

/// Dimensions that both have and their product lacks.
static SmallVector<DimAttr> depthOf(NamedTensorType a, NamedTensorType b, NamedTensorType product) {
  SmallVector<DimAttr> depth;
  for (DimAttr dim : b.getDims())
    if (a.has(dim.getName()) && !product.has(dim.getName()))
      depth.push_back(dim);
  return depth;
}

SmallVector<DimAttr> AttentionOp::getDepth(unsigned i) {
  return depthOf(typeOf(getQueries()[i]), typeOf(getKeys()[i]), typeOf(getProduct(i)));
}

SmallVector<StringRef> AttentionOp::getPartNames() {
  return getParts() ? names(*getParts()) : SmallVector<StringRef>();
}

static NamedTensorType without(NamedTensorType type, ArrayRef<DimAttr> dims, StringRef name) {
  SmallVector<DimAttr> kept;
  for (DimAttr dim : dims)
    if (dim.getName() != name)
      kept.push_back(dim);
  return type.withDims(kept);
}

NamedTensorType AttentionOp::resultType(NamedTensorType score, NamedTensorType values, StringRef dim) {
  std::optional<SmallVector<DimAttr>> all = unionDims({score, values});
  return all ? without(score, *all, dim) : NamedTensorType();
}

NamedTensorType AttentionOp::statisticType(NamedTensorType score, StringRef dim) {
  return without(score, score.getDims(), dim);
}

LogicalResult AttentionOp::verify() {
  StringRef key = getDim();
  if (getQueries().empty() || getQueries().size() != getKeys().size())
    return emitOpError("attention_c1: as many keys as queries are needed, at least one");
  DimAttr keys = getValues().getType().dim(key);
  bool same = keys != nullptr;
  for (auto [query, each] : llvm::zip(getQueries(), getKeys()))
    same &= !typeOf(query).has(key) && typeOf(each).dim(key) == keys;
  if (!same)
    return emitOpError("attention_c2: keys and values have the dimension ") << key << ", queries do not";
  if (getPartNames().size() != getSinks().size())
    return emitOpError("attention_c3: one part for each sink is needed");
  for (auto [sink, part] : llvm::zip(getSinks(), getPartNames()))
    if (DimAttr dim = typeOf(sink).dim(part); !dim || !dim.getStatic() || typeOf(sink).has(key))
      return emitOpError("attention_c4: a sink has no dimension ") << part << " of fixed size, or that of the keys";
  if (getNumResults() != 1 && getNumResults() != 3)
    return emitOpError("attention_c5: there are one or three results");
  if (getNarrow() && hasStatistics())
    return emitOpError("attention_c14: statistics are of weights that are not rounded");
  return success();
}

/// The body's arguments and operations; `label` begins the name of a constraint, such as attention_c.
static LogicalResult verifyBody(Operation *op, Block &body, OperandRange queries, OperandRange keys,
                                OperandRange inputs, StringRef label) {
  unsigned products = queries.size();
  if (body.getNumArguments() != products + inputs.size())
    return op->emitOpError(label) << "7: the body takes a product of each query and key, then each input";
  for (auto [query, key, argument] : llvm::zip(queries, keys, body.getArguments())) {
    NamedTensorType product = typeOf(argument);
    std::optional<SmallVector<DimAttr>> all = unionDims({typeOf(query), typeOf(key)});
    SmallVector<DimAttr> depth = depthOf(typeOf(query), typeOf(key), product), kept;
    bool fixed = llvm::all_of(depth, [](DimAttr dim) { return dim.getStatic().has_value(); });
    for (DimAttr dim : all.value_or(SmallVector<DimAttr>()))
      if (!llvm::is_contained(depth, dim))
        kept.push_back(dim);
    if (depth.empty() || !fixed || !product.sameSet(NamedTensorType::get(op->getContext(), Kind::Real, kept)))
      return op->emitOpError(label) << "8: " << product << " is no product of " << query.getType() << " and "
                                    << key.getType() << " over dimensions of fixed size that both have";
  }
  for (auto [input, argument] : llvm::zip(inputs, body.getArguments().drop_front(products)))
    if (!typeOf(input).sameSet(typeOf(argument)))
      return op->emitOpError(label) << "9: the body takes " << argument.getType() << " for " << input.getType();
  for (Operation &inner : body.without_terminator()) {
    auto time = dyn_cast<TimeOpInterface>(inner);
    if (!isa<ConstOp>(inner) && !(time && time.getTimeBehavior() == TimeBehavior::Pointwise))
      return op->emitOpError(label) << "10: '" << inner.getName() << "' is not element by element";
  }
  return success();
}

LogicalResult AttentionOp::verifyRegions() {
  auto yield = dyn_cast<YieldOp>(getBlock().getTerminator());
  if (!yield || yield.getValues().size() != 1)
    return emitOpError("attention_c6: the body ends by yielding one value, the score");
  if (failed(verifyBody(*this, getBlock(), getQueries(), getKeys(), getInputs(), "attention_c")))
    return failure();
  NamedTensorType score = typeOf(getScore());
  if (!score.isF32() || score.dim(getDim()) != getValues().getType().dim(getDim()))
    return emitOpError("attention_c11: the score is real and has the dimension of the keys");
  NamedTensorType rows = statisticType(score, getDim()), result = resultType(score, getValues().getType(), getDim());
  for (auto [sink, part] : llvm::zip(getSinks(), getPartNames()))
    for (DimAttr dim : typeOf(sink).getDims())
      if (!typeOf(sink).isF32() || (dim.getName() != part && rows.dim(dim.getName()) != dim))
        return emitOpError("attention_c12: a sink has another dimension than the scores of a key, or is not real");
  for (auto [i, own] : llvm::enumerate(getResultTypes()))
    if (!result || !cast<NamedTensorType>(own).sameSet(i ? rows : result))
      return emitOpError("attention_c13: the result ") << own << " does not follow from the score and the values";
  return success();
}

OperandRange AttentionGradientOp::getWeights() {
  return cast<YieldOp>(getBlock().getTerminator()).getValues();
}

SmallVector<DimAttr> AttentionGradientOp::getDepth(unsigned i) {
  return depthOf(typeOf(getRows()[i]), typeOf(getOthers()[i]), typeOf(getProduct(i)));
}

SmallVector<DimAttr> AttentionGradientOp::getOwnDims() {
  SmallVector<DimAttr> own;
  for (DimAttr dim : typeOf(getWeights()[0]).getDims()) {
    auto has = [&](Value value) { return typeOf(value).has(dim.getName()); };
    if (dim.getName() != getDim() && llvm::none_of(getOthers(), has) && llvm::none_of(getValues(), has))
      own.push_back(dim);
  }
  return own;
}

Size AttentionGradientOp::getOffsetSize() {
  return *Size::parse(*getOffset());
}

LogicalResult AttentionGradientOp::verify() {
  StringRef key = getDim();
  if (getRows().empty() || getRows().size() != getOthers().size())
    return emitOpError("attention_gradient_c1: as many others as rows are needed, at least one");
  DimAttr keys = typeOf(getOthers()[0]).dim(key);
  bool same = keys != nullptr;
  for (auto [row, other] : llvm::zip(getRows(), getOthers()))
    same &= !typeOf(row).has(key) && typeOf(other).dim(key) == keys;
  for (Value value : getValues())
    same &= typeOf(value).dim(key) == keys;
  if (!same)
    return emitOpError("attention_gradient_c2: others and values have the dimension ") << key << ", rows do not";
  bool along = getDistance() && getOffset() && getInto();
  if (along ? !getValues().empty() || getNumResults() != 1
            : getValues().size() != getNumResults() || getValues().empty())
    return emitOpError("attention_gradient_c3: one value for each result is needed, or a distance and one result");
  if (getDistance().has_value() != along || getOffset().has_value() != along || getInto().has_value() != along)
    return emitOpError("attention_gradient_c4: a distance, an offset and a dimension belong together");
  if (along && (names(*getDistance()).size() != 2 || !llvm::is_contained(names(*getDistance()), key) ||
                names(*getDistance())[0] == names(*getDistance())[1] || !Size::parse(*getOffset())))
    return emitOpError("attention_gradient_c5: a distance is of two dimensions, ")
           << key << " one of them, and an offset a size";
  return success();
}

LogicalResult AttentionGradientOp::verifyRegions() {
  auto yield = dyn_cast<YieldOp>(getBlock().getTerminator());
  if (!yield || yield.getValues().size() != getNumResults())
    return emitOpError("attention_gradient_c6: the body ends by yielding the weights of each result");
  if (failed(verifyBody(*this, getBlock(), getRows(), getOthers(), getInputs(), "attention_gradient_c")))
    return failure();
  NamedTensorType first = typeOf(getWeights()[0]);
  for (auto [i, weights] : llvm::enumerate(getWeights())) {
    if (!typeOf(weights).isF32() || !typeOf(weights).sameSet(first) ||
        typeOf(weights).dim(getDim()) != typeOf(getOthers()[0]).dim(getDim()))
      return emitOpError("attention_gradient_c11: weights are real, have the same dimensions and that of the sum");
    NamedTensorType result;
    if (isAlongDistance()) {
      SmallVector<DimAttr> kept;
      for (DimAttr dim : first.getDims())
        if (!llvm::is_contained(names(*getDistance()), dim.getName()))
          kept.push_back(dim);
      bool both = llvm::all_of(names(*getDistance()), [&](StringRef name) { return first.has(name); });
      both &= llvm::none_of(kept, [&](DimAttr dim) { return dim.getName() == getInto()->getName(); });
      kept.push_back(*getInto());
      result = both ? first.withDims(kept) : NamedTensorType();
    } else {
      result = AttentionOp::resultType(typeOf(weights), typeOf(getValues()[i]), getDim());
      unsigned columns = 0;
      bool fixed = true;
      for (DimAttr dim : typeOf(getValues()[i]).getDims())
        if (!typeOf(weights).has(dim.getName()))
          ++columns, fixed &= dim.getStatic().has_value();
      if (columns != 1 || !fixed)
        return emitOpError("attention_gradient_c12: a value has one dimension of its own, of fixed size");
    }
    if (!result || !typeOf(getResult(i)).sameSet(result))
      return emitOpError("attention_gradient_c13: the result ")
             << getResult(i).getType() << " does not follow from weights and value";
  }
  if (getOwnDims().empty())
    return emitOpError("attention_gradient_c14: no dimension belongs to the rows alone");
  return success();
}
