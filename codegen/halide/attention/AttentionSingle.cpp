// Takes: an attention of one query. Gives: stages that read keys and values once, in the order of memory.
// Why parts in parallel: few heads would leave threads idle over a long cache. Why all heads of a key together: they
// are side by side in a cache, and memory is the limit. Why long parts: what a task reads first of keys and values it
// waits for; but each thread has as many of them, all as long but the last, as the others would wait for the longest. Why runs:
// one stream of memory leaves a core waiting, so a part is cut into several, which are read in turns.
//
//   for each part of the keys (parallel)
//     dot[head][row][slot], score; most, weight, total    vectors of keys of each run in turns, all heads of a key
//     partial[head][row][column] += weight v              keys of each run in turns; most and total in lanes
//   the parts together (AttentionFamily.cpp)
#include "codegen/halide/attention/AttentionFamily.h"

#include "codegen/halide/Math.h"

#include <algorithm>

using namespace Halide;

namespace quern::codegen {

static const Var lane("lane");

void AttentionFamily::makeSingle() {
  const Node &k = b.graph.nodes[p.dots[0].k];
  for (const Dim &dim : p.heads)
    (k.find(dim.name) > k.find(p.key.name) ? innerHeads : outerHeads).push_back(dim);
  // Vectors of keys, and parts of as many of them each; the last may have fewer, or none.
  Expr length = b.extent(p.key.size), vectors = (length + (width - 1)) / width;
  const int longest = split / width;
  Expr rounds = (vectors + (parts * longest - 1)) / (parts * longest), count = min(vectors, rounds * parts);
  Expr each = (vectors + (count - 1)) / count, firstVector = part * each;
  Expr begin = firstVector * width, vectorsOfPart = min(each, vectors - firstVector);
  // Said to be a part: bounds of a quotient by what only the run knows reach below 0.
  auto partOf = [&](const Expr &at) { return clamp(at / width / each, 0, count - 1); };
  // A slot is a place in what a task computes: blocks of a vector of each run, in the order of reading.
  const int blockKeys = runs * width;
  Expr perRun = (vectorsOfPart + (runs - 1)) / runs;
  partSlots = (each + (runs - 1)) / runs * blockKeys;
  auto vectorAt = [&](const Expr &block, const Expr &run) { return run * perRun + block; };
  auto isThere = [&](const Expr &block, const Expr &run) {
    return block < perRun && vectorAt(block, run) < vectorsOfPart;
  };
  auto keyAt = [&](const Expr &block, const Expr &run, const Expr &of) {
    return begin + vectorAt(block, run) * width + of;
  };
  Expr block = key / blockKeys, run = key / width % runs, there = isThere(block, run);
  Expr first = 0, last = count - 1;
  // All heads in one: what is skipped must not depend on them.
  if (p.upper && p.upper->terms.empty())
    last = partOf(clamp(b.extent(p.upper->size), 0, length - 1));
  if (p.lower && p.lower->terms.empty())
    first = min(partOf(clamp(b.extent(p.lower->size), 0, length - 1)), last);
  if (p.lower && p.ring)
    first = select(b.extent(*p.ring) > 0, 0, first);

  Expr at = keyAt(block, run, key % width), inside = min(at, length - 1);
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
    r.where(there);
    Index q = where, place = KernelBuilder::varsOf(p.heads);
    place[p.key.name] = inside;
    std::vector<RVar> over;
    for (size_t i = 0; i < dot.depth.size(); ++i) {
      over.push_back(r[static_cast<int>(i)]);
      const std::string &name = dot.depth[dot.depth.size() - 1 - i].name;
      q[name] = place[name] = over.back();
    }
    auto [number, scale] = numberAndScale(dot.k, place, dot.depth);
    product(asVars(args)) = 0.0f;
    product(args) += b.real(dot.q, q) * number;
    singleDots.push_back(product);
    singleDepths.push_back(over);
    scales.push_back(scale);
  }
  singleScore = b.newFunc("single_score", p.result);
  singleScore(asVars(args)) =
      math::choose(there,
                   scoreAt(where, at,
                           [&](const AttentionDot &, size_t i) {
                             return scales[i].defined() ? singleDots[i](args) * scales[i] : Expr(singleDots[i](args));
                           }),
                   math::negativeInfinity());

