// Takes: an attention of one query. Gives: stages that read keys and values once, in the order of memory.
// Why parts in parallel: few heads would leave threads idle over a long cache. Why all heads of a key together: they
// are side by side in a cache, and memory is the limit. Why long parts: what a task reads first of keys and values it
// waits for; but a short text has several, too, as one or three are too few for two threads.
//
//   for each part of the keys (parallel)
//     dot[head][row][key], score; most, weight, total     key by key, all heads of it
//     partial[head][row][column] += weight v
//   the parts together (AttentionFamily.cpp)
#include "codegen/halide/attention/AttentionFamily.h"

#include "codegen/halide/Math.h"

#include <algorithm>

using namespace Halide;

namespace quern::codegen {

void AttentionFamily::makeSingle() {
  const Node &k = b.graph.nodes[p.dots[0].k];
  for (const Dim &dim : p.heads)
    (k.find(dim.name) > k.find(p.key.name) ? innerHeads : outerHeads).push_back(dim);
  Expr length = b.extent(p.key.size), each = (length + (parts - 1)) / parts;
  partKeys = parts > 1 ? min((each + (width - 1)) / width * width, split) : Expr(split);
  Expr count = (length + (partKeys - 1)) / partKeys;
  Expr first = 0, last = count - 1;
  // All heads in one: what is skipped must not depend on them.
  if (p.upper && p.upper->terms.empty())
    last = clamp(b.extent(p.upper->size), 0, length - 1) / partKeys;
  if (p.lower && p.lower->terms.empty())
    first = clamp(b.extent(p.lower->size) / partKeys, 0, last);
  if (p.lower && p.ring)
    first = select(b.extent(*p.ring) > 0, 0, first);

  Expr at = part * partKeys + key, inside = min(at, length - 1);
  Index where = rowIndex(KernelBuilder::varsOf(p.heads), row);
  where[p.query.name] = 0;
  std::vector<Expr> args = headArgs({key, row});
  args.push_back(part);
  std::vector<Expr> scales; // of a key's codes: once for a product of them
  for (const AttentionDot &dot : p.dots) {
    Func product = b.newFunc("single_dot", dot.node);
    Region region;
    for (auto dim = dot.depth.rbegin(); dim != dot.depth.rend(); ++dim)
      region.push_back({0, b.extent(dim->size)});
    RDom r(region);
    Index q = where, keys = KernelBuilder::varsOf(p.heads);
    keys[p.key.name] = inside;
    std::vector<RVar> over;
    for (size_t i = 0; i < dot.depth.size(); ++i) {
      over.push_back(r[static_cast<int>(i)]);
      const std::string &name = dot.depth[dot.depth.size() - 1 - i].name;
      q[name] = keys[name] = over.back();
    }
    auto [number, scale] = numberAndScale(dot.k, keys, dot.depth);
    product(asVars(args)) = 0.0f;
    product(args) += b.real(dot.q, q) * number;
    singleDots.push_back(product);
    singleDepths.push_back(over);
    scales.push_back(scale);
  }
  singleScore = b.newFunc("single_score", p.result);
  singleScore(asVars(args)) = scoreAt(where, at, [&](const AttentionDot &, size_t i) {
    return scales[i].defined() ? singleDots[i](args) * scales[i] : Expr(singleDots[i](args));
  });

  std::vector<Expr> rowArgs = headArgs({row}), sumArgs = headArgs({column, row}), results = headArgs({row, column});
  rowArgs.push_back(part), sumArgs.push_back(part);
  RDom r(0, partKeys);
  singleKeys = r.x;
  std::vector<Expr> read = headArgs({r.x, row});
  read.push_back(part);
  singleMost = b.newFunc("single_most", p.result);
  singleMost(asVars(rowArgs)) = math::negativeInfinity();
  singleMost(rowArgs) = math::max(singleMost(rowArgs), singleScore(read));
  Expr largest = singleMost(rowArgs);
  Expr shift = math::choose(math::isNegativeInfinity(largest), 0.0f, largest);
  singleWeight = b.newFunc("single_weight", p.result);
  singleWeight(asVars(args)) = math::expOfDifference(math::sub(singleScore(args), shift));
  singleTotal = b.newFunc("single_total", p.result);
  singleTotal(asVars(rowArgs)) = 0.0f;
  singleTotal(rowArgs) += singleWeight(read);
  singleSums = b.newFunc("single_sums", p.result);
  Index index = KernelBuilder::varsOf(p.heads);
  index[p.column.name] = column;
  index[b.graph.nodes[p.result].names[0]] = min(part * partKeys + r.x, length - 1);
  singleSums(asVars(sumArgs)) = 0.0f;
  auto [number, scale] = numberAndScale(p.v, index, {p.column});
  Expr weight = singleWeight(read);
  singleSums(sumArgs) += (scale.defined() ? weight * scale : weight) * number;
  singlePartial = b.newFunc("single_partial", p.result);
  singlePartial(asVars(sumArgs)) = Tuple(singleSums(sumArgs), singleMost(rowArgs), singleTotal(rowArgs));

  AttentionParts parts{[this](const Expr &n, AttentionParts::Field field, const Expr &at) {
                         std::vector<Expr> call = headArgs({at, row});
                         call.push_back(n);
                         return Expr(singlePartial(call)[field]);
                       },
                       first, last, count};
  single = combine("single", parts, where, results, headArgs({row}), singleRows);
}

void AttentionFamily::scheduleSingle(const LoopLevel &level) {
  single.compute_at(level);
  for (Func &f : singleRows)
    f.compute_at(level);
  int narrow = narrowed(*p.column.fixed());
  auto vars = [](const std::vector<Dim> &dims) {
    std::vector<VarOrRVar> out;
    for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim)
      out.push_back(KernelBuilder::var(dim->name));
    return out;
  };
  auto with = [&](std::vector<VarOrRVar> before, std::vector<VarOrRVar> after) {
    std::vector<VarOrRVar> inner = vars(innerHeads);
    before.insert(before.end(), inner.begin(), inner.end());
    before.insert(before.end(), after.begin(), after.end());
    return before;
  };
  std::vector<VarOrRVar> order = with({column, row}, {part});
  std::vector<VarOrRVar> outer = vars(outerHeads);
  order.insert(order.end(), outer.begin(), outer.end());
  singlePartial.compute_root().reorder(order);
  if (narrow > 1)
    singlePartial.vectorize(column, narrow, TailStrategy::GuardWithIf);
  Var task = part;
  for (const VarOrRVar &v : outer) {
    Var next(task.name() + "_");
    singlePartial.fuse(task, v.var, next);
    task = next;
  }
  singlePartial.parallel(task);
  LoopLevel here(singlePartial, task);

