// Takes: a node and a place. Gives: the values that it is made of. What only moves positions costs nothing.
#include "codegen/tile/Places.h"

#include <cstdint>

namespace quern::codegen::tile {

void declare(const KernelGraph &graph, Program &p) {
  p.name = graph.name;
  p.symbols = graph.symbols;
  for (int i = 0; i < graph.argumentCount(); ++i)
    p.buffers.push_back(
        {Buffer::Role::Argument, graph.nodes[i].storage, graph.argumentLayouts[i], graph.nodes[i].dims});
  for (size_t i = 0; i < graph.results.size(); ++i) {
    const Node &node = graph.nodes[graph.results[i]];
    if (graph.resultLayouts[i].packed || bitsOfCode(node.storage) || node.storage == Storage::F16)
      throw Refusal("it writes no codes");
    p.buffers.push_back({Buffer::Role::Result, node.storage, graph.resultLayouts[i], node.dims});
  }
  if (graph.inPlace)
    throw Refusal("it adds to nothing in place");
}

int Places::at(int node, const Place &place) {
  std::pair<int, std::vector<int>> key{node, {}};
  for (const Dim &dim : graph.nodes[node].dims)
    key.second.push_back(place.at(dim.name));
  if (auto known = made.find(key); known != made.end())
    return known->second;
  int value = make(node, place);
  made.emplace(std::move(key), value);
  return value;
}

Place Places::divided(const std::vector<Dim> &dims, int coordinate) {
  Place place;
  int rest = coordinate;
  for (size_t i = dims.size(); i-- > 0;) {
    int size = v.length(dims[i].size);
    place[dims[i].name] = i ? integer(Op::Mod, rest, size) : rest;
    if (i)
      rest = integer(Op::FloorDiv, rest, size);
  }
  return place;
}

int Places::flat(const std::vector<Dim> &dims, const Place &place) {
  int position = v.number(0);
  for (const Dim &dim : dims)
    position = integer(Op::Add, integer(Op::Mul, position, v.length(dim.size)), place.at(dim.name));
  return position;
}

int Places::asReal(int value) {
  return v[value].kind == Kind::Real ? value : v.apply(Op::ToReal, Kind::Real, {value});
}

int Places::clamped(int position, int size) {
  int last = integer(Op::Sub, size, v.number(1));
  return integer(Op::Min, integer(Op::Max, position, v.number(0)), last);
}

int Places::make(int i, const Place &place) {
  const Node &node = graph.nodes[i];
  switch (node.op) {
  case Op::Argument: {
    if (bitsOfCode(node.storage) && !graph.argumentLayouts[size_t(i)].packed)
      throw Refusal("it reads codes of packed weights alone");
    std::vector<int> positions;
    for (const Dim &dim : node.dims)
      positions.push_back(place.at(dim.name));
    return v.load(i, node.kind(), std::move(positions));
  }
  case Op::Const:
    return node.kind() == Kind::Real  ? v.real(node.numbers[0])
           : node.kind() == Kind::Int ? v.number(node.integer)
                                      : v.flag(node.integer != 0);
  case Op::Size:
    return v.length(node.size);
  case Op::Index:
    return place.at(node.dims[0].name);
  case Op::Values:
    return v.table(node.numbers, place.at(node.dims[0].name));
  case Op::Contract:
    return product(i, place);
  case Op::Reduce:
    return reduction(i, place);
  case Op::Widen:
  case Op::Dequantize:
    return at(node.operands[0], place);
  case Op::Concat:
    return joined(node, place);
  default:
    break;
  }
  if (graph.isElementwise(i)) {
    std::vector<int> operands;
    for (int operand : node.operands)
      operands.push_back(at(operand, place));
    return elementwise(node, std::move(operands));
  }
  return at(node.operands[0], moved(node, place));
}

int Places::elementwise(const Node &node, std::vector<int> operands) {
  if (node.op == Op::Sin || node.op == Op::Cos)
    throw Refusal("angles are reduced in double precision");
  if (node.op == Op::Rescale)
    return v.apply(Op::Mul, Kind::Real, {asReal(operands[0]), operands[1]});
  if (node.op == Op::Narrow && node.storage == Storage::I8)
    return integer(Op::Max, integer(Op::Min, operands[0], v.number(INT8_MAX)), v.number(INT8_MIN));
  if (node.op == Op::Narrow && node.storage != Storage::BF16)
    throw Refusal("it rounds to nothing but bf16 and codes of one byte");
  size_t first = node.op == Op::Where ? 1 : 0;
  bool anyReal = node.kind() == Kind::Real;
  for (size_t k = first; k < operands.size(); ++k)
    anyReal |= v[operands[k]].kind == Kind::Real;
  if (anyReal && node.op != Op::ToInt && node.op != Op::ToReal)
    for (size_t k = first; k < operands.size(); ++k)
      operands[k] = asReal(operands[k]);
  if (node.op == Op::Pow) {
    const Value &exponent = v[operands[1]];
    double e = exponent.real;
    if (exponent.form != Value::Form::Number || !(e == 0.5 || (e == int(e) && e >= 1 && e <= 16)))
      throw Refusal("powers are computed in double precision");
  }
  return v.apply(node.op, node.kind(), std::move(operands), node.predicate);
}

int Places::joined(const Node &node, const Place &place) {
  int here = place.at(node.into[0].name), before = v.number(0), result = -1;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const Node &part = graph.nodes[node.operands[i]];
    int size = v.length(part.dims[part.find(node.names[i])].size);
    Place p = place;
    p[node.names[i]] = clamped(integer(Op::Sub, here, before), size);
    int value = at(node.operands[i], p);
    int reached = v.apply(Op::Compare, Kind::Bool, {here, before}, Predicate::Ge);
    result = result < 0 ? value : v.apply(Op::Where, v[value].kind, {reached, value, result});
    before = integer(Op::Add, before, size);
  }
  return result;
}

Place Places::moved(const Node &node, const Place &place) {
  const Node &from = graph.nodes[node.operands[0]];
  Place p = place;
  auto size = [&](const std::string &name) { return v.length(from.dims[from.find(name)].size); };
  switch (node.op) {
  case Op::Rename:
    for (const std::string &name : node.names)
      p.erase(name);
    for (size_t i = 0; i < node.names.size(); ++i)
      p[node.names[i]] = place.at(node.into[i].name);
    return p;
  case Op::Split:
    p[node.names[0]] = flat(node.into, place);
    return p;
  case Op::Merge: {
    std::vector<Dim> dims;
    for (const std::string &name : node.names)
      dims.push_back(from.dims[from.find(name)]);
    for (auto &[name, position] : divided(dims, place.at(node.into[0].name)))
      p[name] = position;
    return p;
  }
  case Op::Cut:
    p[node.names[0]] = integer(Op::Add, place.at(node.into[0].name), v.length(node.size));
    return p;
  case Op::Squeeze:
    p[node.names[0]] = v.number(0);
    return p;
  case Op::Gather:
    p[node.names[0]] = clamped(at(node.operands[1], place), size(node.names[0]));
    return p;
  case Op::Unit:
  case Op::Expand:
  case Op::Permute:
    return p;
  default:
    throw Refusal("it makes products and what is computed element by element");
  }
}

} // namespace quern::codegen::tile
