// Takes: the pattern of attention or of its gradient, and a plan. Gives: positions of rows in blocks, bounds of the
// keys that a block can see, arguments of Funcs. Why one place for both: a gradient's block must see exactly the keys
// that attention's saw.
#include "codegen/halide/attention/AttentionRows.h"

#include "codegen/halide/Math.h"

#include <algorithm>

using namespace Halide;

namespace quern::codegen {

AttentionRows::AttentionRows(KernelBuilder &builder, AttentionPattern pattern, const PlanPart &plan)
    : b(builder), p(std::move(pattern)) {
  for (const Dim &dim : p.together)
    together *= static_cast<int>(*dim.fixed());
  width = b.target.vector, span = plan["rows"], step = plan["step"], unroll = plan["unroll"];
  if (plan.tiles())
    tiles = true, span = tileColumns * plan.tiles(), step = depthOfTile;
  pairs = !tiles && multipliesPairs(b.graph, p, b.target) && step % inPair == 0;
  chunk = plan["keys"] / step * step;
  positions = std::max(1, span / together);
  lanes = (positions * together + span - 1) / span * span;
  blocks = std::max(1, plan["block"] / lanes);
}

void AttentionRows::prepareInputs(std::vector<int> inputs) {
  for (const AttentionDot &dot : p.dots)
    inputs.insert(inputs.end(), {dot.q, dot.k});
  for (int input : inputs) {
    int source = input;
    auto isView = [&](Op op) {
      return op == Op::Rename || op == Op::Permute || op == Op::Squeeze || op == Op::Unit || op == Op::Cut ||
             op == Op::Expand || op == Op::Widen || op == Op::Rescale || op == Op::Narrow; // on the way to a copy
    };
    while (!b.isStage[source] && isView(b.graph.nodes[source].op))
      source = b.graph.nodes[source].operands[0];
    if (!b.isStage[source] && b.graph.nodes[source].op != Op::Argument)
      b.materialize(input);
  }
}

Expr AttentionRows::positionOf(const Position &position) {
  Expr sum = b.extent(position.size);
  for (auto [node, factor] : position.terms)
    sum += b.at(node, KernelBuilder::varsOf(p.heads)) * static_cast<int32_t>(factor);
  return sum;
}

Index AttentionRows::rowIndex(Index index, const Expr &at) const {
  Expr rest = at;
  for (auto dim = p.together.rbegin(); dim != p.together.rend(); ++dim) {
    int32_t size = static_cast<int32_t>(*dim->fixed());
    index[dim->name] = dim + 1 == p.together.rend() ? rest : rest % size;
    rest = rest / size;
  }
  return index;
}

std::vector<Expr> AttentionRows::headArgs(std::vector<Expr> leading) const {
  for (auto dim = p.heads.rbegin(); dim != p.heads.rend(); ++dim)
    leading.push_back(KernelBuilder::var(dim->name));
  return leading;
}

std::vector<Var> AttentionRows::asVars(const std::vector<Expr> &args) {
  std::vector<Var> vars;
  for (const Expr &arg : args)
    vars.push_back(Var(arg.as<Internal::Variable>()->name));
  return vars;
}

int AttentionRows::narrowed(int64_t extent) const {
  int narrow = width;
  while (narrow > extent)
    narrow /= 2;
  return narrow;
}

void AttentionRows::boundKeys() {
  Expr length = b.extent(p.key.size), count = b.extent(p.query.size);
  lastKey = length - 1, firstKey = 0;
  if (p.upper) // of the block's last query
    lastKey = clamp(min(tile * positions + (positions - 1), count - 1) + positionOf(*p.upper), 0, length - 1);
  if (p.lower) // of its first
    firstKey = clamp(tile * positions + positionOf(*p.lower), 0, length - 1);
  if (p.lower && p.ring)
    firstKey = select(b.extent(*p.ring) > 0, 0, firstKey);
}

void AttentionRows::placeRows(int node) {
  place = b.newFunc("place", node), which = b.newFunc("which", node);
  place(row, tile) = min(tile * positions + row / together, b.extent(p.query.size) - 1);
  which(row) = row % together;
}

void AttentionRows::schedulePlaces(const LoopLevel &level) {
  if (together == 1)
    return;
  place.compute_at(level).bound_extent(row, lanes).vectorize(row, width);
  which.compute_at(level).bound_extent(row, lanes).vectorize(row, width);
}

Index AttentionRows::blockIndex() const {
  Expr last = b.extent(p.query.size) - 1;
  Index index = rowIndex(KernelBuilder::varsOf(p.heads), together > 1 ? clamp(which(row), 0, together - 1) : Expr(0));
  index[p.query.name] = together > 1 ? clamp(place(row, tile), 0, last) : min(tile * positions + row, last);
  return index;
}

Expr AttentionRows::seenSteps(int within) {
  int perPart = chunk / step;
  RDom r(0, within, 0, perPart);
  Expr begin = part * perPart, group = begin + r.y;
  // A block that sees nothing of a part stays within it, so that copies are of the part alone.
  auto inPart = [&](const Expr &at) { return clamp(at, begin, begin + (perPart - 1)); };
  Expr seen = clamp(group, inPart(firstKey / step), inPart(lastKey / step));
  r.where(group >= firstKey / step && group <= lastKey / step);
  inGroup = r.x, overGroups = r.y;
  return seen;
}

Expr AttentionRows::seenKeys() {
  Expr seen = seenSteps(step);
  return seen * step + inGroup;
}

std::pair<Expr, Expr> AttentionRows::numberAndScale(int node, const Index &index, const std::vector<Dim> &along) {
  const Node &n = b.graph.nodes[node];
  if (n.op != Op::Rescale || b.isStage[node])
    return {b.real(node, index), Expr()};
  const Node &scales = b.graph.nodes[n.operands[1]];
  if (std::any_of(along.begin(), along.end(), [&](const Dim &dim) { return scales.has(dim.name); }))
    return {b.real(node, index), Expr()};
  return {cast<float>(b.at(n.operands[0], index)), math::widen(scales.storage, b.at(n.operands[1], index), b.target)};
}

Expr AttentionRows::columnOf(int columns) const {
  // Columns beyond the last repeat some: whole tiles of them where it fits, so that those of a tile stay side by side.
  return columns % step ? min(column, columns - 1) : min(column / step, columns / step - 1) * step + column % step;
}

} // namespace quern::codegen