  std::vector<Expr> rowArgs = headArgs({row}), sumArgs = headArgs({column, row}), results = headArgs({row, column});
  rowArgs.push_back(part), sumArgs.push_back(part);
  auto inLanes = [&](const char *what, const Func &of, const Expr &least, auto combine) {
    std::vector<Expr> call = headArgs({lane, row});
    call.push_back(part);
    Func lanes = b.newFunc(std::string(what) + "_lanes", p.result), all = b.newFunc(what, p.result);
    RDom v(0, partSlots / width);
    std::vector<Expr> read = call;
    read[0] = v.x * width + lane;
    lanes(asVars(call)) = least;
    lanes(call) = combine(lanes(call), of(read));
    lanes.bound(lane, 0, width).vectorize(lane);
    lanes.update().vectorize(lane);
    std::vector<Func> ofAll = {lanes};
    all(asVars(rowArgs)) = b.foldLanes(lanes, width, combine, ofAll);
    for (Func &func : ofAll)
      singleLanes.emplace_back(func, all);
    return all;
  };
  singleMost = inLanes("single_most", singleScore, math::negativeInfinity(), math::max);
  Expr largest = shiftOf(singleMost(rowArgs));
  Expr shift = math::choose(math::isNegativeInfinity(largest), 0.0f, largest);
  singleWeight = b.newFunc("single_weight", p.result);
  singleWeight(asVars(args)) = rounded(math::expOfDifference(math::sub(singleScore(args), shift)));
  singleTotal = inLanes("single_total", singleWeight, 0.0f, std::plus<Expr>());
  RDom r(0, runs, 0, width, 0, partSlots / blockKeys);
  r.where(isThere(r.z, r.x));
  singleKeys = {r.x, r.y, r.z};
  std::vector<Expr> read = headArgs({r.z * blockKeys + r.x * width + r.y, row});
  read.push_back(part);
  singleSums = b.newFunc("single_sums", p.result);
  Index index = KernelBuilder::varsOf(p.heads);
  index[p.column.name] = column;
  index[b.graph.nodes[p.result].names[0]] = min(keyAt(r.z, r.x, r.y), length - 1);
  singleSums(asVars(sumArgs)) = 0.0f;
  auto [number, scale] = numberAndScale(p.v, index, {p.column});
  Expr weight = singleWeight(read);
  singleSums(sumArgs) += (scale.defined() ? weight * scale : weight) * number;
  singlePartial = b.newFunc("single_partial", p.result);
  singlePartial(asVars(sumArgs)) = Tuple(singleSums(sumArgs), largest, singleTotal(rowArgs));

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
  if (narrow > 1) {
    Func &weighted = singleRows.back(); // what has columns of the stages that put parts together
    for (Func *func : {&weighted, &single})
      func->reorder_storage(column, row).reorder(column, row).vectorize(column, narrow, TailStrategy::GuardWithIf);
    weighted.update().reorder(column, row).vectorize(column, narrow, TailStrategy::GuardWithIf);
  }
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

  const int blockKeys = runs * width, longest = (split + blockKeys - 1) / blockKeys * blockKeys; // slots
  for (size_t i = 0; i < singleDots.size(); ++i) {
    Func &dot = singleDots[i];
    dot.compute_at(here).bound_extent(key, partSlots).bound_storage(key, longest).vectorize(key, width);
    std::vector<VarOrRVar> before(singleDepths[i].begin(), singleDepths[i].end());
    before.push_back(row);
    Var block("block"), inBlock("in_block"), run("run");
    dot.update().split(key, block, inBlock, blockKeys).split(inBlock, run, lane, width);
    before.push_back(run);
    dot.update().reorder(with(before, {lane, block})).unroll(run);
    int depth = dotVectors * width;
    while (depth > 1 && *p.dots[i].depth.back().fixed() % depth)
      depth /= 2;
    if (depth > 1)
      dot.update().atomic().vectorize(singleDepths[i][0], depth);
    b.fetchAhead(dot, p.dots[i].k, ahead);
  }
  b.fetchAhead(singleSums, p.v, ahead);
  singleScore.compute_at(here).bound_extent(key, partSlots).bound_storage(key, longest).vectorize(key, width);
  singleWeight.compute_at(here).bound_extent(key, partSlots).bound_storage(key, longest).vectorize(key, width);
  singleMost.compute_at(here);
  singleTotal.compute_at(here);
  for (auto &[lanes, all] : singleLanes)
    lanes.compute_at(all, row);
  singleSums.compute_at(here);
  singleSums.update().reorder(with({column, row, singleKeys[0]}, {singleKeys[1], singleKeys[2]}));
  if (narrow > 1) {
    singleSums.vectorize(column, narrow, TailStrategy::GuardWithIf);
    singleSums.update().vectorize(column, narrow, TailStrategy::GuardWithIf);
    // An iteration reads a line of memory, which it then asks for once.
    const int bits = support::formOf(b.graph.nodes[b.sourceOf(p.v)].storage).bits;
    int vectors = std::max(1, lineBytes * 8 / (narrow * bits));
    while (vectors > 1 && *p.column.fixed() % (vectors * narrow))
      --vectors;
    singleSums.update().unroll(column, vectors);
  }
}

} // namespace quern::codegen
