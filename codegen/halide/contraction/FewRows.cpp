// Takes: few rows of a product with weights as they are stored in memory, one for each head (a step over absorbed latents).
// Gives: loops that read every number of the weights once, where it is stored. Why: with rows enough, a packed copy of a
// strip is read many times (DenseContraction.cpp); with one it costs more than its products.
//
//   for each head, tile of columns (parallel)
//     for each row
//       sums[columns] = 0;  for k: sums += x[row, k] * w[k, columns]       columns side by side in memory: they are lanes
//                           or, for each column: sum of x[row, k] * w[column, k]       the depth is: its steps are lanes
#include "codegen/halide/contraction/FewRows.h"

using namespace Halide;

namespace quern::codegen {

FewRows::FewRows(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan)
    : Contraction(builder, std::move(pattern), plan), plan(plan) {}

Expr FewRows::isFew() const {
  return b.extent(row->size) <= plan["few"];
}

Func FewRows::define() {
  const Node &c = b.graph.nodes[node], &weight = b.graph.nodes[w];
  RDom k(reducedRegion());
  Index index = KernelBuilder::varsOf(c.dims);
  setReduced(index, k);
  std::vector<Var> args = KernelBuilder::pureArgs(c.dims);
  Func sum = b.newFunc("few_sums", node);
  sum(args) = 0.0f;
  sum(args) += b.real(x, index) * b.real(w, index);
  Func direct = b.newFunc("few", node);
  direct(args) = sum(args);

  Var o = KernelBuilder::var(column->name), m = KernelBuilder::var(row->name), outer("fo"), inner("fi"), task = outer;
  // Whole vectors, no more than the columns: the last tile is shifted to end with these, as its sums read all its weights, and behind
  // the last head's there are none.
  const int columns = static_cast<int>(*column->fixed());
  int vector = vectorOfTile();
  while (vector > columns)
    vector /= 2;
  const int step = std::min(tile, columns) / vector * vector;
  direct.compute_root();
  for (const Dim &dim : c.dims) // those of the result, however far its last tiles reach
    direct.bound(KernelBuilder::var(dim.name), 0, b.extent(dim.size));
  direct.split(o, outer, inner, step, TailStrategy::ShiftInwards);
  std::vector<VarOrRVar> order = {inner, m, outer};
  for (auto dim = others.rbegin(); dim != others.rend(); ++dim)
    order.push_back(KernelBuilder::var(dim->name));
  direct.reorder(order).vectorize(inner, vector);
  for (auto dim = others.rbegin(); dim != others.rend(); ++dim) {
    Var next(task.name() + "_");
    direct.fuse(task, KernelBuilder::var(dim->name), next);
    task = next;
  }
  direct.parallel(task);

  sum.compute_at(direct, m).bound_extent(o, step).vectorize(o, vector);
  std::vector<VarOrRVar> steps;
  for (int i = 0; i < k.dimensions(); ++i)
    steps.push_back(k[i]);
  if (weight.dims.back().name == reduced.back().name) {
    int lanes = plan["dot"] * b.target.vector;
    while (lanes > 1 && *reduced.back().fixed() % lanes)
      lanes /= 2;
    steps.push_back(o);
    sum.update().reorder(steps);
    if (lanes > 1)
      sum.update().atomic().vectorize(k[0], lanes);
  } else {
    steps.insert(steps.begin(), o);
    sum.unroll(o);
    sum.update().reorder(steps).vectorize(o, vector).unroll(o);
  }
  return direct;
}

} // namespace quern::codegen
