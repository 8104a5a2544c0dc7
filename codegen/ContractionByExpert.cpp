// Takes: the gradient of weights that were picked for each row (experts): for each expert the sum of the outer products of the pairs
// that picked it. Gives: a matrix product for each expert, over its pairs alone; zeros where there are none. Why as a
// contraction: the outer product of a row is as large as a matrix, so adding it up in memory, row after row, would read and write
// the matrix for each. No order of threads enters: a sum is made by one task, in the order of the pairs.
//
//   first, order: pairs sorted by expert (ContractionGrouped)
//   strip = w in tiles of columns, sorted
//   for each tile of columns, block of rows (parallel), each expert
//     for each tile of rows
//       sums[rows x columns] = 0;  for k in the slots of the expert: sums += x[pair of k, rows] * strip[k, columns]
//       result[expert, tile] = epilogue(sums)
#include "codegen/ContractionFamily.h"

#include <algorithm>

using namespace Halide;

namespace quern::codegen {

static bool contains(const std::vector<std::string> &names, const std::string &name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Each factor of the product has a dimension of its own, and all that picks is summed (passes/Weights.h says the same).
bool ContractionFamily::sumsByExpert(const KernelBuilder &b, int scatter) {
  const std::vector<Node> &nodes = b.graph.nodes;
  const Node &s = nodes[scatter];
  if (s.op != Op::ScatterAdd || nodes[s.operands[0]].op != Op::Mul || b.users[s.operands[0]].size() != 1 ||
      std::count(b.graph.results.begin(), b.graph.results.end(), s.operands[0]))
    return false;
  const Node &product = nodes[s.operands[0]], &positions = nodes[s.operands[1]];
  const Node &left = nodes[product.operands[0]], &right = nodes[product.operands[1]];
  auto hasOwn = [&](const Node &mine, const Node &its) {
    return std::any_of(mine.dims.begin(), mine.dims.end(), [&](const Dim &dim) { return !its.has(dim.name) && !contains(s.names, dim.name); });
  };
  bool pairs = std::all_of(positions.dims.begin(), positions.dims.end(), [&](const Dim &dim) { return contains(s.names, dim.name); });
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

void ContractionFamily::accumulateByExpert() {
  const Node &s = b.graph.nodes[node];
  sortPairs(s.operands[1], s.into[0], 1);
  Var slot("slot"), tileIndex("tile"), rowVar = KernelBuilder::var(row->name);
  auto inStrip = [&](const Dim &dim) {
    return dim.name != column->name && std::none_of(pairs.begin(), pairs.end(), [&](const Dim &pair) { return pair.name == dim.name; });
  };
  std::vector<Dim> kept;
  for (const Dim &dim : b.graph.nodes[w].dims)
    if (inStrip(dim))
      kept.push_back(dim);
  std::vector<Var> stripArgs = {lane, slot};
  for (auto dim = kept.rbegin(); dim != kept.rend(); ++dim)
    stripArgs.push_back(KernelBuilder::var(dim->name));
  stripArgs.push_back(tileIndex);
  Index its = KernelBuilder::varsOf(kept);
  setPair(its, slot);
  strip = b.newFunc("strip", node);
  strip(stripArgs) = weightAt(w, lane, tileIndex, its);

  std::vector<Var> args = {lane, rowVar};
  for (auto dim = others.rbegin(); dim != others.rend(); ++dim)
    args.push_back(KernelBuilder::var(dim->name));
  args.push_back(tileIndex);
  Region region;
  for (auto dim = reduced.rbegin(); dim != reduced.rend(); ++dim)
    region.push_back({0, b.extent(dim->size)});
  region.push_back({0, slotCount});
  RDom k(region);
  RVar step = k[static_cast<int>(reduced.size())];
  Expr expert = KernelBuilder::var(s.into[0].name);
  k.where(step < order(expert) - first(expert)); // behind the last of an expert stands the first of the next
  Expr at = clamp(first(expert) + step, 0, slotCount - 1);
  Index index = KernelBuilder::varsOf(others);
  for (size_t i = 0; i < reduced.size(); ++i)
    index[reduced[reduced.size() - 1 - i].name] = k[static_cast<int>(i)];
  index[row->name] = min(rowVar, b.extent(row->size) - 1);
  setPair(index, at);
  std::vector<Expr> call = {lane, at};
  for (auto dim = kept.rbegin(); dim != kept.rend(); ++dim)
    call.push_back(index.at(dim->name));
  call.push_back(tileIndex);
  sums = b.newFunc("sums", node);
  sums(args) = 0.0f;
  sums(args) += b.real(x, index) * strip(call);
  for (size_t i = 0; i <= reduced.size(); ++i)
    over.push_back(k[static_cast<int>(i)]);
  totals = sums;
  strip.compute_root().bound(lane, 0, tile).vectorize(lane, std::min(tile, b.target.vector)).parallel(tileIndex);
}

void ContractionFamily::defineByExpert() {
  chooseFactors();
  prepareInput();
  chooseTile(0);
  unroll = 1;
  accumulateByExpert();
  write();
}

} // namespace quern::codegen
