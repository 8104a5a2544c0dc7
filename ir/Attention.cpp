// Takes: a `quern.attention`. Gives: what its parts mean by name, and whether it is well formed.
// Why apart: its rules are about a body and five lists of operands, where those of other operations take a line.
#include "ir/Dialect.h"

using namespace mlir;
using namespace quern::ir;

Value AttentionOp::getScore() {
  return cast<YieldOp>(getBlock().getTerminator()).getValues()[0];
}

SmallVector<DimAttr> AttentionOp::getDepth(unsigned i) {
  NamedTensorType query = typeOf(getQueries()[i]), product = typeOf(getProduct(i));
  SmallVector<DimAttr> depth;
  for (DimAttr dim : typeOf(getKeys()[i]).getDims())
    if (query.has(dim.getName()) && !product.has(dim.getName()))
      depth.push_back(dim);
  return depth;
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
  return success();
}

LogicalResult AttentionOp::verifyRegions() {
  auto yield = dyn_cast<YieldOp>(getBlock().getTerminator());
  if (!yield || yield.getValues().size() != 1)
    return emitOpError("attention_c6: the body ends by yielding one value, the score");
  unsigned products = getQueries().size();
  if (getBlock().getNumArguments() != products + getInputs().size())
    return emitOpError("attention_c7: the body takes a product of each query and key, then each input");
  for (unsigned i = 0; i < products; ++i) {
    NamedTensorType product = typeOf(getProduct(i));
    std::optional<SmallVector<DimAttr>> all = unionDims({typeOf(getQueries()[i]), typeOf(getKeys()[i])});
    SmallVector<DimAttr> depth = getDepth(i), kept;
    bool fixed = llvm::all_of(depth, [](DimAttr dim) { return dim.getStatic().has_value(); });
    for (DimAttr dim : all.value_or(SmallVector<DimAttr>()))
      if (!llvm::is_contained(depth, dim))
        kept.push_back(dim);
    if (depth.empty() || !fixed || !product.sameSet(NamedTensorType::get(getContext(), Kind::Real, kept)))
      return emitOpError("attention_c8: ") << product << " is no product of " << getQueries()[i].getType() << " and "
                                           << getKeys()[i].getType() << " over dimensions of fixed size that both have";
  }
  for (auto [i, input] : llvm::enumerate(getInputs()))
    if (!typeOf(input).sameSet(typeOf(getInputArgument(i))))
      return emitOpError("attention_c9: the body takes ")
             << getInputArgument(i).getType() << " for " << input.getType();
  for (Operation &op : getBlock().without_terminator()) {
    auto time = dyn_cast<TimeOpInterface>(op);
    if (!isa<ConstOp>(op) && !(time && time.getTimeBehavior() == TimeBehavior::Pointwise))
      return emitOpError("attention_c10: '") << op.getName() << "' is not element by element";
  }
  NamedTensorType score = typeOf(getScore());
  if (!score.isReal() || score.dim(getDim()) != getValues().getType().dim(getDim()))
    return emitOpError("attention_c11: the score is real and has the dimension of the keys");
  NamedTensorType rows = statisticType(score, getDim()), result = resultType(score, getValues().getType(), getDim());
  for (auto [sink, part] : llvm::zip(getSinks(), getPartNames()))
    for (DimAttr dim : typeOf(sink).getDims())
      if (!typeOf(sink).isReal() || (dim.getName() != part && rows.dim(dim.getName()) != dim))
        return emitOpError("attention_c12: a sink has another dimension than the scores of a key, or is not real");
  for (auto [i, own] : llvm::enumerate(getResultTypes()))
    if (!result || !cast<NamedTensorType>(own).sameSet(i ? rows : result))
      return emitOpError("attention_c13: the result ") << own << " does not follow from the score and the values";
  return success();
}
