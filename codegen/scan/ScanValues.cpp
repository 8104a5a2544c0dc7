// Takes: a node and a place. Gives: its value there, from buffers, local memory or its operands.
// Why by places and not by arrays: what moves positions then costs nothing, and what is cheap is made where it is used.
#include "codegen/scan/ScanValues.h"

using namespace llvm;

namespace quern::codegen::scan {

Value *Values::lanesOf(Value *value) {
  return value->getType()->isVectorTy() ? value : b.CreateVectorSplat(width, value);
}

Value *Values::asInt(const Index &index) {
  Value *base = b.CreateTrunc(index.base, b.getInt32Ty());
  if (!index.lanes)
    return base;
  std::vector<Constant *> steps;
  for (int i = 0; i < width; ++i)
    steps.push_back(b.getInt32(i));
  return b.CreateAdd(b.CreateVectorSplat(width, base), ConstantVector::get(steps));
}

Value *Values::address(size_t buffer, const std::vector<Dim> &dims, const Place &at, Value *&laneStride) {
  Value *offset = number(0);
  for (size_t i = 0; i < dims.size(); ++i) {
    const Index &index = at.at(dims[i].name);
    offset = b.CreateAdd(offset, b.CreateMul(index.base, strides[buffer][i]));
    if (index.lanes)
      laneStride = strides[buffer][i];
  }
  return offset;
}

bool Values::isOne(Value *stride) {
  auto *constant = dyn_cast<ConstantInt>(stride);
  return constant && constant->isOne();
}

Value *Values::lanePointers(Value *host, Type *type, Value *offset, Value *stride) {
  std::vector<Constant *> steps;
  for (int i = 0; i < width; ++i)
    steps.push_back(b.getInt64(i));
  Value *offsets = b.CreateAdd(b.CreateVectorSplat(width, offset),
                               b.CreateMul(ConstantVector::get(steps), b.CreateVectorSplat(width, stride)));
  return b.CreateGEP(type, host, offsets);
}

Value *Values::allLanes() {
  return mask ? mask : ConstantInt::getTrue(FixedVectorType::get(b.getInt1Ty(), width));
}

Value *Values::load(size_t buffer, const Node &node, const Place &at) {
  Value *stride = nullptr, *offset = address(buffer, node.dims, at, stride);
  Type *type = inMemory(elementType(node.kind()));
  Align align(type->getScalarSizeInBits() / 8);
  Value *value;
  if (!stride)
    value = b.CreateAlignedLoad(type, b.CreateGEP(type, hosts[buffer], offset), align);
  else if (auto *vector = FixedVectorType::get(type, width); !isOne(stride))
    value = b.CreateMaskedGather(vector, lanePointers(hosts[buffer], type, offset, stride), align, allLanes(),
                                 Constant::getNullValue(vector));
  else if (Value *from = b.CreateGEP(type, hosts[buffer], offset); mask)
    value = b.CreateMaskedLoad(vector, from, align, mask, Constant::getNullValue(vector));
  else
    value = b.CreateAlignedLoad(vector, from, align);
  return fromMemory(value, node.kind() == Kind::Bool);
}

void Values::store(size_t buffer, const Node &node, const Place &at, Value *value) {
  Value *stride = nullptr, *offset = address(buffer, node.dims, at, stride);
  Type *type = inMemory(elementType(node.kind()));
  Align align(type->getScalarSizeInBits() / 8);
  if (!stride) {
    b.CreateAlignedStore(likeMemory(value, type), b.CreateGEP(type, hosts[buffer], offset), align);
    return;
  }
  value = likeMemory(lanesOf(value), FixedVectorType::get(type, width));
  Value *to = b.CreateGEP(type, hosts[buffer], offset);
  if (!isOne(stride))
    b.CreateMaskedScatter(value, lanePointers(hosts[buffer], type, offset, stride), align, allLanes());
  else if (mask)
    b.CreateMaskedStore(value, to, align, mask);
  else
    b.CreateAlignedStore(value, to, align);
}

const std::vector<Node> &Values::nodesOf(bool inside) const {
  return inside ? body.nodes : graph.nodes;
}

Value *Values::eval(bool inside, int i, const Place &at) {
  const Node &node = nodesOf(inside)[i];
  Key key = keyOf(inside, i, node, at);
  for (const auto &values : known)
    if (auto found = values.find(key); found != values.end())
      return found->second;
  Value *value = make(inside, i, node, at);
  known.back()[key] = value;
  return value;
}

Value *Values::argument(int i, const Node &node, const Place &at) {
  if (i < body.carried)
    return read(states[i], at, node.kind());
  if (i < body.carried + body.slices)
    return eval(false, shape.operands[i], at);
  const Local &copy = inputs[i - body.carried - body.slices];
  return copy.memory ? read(copy, at, node.kind()) : eval(false, shape.operands[i], at);
}

Value *Values::make(bool inside, int i, const Node &node, const Place &at) {
  switch (node.op) {
  case Op::Argument:
    return inside ? argument(i, node, at) : load(i, node, at);
  case Op::Const:
    return node.kind() == Kind::Real  ? ConstantFP::get(b.getFloatTy(), node.numbers[0])
           : node.kind() == Kind::Int ? static_cast<Value *>(b.getInt32(static_cast<uint32_t>(node.integer)))
                                      : b.getInt1(node.integer != 0);
  case Op::Size:
    return b.CreateTrunc(sizeOf(node.size), b.getInt32Ty());
  case Op::Index:
    return asInt(at.at(node.dims[0].name));
  case Op::Values:
    return listed(node, at.at(node.dims[0].name));
  case Op::Reduce:
  case Op::Contract:
    return read(reductions.at(i), at, node.kind());
  case Op::Concat:
    return joined(inside, node, at);
  default:
    break;
  }
  if (node.op >= Op::Neg && node.op <= Op::Where) {
    std::vector<Value *> operands;
    bool lanes = false;
    for (int operand : node.operands) {
      operands.push_back(eval(inside, operand, at));
      lanes = lanes || operands.back()->getType()->isVectorTy();
    }
    if (lanes)
      for (Value *&operand : operands)
        operand = lanesOf(operand);
    std::vector<Kind> kinds;
    for (int operand : node.operands)
      kinds.push_back(nodesOf(inside)[operand].kind());
    return math.elementwise(node, kinds, operands);
  }
  return eval(inside, node.operands[0], moved(inside, node, at));
}

Value *Values::listed(const Node &node, const Index &index) {
  std::vector<Constant *> list;
  for (double value : node.numbers)
    list.push_back(ConstantFP::get(b.getFloatTy(), value));
  auto *type = ArrayType::get(b.getFloatTy(), list.size());
  auto *table = new GlobalVariable(module, type, true, GlobalValue::PrivateLinkage, ConstantArray::get(type, list));
  if (!index.lanes)
    return b.CreateLoad(b.getFloatTy(), b.CreateGEP(b.getFloatTy(), table, index.base));
  auto *vector = FixedVectorType::get(b.getFloatTy(), width);
  return b.CreateMaskedGather(vector, lanePointers(table, b.getFloatTy(), index.base, number(1)), Align(4), allLanes(),
                              Constant::getNullValue(vector));
}

Value *Values::clamped(Value *index, Value *size) {
  Value *low = b.CreateSelect(b.CreateICmpSLT(index, number(0)), number(0), index);
  Value *last = b.CreateSub(size, number(1));
  return b.CreateSelect(b.CreateICmpSGT(low, last), last, low);
}

Place Values::moved(bool inside, const Node &node, const Place &at) {
  const Node &from = nodesOf(inside)[node.operands[0]];
  Place p = at;
  auto size = [&](const std::string &name) { return sizeOf(from.dims[from.find(name)].size); };
  switch (node.op) {
  case Op::Rename:
    for (const std::string &name : node.names)
      p.erase(name);
    for (size_t i = 0; i < node.names.size(); ++i)
      p[node.names[i]] = at.at(node.into[i].name);
    break;
  case Op::Split: {
    Value *position = number(0);
    for (const Dim &part : node.into)
      position = b.CreateAdd(b.CreateMul(position, sizeOf(part.size)), at.at(part.name).base);
    p[node.names[0]] = {position};
    break;
  }
  case Op::Merge: {
    Value *position = at.at(node.into[0].name).base;
    for (size_t i = node.names.size(); i-- > 0;) {
      p[node.names[i]] = {b.CreateSRem(position, size(node.names[i]))};
      position = b.CreateSDiv(position, size(node.names[i]));
    }
    break;
  }
  case Op::Cut:
    p[node.names[0]] = {b.CreateAdd(at.at(node.into[0].name).base, sizeOf(node.size))};
    break;
  case Op::Squeeze:
    p[node.names[0]] = {number(0)};
    break;
  case Op::Gather: {
    Value *position = b.CreateSExt(eval(inside, node.operands[1], at), i64);
    p[node.names[0]] = {clamped(position, size(node.names[0]))};
    break;
  }
  default: // Unit, Expand, Permute: the operand lacks a dimension, or has another order
    break;
  }
  return p;
}

Value *Values::joined(bool inside, const Node &node, const Place &at) {
  Value *here = at.at(node.into[0].name).base, *before = number(0), *result = nullptr;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const Node &part = nodesOf(inside)[node.operands[i]];
    Value *size = sizeOf(part.dims[part.find(node.names[i])].size);
    Value *own = b.CreateSub(here, before);
    Place p = at;
    p[node.names[i]] = {clamped(own, size)};
    Value *value = eval(inside, node.operands[i], p);
    if (result && value->getType()->isVectorTy() != result->getType()->isVectorTy())
      value = lanesOf(value), result = lanesOf(result);
    result = result ? b.CreateSelect(b.CreateICmpSGE(here, before), value, result) : value;
    before = b.CreateAdd(before, size);
  }
  return result;
}

} // namespace quern::codegen::scan
