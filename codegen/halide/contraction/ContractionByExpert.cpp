// Takes: the gradient of weights that were picked for each row (experts): for each expert the sum of the outer products
// of the pairs that picked it. Gives: a matrix product for each expert, over its pairs alone; zeros where there are
// none. Why as a contraction: the outer product of a row is as large as a matrix, so adding it up in memory, row after
// row, would read and write the matrix for each. No order of threads enters: a sum is made by one task, in the order of
// the pairs.
//
//   first, order: pairs sorted by expert (ContractionGrouped)
//   strip, groups = w in tiles of columns, x in groups of rows, both sorted
//   for each expert, group of tiles of columns, block of rows (parallel)    what a task writes lies together
//     for each tile of rows, tile of columns
//       sums[rows x columns] = 0;  for k in the slots of the expert: sums += groups[k, rows] * strip[k, columns]
//       result[expert, tile] = epilogue(sums)
#include "codegen/halide/contraction/ContractionFamily.h"

#include <algorithm>

using namespace Halide;

namespace quern::codegen {

/// Each factor of the product has a dimension of its own, and all that picks is summed (passes/weights/Weights.h says the
/// same).
bool ContractionFamily::sumsByExpert(const KernelBuilder &b, int scatter) {
  const std::vector<Node> &nodes = b.graph.nodes;
  const Node &s = nodes[scatter];
  if (s.op != Op::ScatterAdd || nodes[s.operands[0]].op != Op::Mul || b.users[s.operands[0]].size() != 1 ||
      std::count(b.graph.results.begin(), b.graph.results.end(), s.operands[0]))
    return false;
  const Node &product = nodes[s.operands[0]], &positions = nodes[s.operands[1]];
  const Node &left = nodes[product.operands[0]], &right = nodes[product.operands[1]];
  auto hasOwn = [&](const Node &mine, const Node &its) {
    return std::any_of(mine.dims.begin(), mine.dims.end(),
                       [&](const Dim &dim) { return !its.has(dim.name) && !contains(s.names, dim.name); });
  };
  bool pairs = std::all_of(positions.dims.begin(), positions.dims.end(),
                           [&](const Dim &dim) { return contains(s.names, dim.name); });
  bool real = left.kind == Kind::Real && right.kind == Kind::Real && !product.has(s.into[0].name);
  return pairs && real && !positions.dims.empty() && hasOwn(left, right) && hasOwn(right, left);
}

/// Columns lie innermost in the result; rows are the other factor's longest dimension.
void ContractionFamily::chooseFactors() {
  const Node &s = b.graph.nodes[node], &product = b.graph.nodes[s.operands[0]];
  pairs = b.graph.nodes[s.operands[1]].dims;
  x = product.operands[0], w = product.operands[1];
  auto has = [&](int factor, const Dim &dim) { return b.graph.nodes[factor].has(dim.name); };
  for (auto dim = s.dims.rbegin(); dim != s.dims.rend() && !column; ++dim)
    if (has(x, *dim) != has(w, *dim)) {
      column = *dim;
      if (has(x, *dim))
        std::swap(x, w);
    }
  for (const Dim &dim : s.dims)
    if (has(x, dim) && !has(w, dim) && (!row || !dim.fixed() || (row->fixed() && *row->fixed() <= *dim.fixed())))
      row = dim;
  for (const Dim &dim : s.dims)
    if (dim.name != column->name && dim.name != row->name)
      others.push_back(dim);
  for (const Dim &dim : product.dims)
    if (contains(s.names, dim.name) && !b.graph.nodes[s.operands[1]].has(dim.name))
      reduced.push_back(dim); // rows that share what was picked for all of them
}

/// A factor as the innermost loop reads it: `lane` of `own` (rows or columns) side by side, then the slots, sorted by
/// expert.
Func ContractionFamily::sorted(const std::string &name, int factor, const Var &lane, const Var &tileIndex,
                               const Dim &own, const std::function<Expr(const Index &)> &value) {
  Index index;
  Var slot("slot");
  std::vector<Var> args = {lane, slot};
  for (const Dim &dim : sortedDims(factor, own)) {
    args.push_back(KernelBuilder::var(dim.name));
    index[dim.name] = KernelBuilder::var(dim.name);
  }
  args.push_back(tileIndex);
  setPair(index, slot);
  Func copy = b.newFunc(name, node);
  copy(args) = value(index);
  return copy;
}

/// A factor's dimensions but `own` and the pairs, innermost first.
std::vector<Dim> ContractionFamily::sortedDims(int factor, const Dim &own) const {
  std::vector<Dim> dims;
  for (auto dim = b.graph.nodes[factor].dims.rbegin(); dim != b.graph.nodes[factor].dims.rend(); ++dim)
    if (dim->name != own.name &&
        std::none_of(pairs.begin(), pairs.end(), [&](const Dim &pair) { return pair.name == dim->name; }))
      dims.push_back(*dim);
  return dims;
}

void ContractionFamily::accumulateByExpert() {
  const Node &s = b.graph.nodes[node];
  sortPairs(s.operands[1], s.into[0], 1);
  Var tileIndex("tile"), group("group"), rowVar = KernelBuilder::var(row->name);
  strip = sorted("strip", w, lane, tileIndex, *column,
                 [&](const Index &index) { return weightAt(w, lane, tileIndex, index); });
  groups = sorted("groups", x, groupLane, group, *row, [&](Index index) {
    index[row->name] = min(likely(group * rows + groupLane), b.extent(row->size) - 1);
    return b.real(x, index);
  });
  strip.compute_root().bound(lane, 0, tile).vectorize(lane, std::min(tile, b.target.vector)).parallel(tileIndex);
  scheduleGroups(Var("slot"));

  std::vector<Var> args = tileArgs();
  Region region = reducedRegion();
  region.push_back({0, slotCount});
  RDom k(region);
  RVar step = k[static_cast<int>(reduced.size())];
  Expr expert = KernelBuilder::var(s.into[0].name);
  k.where(step < order(expert) - first(expert)); // behind the last of an expert stands the first of the next
  Expr at = clamp(first(expert) + step, 0, slotCount - 1);
  Index index = KernelBuilder::varsOf(others);
  setReduced(index, k);
  auto call = [&](const Expr &lane, int factor, const Dim &own, const Expr &tileIndex) {
    std::vector<Expr> call = {lane, at};
    for (const Dim &dim : sortedDims(factor, own))
      call.push_back(index.at(dim.name));
    call.push_back(tileIndex);
    return call;
  };
  sums = b.newFunc("sums", node);
  sums(args) = 0.0f;
  sums(args) += groups(call(rowVar % rows, x, *row, rowVar / rows)) * strip(call(lane, w, *column, tileIndex));
  for (size_t i = 0; i <= reduced.size(); ++i)
    over.push_back(k[static_cast<int>(i)]);
  totals = sums;
}

void ContractionFamily::scheduleByExpert(Stage &target) {
  Func out = target.func;
  int vector = std::min(tile, b.target.vector);
  Var o = KernelBuilder::var(column->name), m = KernelBuilder::var(row->name), outer("co"), beside("ct"), inner("ci"),
      block("rb"), within("ri"), tiles("rt"), tileRow("tr"), task("task");
  out.split(o, outer, inner, tile, TailStrategy::GuardWithIf)
      .split(outer, outer, beside, group, TailStrategy::GuardWithIf);
  out.split(m, block, within, rows * rowBlock, TailStrategy::GuardWithIf)
      .split(within, tiles, tileRow, rows, TailStrategy::GuardWithIf);
  std::vector<VarOrRVar> loops = {inner, tileRow, beside, tiles, block, outer};
  std::vector<Dim> outside = aroundOf(target.dims);
  for (auto dim = outside.rbegin(); dim != outside.rend(); ++dim)
    loops.push_back(KernelBuilder::var(dim->name));
  out.reorder(loops).fuse(block, outer, task);
  Var parallel = task;
  for (auto dim = outside.rbegin(); dim != outside.rend(); ++dim) {
    Var next(parallel.name() + "_");
    out.fuse(parallel, KernelBuilder::var(dim->name), next);
    parallel = next;
  }
  out.parallel(parallel).vectorize(inner, vector).unroll(inner).unroll(tileRow);

  // Known extents keep the sums in registers.
  sums.compute_at(out, beside).bound_extent(lane, tile).bound_extent(m, rows).bound_extent(Var("tile"), 1);
  sums.vectorize(lane, vector).unroll(lane).unroll(m);
  std::vector<VarOrRVar> steps = {lane, m};
  steps.insert(steps.end(), over.begin(), over.end());
  sums.update().reorder(steps).vectorize(lane, vector).unroll(lane).unroll(m);
  unrollParts(sums, outside);
  target.scheduled = true;
}

void ContractionFamily::defineByExpert() {
  chooseFactors();
  prepareInput();
  chooseTile(0);
  group = b.schedules.find("experts", {{"vector", b.target.vector}})["group"];
  accumulateByExpert();
  write();
}

} // namespace quern::codegen
