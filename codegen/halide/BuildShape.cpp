// Takes: an operation that changes dimensions. Gives: one element, as an element of its operand at other positions.
#include "codegen/halide/KernelBuilder.h"

#include <stdexcept>

using namespace Halide;

namespace quern::codegen {

Expr KernelBuilder::shape(const Node &node, const Index &index) {
  int x = node.operands[0];
  const std::vector<Dim> &from = graph.nodes[x].dims;
  Index inside;
  for (const Dim &dim : from)
    if (auto it = index.find(dim.name); it != index.end())
      inside[dim.name] = it->second;
  switch (node.op) {
  case Op::Rename:
    for (size_t i = 0; i < node.names.size(); ++i)
      inside[node.names[i]] = index.at(node.into[i].name);
    break;
  case Op::Split: { // row-major: the first part is outermost
    Expr position;
    for (const Dim &part : node.into) {
      Expr own = index.at(part.name);
      position = position.defined() ? position * extent(part.size) + own : own;
    }
    inside[node.names[0]] = position;
    break;
  }
  case Op::Merge: {
    Expr position = index.at(node.into[0].name);
    for (size_t i = node.names.size(); i-- > 0;) {
      Expr size = extent(from[graph.nodes[x].find(node.names[i])].size);
      inside[node.names[i]] = i ? position % size : position;
      position = position / size;
    }
    break;
  }
  case Op::Cut:
    inside[node.names[0]] = index.at(node.into[0].name) + extent(node.size);
    break;
  case Op::Squeeze:
    inside[node.names[0]] = 0;
    break;
  case Op::Gather: { // clamped: a position from data must not read outside of the buffer
    Expr last = extent(from[graph.nodes[x].find(node.names[0])].size) - 1;
    inside[node.names[0]] = clamp(at(node.operands[1], index), 0, last);
    break;
  }
  case Op::Unit:
  case Op::Expand:
  case Op::Permute:
    break;
  default:
    throw std::logic_error("not an operation on shapes");
  }
  return at(x, inside);
}

} // namespace quern::codegen