  for (size_t i = 0; i < singleDots.size(); ++i) {
    Func &dot = singleDots[i];
    dot.compute_at(here).bound_extent(key, partKeys).bound_storage(key, split).vectorize(key, width);
    std::vector<VarOrRVar> before(singleDepths[i].begin(), singleDepths[i].end());
    before.push_back(row);
    dot.update().reorder(with(before, {key}));
    int depth = dotVectors * width;
    while (depth > 1 && *p.dots[i].depth.back().fixed() % depth)
      depth /= 2;
    if (depth > 1)
      dot.update().atomic().vectorize(singleDepths[i][0], depth);
  }
  for (size_t i = 0; i < singleDots.size(); ++i)
    b.fetchAhead(singleDots[i], p.dots[i].k, ahead);
  b.fetchAhead(singleSums, p.v, ahead);
  singleScore.compute_at(here).bound_extent(key, partKeys).bound_storage(key, split).vectorize(key, width);
  singleWeight.compute_at(here).bound_extent(key, partKeys).bound_storage(key, split).vectorize(key, width);
  singleMost.compute_at(here);
  singleTotal.compute_at(here);
  singleSums.compute_at(here);
  singleSums.update().reorder(with({column, row}, {singleKeys}));
  if (narrow > 1) {
    singleSums.vectorize(column, narrow, TailStrategy::GuardWithIf);
    singleSums.update().vectorize(column, narrow, TailStrategy::GuardWithIf);
  }
}

} // namespace quern::codegen
