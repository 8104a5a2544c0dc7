// Takes: sums of attention's gradient. Gives: stages that compute a block of rows of one head per task: all sums in one
// pass over what they sum over. Why so: scores, and the products of the gradient with values, are recomputed a block at
// a time, in registers, and no matrix of queries x keys goes through memory; each sum is written once, by one task, in
// one order.
//
//   for each head, several blocks of rows (parallel)              rows: queries for dq, keys for dk and dv
//     rows of both products, statistics of rows                   copies with the rows innermost
//     for each part of what is summed over that the mask lets any row see
//       its side of both products                                 copies, side by side; often they are the values too
//       for each of the blocks
//         weights[s][row] = the expression of both products       in tiles of s x rows, accumulators in registers
//         totals[column][row] += weights * value                  in tiles of columns x rows
//
// As in attention (AttentionBlocks.cpp) rows stand in lanes, so what is summed over is read one number at a time.
#include "codegen/halide/attention/AttentionGradientFamily.h"

#include "codegen/halide/Math.h"

#include <algorithm>
#include <stdexcept>

using namespace Halide;

namespace quern::codegen {

AttentionGradientFamily::AttentionGradientFamily(KernelBuilder &builder, GradientPattern pattern, const PlanPart &plan)
    : AttentionRows(builder, pattern.frame, plan), g(std::move(pattern)) {}

/// Element i of a Func that has one value or several.
static Expr partOf(const FuncRef &ref, size_t i, size_t count) {
  return count == 1 ? Expr(ref) : Expr(ref[static_cast<int>(i)]);
}

int64_t AttentionGradientFamily::mostColumns() const {
  int64_t most = 0;
  for (const GradientSum &sum : g.sums)
    most = std::max(most, *sum.column.fixed());
  return most;
}

/// What has the summed dimension, its own dimensions innermost. A value that is also a side of a product is copied
/// once.
Func AttentionGradientFamily::copyOfOther(int node, const std::vector<Dim> &own, const std::string &what) {
  std::string name = own[0].name;
  for (const Dim &dim : own)
    name += dim.name == own[0].name ? "" : " " + dim.name;
  if (auto known = copies.find({node, name}); known != copies.end())
    return known->second;
  Func copy = b.newFunc(what, node);
  Index index = KernelBuilder::varsOf(p.heads);
  index[p.key.name] = min(key, b.extent(p.key.size) - 1);
  std::vector<Expr> args;
  for (const Dim &dim : own) {
    index[dim.name] = KernelBuilder::var(dim.name);
    args.insert(args.begin(), KernelBuilder::var(dim.name));
  }
  args.push_back(key);
  copy(asVars(headArgs(args))) = b.real(node, index);
  return copies[{node, name}] = copy;
}

void AttentionGradientFamily::makeWeights() {
  Expr length = b.extent(p.key.size);
  boundKeys();
  placeRows(g.sums[0].node);
  Index where = blockIndex();

  std::vector<Expr> args = headArgs({row, key, tile});
  for (const AttentionDot &dot : p.dots) {
    Func copy = b.newFunc("rows", dot.node), product = b.newFunc("dot", dot.node);
    Func other = copyOfOther(dot.k, dot.depth, "others");
    std::vector<Expr> copyArgs = {row}, call = {row}, otherCall;
    Index from = where;
    Region region;
    for (const Dim &dim : dot.depth)
      region.push_back({0, b.extent(dim.size)});
    RDom r(region);
    std::vector<RVar> over;
    for (size_t i = 0; i < dot.depth.size(); ++i) {
      Var d("depth" + std::to_string(i));
      copyArgs.push_back(d);
      from[dot.depth[i].name] = d;
      over.push_back(r[static_cast<int>(i)]);
      call.push_back(over.back());
      otherCall.insert(otherCall.begin(), over.back());
    }
    copyArgs.push_back(tile), call.push_back(tile), otherCall.push_back(key);
    copy(asVars(headArgs(copyArgs))) = b.real(dot.q, from);
    product(asVars(args)) = 0.0f;
    product(args) += copy(headArgs(call)) * other(headArgs(otherCall));
    queries.push_back(copy), dots.push_back(product), depths.push_back(over);
  }
  // Statistics of rows are a row of all heads apart: read once.
  std::vector<std::function<Expr(const Index &)>> kept;
  for (int node : g.perRow) {
    Func copy = b.newFunc("statistic", node);
    copy(asVars(headArgs({row, tile}))) = b.real(node, where);
    rowValues.push_back(copy);
  }
  for (int node : p.inside)
    b.memo[node].clear();
  for (size_t i = 0; i < dots.size(); ++i)
    b.values[p.dots[i].node] = [value = Expr(dots[i](args))](const Index &) { return value; };
  for (size_t i = 0; i < rowValues.size(); ++i) {
    kept.push_back(b.values[g.perRow[i]]);
    b.memo[g.perRow[i]].clear();
    b.values[g.perRow[i]] = [value = Expr(rowValues[i](headArgs({row, tile})))](const Index &) { return value; };
  }
  where[p.key.name] = min(key, length - 1);
  std::vector<Expr> all;
  for (const GradientSum &sum : g.sums)
    all.push_back(math::choose(key < length, b.real(sum.weights, where), 0.0f));
  for (size_t i = 0; i < rowValues.size(); ++i) {
    b.memo[g.perRow[i]].clear();
    b.values[g.perRow[i]] = kept[i];
  }
  for (int node : p.inside) {
    b.memo[node].clear();
    b.values[node] = [](const Index &) -> Expr {
      throw std::logic_error("a value inside attention's gradient is asked for");
    };
  }
  weights = b.newFunc("weights", g.sums[0].node);
  weights(asVars(args)) = Tuple(all);
}

void AttentionGradientFamily::makeSums() {
  Expr length = b.extent(p.key.size);
  Expr seen = seenKeys();
  std::vector<Expr> args = headArgs({row, column, part, tile}), zeros, added;
  RDom iteration(0, (length + (chunk - 1)) / chunk, "parts");
  overParts = iteration.x;
  std::vector<Expr> totalArgs = headArgs({row, column, tile}), call = headArgs({row, column, iteration.x, tile});
  totals = b.newFunc("totals", g.sums[0].node);
  for (size_t i = 0; i < g.sums.size(); ++i) {
    const GradientSum &sum = g.sums[i];
    int columns = static_cast<int>(*sum.column.fixed());
    Func value = copyOfOther(sum.value, {sum.column}, "values"), product = b.newFunc("sums", sum.node);
    product(asVars(args)) = 0.0f;
    product(args) +=
        partOf(weights(headArgs({row, seen, tile})), i, g.sums.size()) * value(headArgs({columnOf(columns), seen}));
    sums.push_back(product);
    zeros.push_back(0.0f);
  }
  totals(asVars(totalArgs)) = Tuple(zeros);
  for (size_t i = 0; i < sums.size(); ++i)
    added.push_back(partOf(totals(totalArgs), i, sums.size()) + sums[i](call));
  totals(totalArgs) = Tuple(added);
}

void AttentionGradientFamily::scheduleWeights(const LoopLevel &ofRows, const LoopLevel &ofOthers,
                                              const LoopLevel &ofBlock) {
  Var rowTile("rt"), keyTile("kt"), inRow("ri"), inKey("ki");
  for (std::vector<Func> *copiesOfRows : {&queries, &rowValues})
    for (Func &copy : *copiesOfRows)
      copy.compute_at(ofRows).bound_extent(row, lanes).vectorize(row, width);
  for (auto &[which, copy] : copies) {
    copy.compute_at(ofOthers);
    Var inner = copy.args()[0];
    const Node &source = b.graph.nodes[which.first];
    int64_t extent = 0;
    for (const Dim &dim : source.dims)
      if (KernelBuilder::var(dim.name).name() == inner.name())
        extent = *dim.fixed();
    copy.bound(inner, 0, static_cast<int32_t>(extent));
    if (int narrow = narrowed(extent); narrow > 1)
      copy.vectorize(inner, narrow, TailStrategy::GuardWithIf);
  }
  weights.compute_at(ofBlock).bound_extent(tile, 1).bound_extent(row, lanes);
  weights.split(row, rowTile, inRow, span).split(key, keyTile, inKey, step, TailStrategy::RoundUp);
  weights.reorder(inRow, inKey, rowTile, keyTile).vectorize(inRow, width).unroll(inRow);
  for (size_t i = 0; i < dots.size(); ++i) {
    dots[i].compute_at(weights, rowTile).bound_extent(tile, 1).bound_extent(row, span).bound_extent(key, step);
    dots[i].vectorize(row, width).unroll(row).unroll(key);
    std::vector<VarOrRVar> loops = {row, key};
    loops.insert(loops.end(), depths[i].begin(), depths[i].end());
    dots[i].update().reorder(loops).vectorize(row, width);
    b.unrollLast(dots[i], {row, key});
    if (*p.dots[i].depth[0].fixed() % unroll == 0)
      dots[i].update().unroll(depths[i][0], unroll);
  }
}

void AttentionGradientFamily::schedule(Func &out, bool direct) {
  Var t = KernelBuilder::var(p.query.name), blockLoop("tblock"), within("twithin");
  Var c = direct ? KernelBuilder::var(g.sums[0].column.name) : column;
  out.split(t, blockLoop, within, positions * blocks, TailStrategy::GuardWithIf);
  std::vector<VarOrRVar> order = {c};
  for (auto dim = p.together.rbegin(); dim != p.together.rend(); ++dim)
    order.push_back(KernelBuilder::var(dim->name));
  order.push_back(within);
  order.push_back(blockLoop);
  for (auto dim = p.heads.rbegin(); dim != p.heads.rend(); ++dim)
    order.push_back(KernelBuilder::var(dim->name));
  out.reorder(order);
  Var task = blockLoop;
  for (auto dim = p.heads.rbegin(); dim != p.heads.rend(); ++dim) {
    Var next(task.name() + "_");
    out.fuse(task, KernelBuilder::var(dim->name), next);
    task = next;
  }
  out.parallel(task);
  if (int narrow = narrowed(mostColumns()); narrow > 1)
    out.vectorize(c, narrow, TailStrategy::GuardWithIf);
  LoopLevel level(out, task);

  // Names of their own: a loop that keeps its name when it is split must begin at 0.
  Var rowTile("rt"), columnTile("ct"), inRow("ri"), inColumn("ci");
  schedulePlaces(level);
  int wide = static_cast<int>((mostColumns() + step - 1) / step * step);
  totals.compute_at(level).bound_extent(row, lanes).bound_extent(column, wide).vectorize(row, width);
  totals.update().split(row, rowTile, inRow, span, TailStrategy::RoundUp);
  totals.update().split(column, columnTile, inColumn, step, TailStrategy::RoundUp);
  totals.update()
      .reorder(inRow, inColumn, rowTile, columnTile, tile, overParts)
      .vectorize(inRow, width)
      .unroll(inRow)
      .unroll(inColumn);
  totals.never_partition_all();
  totals.update().never_partition_all();
  for (Func &f : sums) {
    f.compute_at(totals, rowTile).bound_extent(tile, 1).bound_extent(row, span).bound_extent(column, step);
    f.vectorize(row, width).unroll(row).unroll(column);
    f.update().reorder(row, column, inGroup, overGroups).vectorize(row, width).unroll(column).unroll(inGroup, unroll);
    b.unrollLast(f, {row});
  }
  scheduleWeights(level, LoopLevel(totals, overParts), LoopLevel(totals, tile));
}

void AttentionGradientFamily::define() {
  if (g.diagonals)
    return defineDiagonals();
  std::vector<int> values;
  for (const GradientSum &sum : g.sums)
    values.push_back(sum.value);
  prepareInputs(values);
  makeWeights();
  makeSums();
  // An element of sum i, by its positions.
  auto element = [self = *this](size_t i, const Index &index, const Expr &at) {
    const AttentionPattern &p = self.p;
    Expr within = 0;
    for (const Dim &dim : p.together)
      within = within * static_cast<int32_t>(*dim.fixed()) + index.at(dim.name);
    // The remainder is at most the last row: said so that few rows make few of them.
    Expr t = index.at(p.query.name), last = self.b.extent(p.query.size) - 1;
    std::vector<Expr> args = {min(t % self.positions, last) * self.together + within, at,
                              min(t, last) / self.positions};
    for (auto dim = p.heads.rbegin(); dim != p.heads.rend(); ++dim)
      args.push_back(index.at(dim->name));
    return partOf(self.totals(args), i, self.sums.size());
  };
  if (g.sums.size() == 1) {
    const GradientSum &sum = g.sums[0];
    b.isStage[sum.node] = 1;
    b.values[sum.node] = [element, name = sum.column.name](const Index &index) {
      return element(0, index, index.at(name));
    };
    auto found = std::find(b.graph.results.begin(), b.graph.results.end(), sum.node);
    b.fusedInto(static_cast<int>(found - b.graph.results.begin()), [self = *this](Stage &out) mutable {
      self.schedule(out.func, true);
      out.scheduled = true;
    });
    return;
  }
  // All sums in one pass, then each to its own result.
  std::vector<Dim> dims = p.heads;
  dims.push_back(p.query);
  dims.insert(dims.end(), p.together.begin(), p.together.end());
  gathered = b.newFunc("gathered", g.sums[0].node);
  std::vector<Var> args = KernelBuilder::pureArgs(dims);
  args.insert(args.begin(), column);
  std::vector<Expr> all;
  for (size_t i = 0; i < g.sums.size(); ++i)
    all.push_back(element(i, KernelBuilder::varsOf(dims), column));
  gathered(args) = Tuple(all);
  gathered.compute_root().bound(column, 0, static_cast<int32_t>(mostColumns()));
  schedule(gathered, false);
  for (size_t i = 0; i < g.sums.size(); ++i) {
    b.isStage[g.sums[i].node] = 1;
    b.values[g.sums[i].node] = [func = gathered, dims, i, name = g.sums[i].column.name](const Index &index) {
      std::vector<Expr> call = KernelBuilder::call(dims, index);
      call.insert(call.begin(), index.at(name));
      return Expr(func(call)[static_cast<int>(i)]);
    };
  }
}

void takeAttentionGradient(KernelBuilder &b) {
  if (!b.match.gradient)
    return;
  const GradientPattern &gradient = *b.match.gradient;
  int last = 0; // by then all is defined that the sums are made of
  for (const GradientSum &sum : gradient.sums)
    last = std::max(last, sum.node);
  b.take(
      last, [&b, &gradient, last] { AttentionGradientFamily(b, gradient, b.part(last)).define(); },
      gradient.frame.inside);
}

} // namespace quern::codegen
