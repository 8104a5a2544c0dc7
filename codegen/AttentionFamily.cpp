// Takes: attention in a kernel, mask and bias as whatever expression the model wrote. Gives: stages that compute a block
// of queries of one head per task.
// Why blocks with scratch: on a CPU the scores of a block stay in L2, so each pass over them is cheap, and the two products
// run in registers like any contraction. Parts of keys that the mask hides from the whole block are never touched.
//
//   keys packed [part][depth][keys]                   once, in parallel; not for a single query
//   for each head, block of queries (parallel)
//     score[part][query][key] = mask(q k), tile by tile of rows x keys
//     largest[query]; weight = exp(score - largest); total[query]
//     for each tile of rows: sums = weight v; result = sums / total
#include "codegen/AttentionFamily.h"

#include "codegen/Math.h"

#include <algorithm>

using namespace Halide;

namespace quern::codegen {

static std::vector<Dim> dimsOfBoth(const std::vector<Dim> &dims, const Node &node) {
  std::vector<Dim> out;
  for (const Dim &dim : dims)
    if (node.has(dim.name))
      out.push_back(dim);
  return out;
}

AttentionFamily::AttentionFamily(KernelBuilder &builder, AttentionPattern pattern) : b(builder), p(std::move(pattern)) {
  for (const Dim &dim : b.graph.nodes[p.softmax].dims)
    if (dim.name != p.key.name && dim.name != p.query.name)
      heads.push_back(dim);
  Schedule schedule = b.schedules.find("attention", {{"vector", b.target.vector}});
  block = schedule["block"], rows = schedule["rows"], keys = schedule["keys"], width = b.target.vector;
}

void AttentionFamily::prepareInputs() {
  for (int node : {p.q, p.k, p.v})
    if (!b.isStage[node] && b.graph.nodes[node].op != Op::Argument)
      b.materialize(node);
}

/// The arguments of a Func of the block: `leading`, the block's number, the heads.
std::vector<Expr> AttentionFamily::blockArgs(std::vector<Expr> leading) const {
  leading.push_back(tile);
  for (auto dim = heads.rbegin(); dim != heads.rend(); ++dim)
    leading.push_back(KernelBuilder::var(dim->name));
  return leading;
}

static std::vector<Var> asVars(const std::vector<Expr> &args) {
  std::vector<Var> vars;
  for (const Expr &arg : args)
    vars.push_back(Var(arg.as<Internal::Variable>()->name));
  return vars;
}

Func AttentionFamily::packKeys() {
  Func copy = b.newFunc("keys", p.dot);
  std::vector<Dim> own = dimsOfBoth(heads, b.graph.nodes[p.k]);
  Index index = KernelBuilder::varsOf(own);
  std::vector<Var> args = {lane};
  for (const Dim &dim : p.depth) {
    index[dim.name] = KernelBuilder::var(dim.name);
    args.push_back(KernelBuilder::var(dim.name));
  }
  args.push_back(part);
  for (auto dim = own.rbegin(); dim != own.rend(); ++dim)
    args.push_back(KernelBuilder::var(dim->name));
  index[p.key.name] = min(part * keys + lane, b.extent(p.key.size) - 1);
  copy(args) = b.real(p.k, index);
  // A vector of keys at all depths before the next: their lines of memory stay in L1 meanwhile.
  Var inner("li");
  copy.compute_root().bound(lane, 0, keys).split(lane, lane, inner, width);
  std::vector<VarOrRVar> order = {inner};
  for (auto dim = p.depth.rbegin(); dim != p.depth.rend(); ++dim)
    order.push_back(KernelBuilder::var(dim->name));
  order.push_back(lane);
  copy.reorder(order).vectorize(inner);
  Var task = part;
  for (auto dim = own.rbegin(); dim != own.rend(); ++dim) {
    Var next(task.name() + "_");
    copy.fuse(task, KernelBuilder::var(dim->name), next);
    task = next;
  }
  copy.parallel(task);
  return copy;
}

void AttentionFamily::makeScores(const Func &packedKeys) {
  Expr length = b.extent(p.key.size), queries = b.extent(p.query.size);
  parts = (length + (keys - 1)) / keys;
  Expr last = parts - 1, first = 0;
  if (p.upper) { // of the block's last query
    Expr seen = min(tile * block + (block - 1), queries - 1) + b.extent(*p.upper);
    last = clamp(seen / keys, 0, last);
  }
  if (p.lower) // of its first
    first = clamp((tile * block + b.extent(*p.lower)) / keys, 0, last);
  if (p.lower && p.ring)
    first = select(b.extent(*p.ring) > 0, 0, first);
  bounded = p.upper || p.lower;
  firstPart = first, lastPart = last;

  Expr position = min(tile * block + query, queries - 1);
  Region region;
  for (const Dim &dim : p.depth)
    region.push_back({0, b.extent(dim.size)});
  RDom r(region);
  Index index = KernelBuilder::varsOf(heads);
  index[p.query.name] = position;
  std::vector<Expr> keyArgs = {lane};
  for (size_t i = 0; i < p.depth.size(); ++i) {
    index[p.depth[i].name] = r[static_cast<int>(i)];
    keyArgs.push_back(r[static_cast<int>(i)]);
    depths.push_back(r[static_cast<int>(i)]);
  }
  keyArgs.push_back(part);
  std::vector<Dim> own = dimsOfBoth(heads, b.graph.nodes[p.k]);
  for (auto dim = own.rbegin(); dim != own.rend(); ++dim)
    keyArgs.push_back(KernelBuilder::var(dim->name));
  dot = b.newFunc("dot", p.dot);
  std::vector<Expr> args = blockArgs({lane, query, part});
  dot(asVars(args)) = 0.0f;
  dot(args) += b.real(p.q, index) * packedKeys(keyArgs);

  makeDirect();
  b.isStage[p.dot] = 1;
  // Halide computes only the one of the two that the number of queries asks for.
  Expr product = select(queries == 1, direct(blockArgs({lane, part})), dot(args));
  b.values[p.dot] = [product](const Index &) { return product; };
  Expr key = part * keys + lane;
  Index where = KernelBuilder::varsOf(heads);
  where[p.query.name] = position;
  where[p.key.name] = min(key, length - 1);
  score = b.newFunc("score", p.dot);
  score(asVars(args)) =
      math::choose(key < length, b.real(b.graph.nodes[p.softmax].operands[0], where), math::negativeInfinity());
}

/// The product for a single query, from the keys as they lie in the cache: to pack them would cost more than to use them.
void AttentionFamily::makeDirect() {
  Region region;
  for (auto dim = p.depth.rbegin(); dim != p.depth.rend(); ++dim)
    region.push_back({0, b.extent(dim->size)});
  RDom r(region);
  Index index = KernelBuilder::varsOf(heads);
  index[p.query.name] = 0;
  index[p.key.name] = min(part * keys + lane, b.extent(p.key.size) - 1);
  for (size_t i = 0; i < p.depth.size(); ++i)
    index[p.depth[p.depth.size() - 1 - i].name] = r[static_cast<int>(i)];
  direct = b.newFunc("direct", p.dot);
  std::vector<Expr> args = blockArgs({lane, part});
  direct(asVars(args)) = 0.0f;
  direct(args) += b.real(p.q, index) * b.real(p.k, index);
  directDepth = r[0];
}

/// The largest or the sum over all keys of a query: in vectors first, then across the vector.
Func AttentionFamily::overKeys(const std::string &what, const Func &of, bool most) {
  Func lanes = b.newFunc(what + "_lanes", p.softmax), all = b.newFunc(what, p.softmax);
  RDom r(0, keys / width, 0, parts);
  if (bounded)
    r.where(r.y >= firstPart && r.y <= lastPart);
  std::vector<Expr> args = blockArgs({at, query});
  Expr read = of(blockArgs({r.x * width + at, query, bounded ? clamp(r.y, firstPart, lastPart) : Expr(r.y)}));
  lanes(asVars(args)) = most ? math::negativeInfinity() : Expr(0.0f);
  lanes(args) = most ? math::max(lanes(args), read) : lanes(args) + read;
  std::vector<Expr> values;
  for (int i = 0; i < width; ++i)
    values.push_back(lanes(blockArgs({Expr(i), query})));
  while (values.size() > 1) {
    std::vector<Expr> next;
    for (size_t i = 0; i + 1 < values.size(); i += 2)
      next.push_back(most ? math::max(values[i], values[i + 1]) : values[i] + values[i + 1]);
    values = next;
  }
  all(asVars(blockArgs({query}))) = values[0];
  lanes.bound(at, 0, width).vectorize(at, width);
  lanes.update().reorder(at, r.x, r.y).vectorize(at, width).unroll(r.x);
  (most ? largestLanes : totalLanes) = lanes;
  return all;
}

void AttentionFamily::makeWeights() {
  largest = overKeys("largest", score, true);
  std::vector<Expr> args = blockArgs({lane, query, part});
  Expr top = largest(blockArgs({query}));
  Expr shift = math::choose(math::isNegativeInfinity(top), 0.0f, top);
  weight = b.newFunc("weight", p.softmax);
  weight(asVars(args)) = math::exp(math::sub(score(args), shift));
  total = overKeys("total", weight, false);
}

void AttentionFamily::makeBlock() {
  sums = b.newFunc("sums", p.result);
  positions = RDom(0, keys, 0, parts);
  if (bounded)
    positions.where(positions.y >= firstPart && positions.y <= lastPart);
  std::vector<Dim> own = dimsOfBoth(heads, b.graph.nodes[p.v]);
  Index index = KernelBuilder::varsOf(own);
  index[p.column.name] = column;
  index[p.key.name] = min(positions.y * keys + positions.x, b.extent(p.key.size) - 1);
  std::vector<Expr> args = blockArgs({column, query});
  Expr from = bounded ? clamp(positions.y, firstPart, lastPart) : Expr(positions.y);
  sums(asVars(args)) = 0.0f;
  sums(args) += weight(blockArgs({positions.x, query, from})) * b.real(p.v, index);
  result = b.newFunc("attended", p.result);
  Expr all = total(blockArgs({query}));
  result(asVars(args)) = math::choose(math::equal(all, 0.0f), 0.0f, math::div(sums(args), all));
}

void AttentionFamily::schedule(Stage &out) {
  Var t = KernelBuilder::var(p.query.name), c = KernelBuilder::var(p.column.name), blockLoop("tblock"), within("twithin");
  out.func.split(t, blockLoop, within, block, TailStrategy::GuardWithIf);
  std::vector<VarOrRVar> order = {c, within, blockLoop};
  for (auto dim = heads.rbegin(); dim != heads.rend(); ++dim)
    order.push_back(KernelBuilder::var(dim->name));
  out.func.reorder(order);
  Var task = blockLoop;
  for (auto dim = heads.rbegin(); dim != heads.rend(); ++dim) {
    Var next(task.name() + "_");
    out.func.fuse(task, KernelBuilder::var(dim->name), next);
    task = next;
  }
  out.func.parallel(task);
  int64_t columns = p.column.fixed().value_or(0);
  int narrow = width;
  while (narrow > 1 && columns && narrow > columns)
    narrow /= 2;
  if (narrow > 1)
    out.func.vectorize(c, narrow, TailStrategy::GuardWithIf);

  LoopLevel level(out.func, task);
  Var queryTile("qt"), columnTile("ct");
  score.compute_at(level).bound_extent(lane, keys).split(query, queryTile, query, rows, TailStrategy::RoundUp);
  score.reorder(lane, query, queryTile, part).vectorize(lane, width).unroll(lane).unroll(query);
  dot.compute_at(score, queryTile).bound_extent(lane, keys).bound_extent(query, rows);
  dot.vectorize(lane, width).unroll(lane).unroll(query);
  std::vector<VarOrRVar> loops = {lane, query};
  loops.insert(loops.end(), depths.begin(), depths.end());
  dot.update().reorder(loops).vectorize(lane, width).unroll(lane).unroll(query);
  direct.compute_at(score, queryTile).bound_extent(lane, keys).vectorize(lane, width);
  int together = keys; // depths that one vector (or several) takes at once
  int64_t depth = p.depth.back().fixed().value_or(1);
  while (together > 1 && depth % together)
    together /= 2;
  if (together > 1)
    direct.update().atomic().vectorize(directDepth, together);
  largest.compute_at(level);
  largestLanes.compute_at(largest, query);
  weight.compute_at(level).bound_extent(lane, keys).reorder(lane, query, part).vectorize(lane, width);
  total.compute_at(level);
  totalLanes.compute_at(total, query);

  // Columns in registers: at most as many vectors as a row of scores takes.
  int span = std::max(narrow, static_cast<int>(std::min<int64_t>(columns ? columns / narrow * narrow : narrow, keys)));
  while (columns && columns % span && span > narrow)
    span -= narrow;
  bool whole = columns && columns % span == 0;
  result.compute_at(level).split(query, queryTile, query, rows, TailStrategy::RoundUp);
  if (narrow == 1 || !whole) { // an odd number of columns: guarded vectors, sums in memory
    result.reorder(column, query, queryTile);
    sums.compute_at(result, queryTile);
    sums.update().reorder(column, query, positions.x, positions.y);
    if (narrow > 1) {
      result.vectorize(column, narrow, TailStrategy::GuardWithIf);
      sums.vectorize(column, narrow, TailStrategy::GuardWithIf);
      sums.update().vectorize(column, narrow, TailStrategy::GuardWithIf);
    }
  } else {
    result.split(column, columnTile, column, span).reorder(column, query, columnTile, queryTile);
    result.vectorize(column, narrow).unroll(column).unroll(query);
    sums.compute_at(result, columnTile).bound_extent(column, span).bound_extent(query, rows);
    sums.vectorize(column, narrow).unroll(column).unroll(query);
    sums.update().reorder(column, query, positions.x, positions.y).vectorize(column, narrow).unroll(column).unroll(query);
  }
  out.scheduled = true;
}

void AttentionFamily::define() {
  prepareInputs();
  makeScores(packKeys());
  makeWeights();
  makeBlock();
  const Node &node = b.graph.nodes[p.result];
  b.isStage[p.result] = 1;
  b.values[p.result] = [self = *this](const Index &index) {
    // The remainder is at most the last query: said so that few queries make few rows.
    Expr t = index.at(self.p.query.name), last = self.b.extent(self.p.query.size) - 1;
    std::vector<Expr> call = {index.at(self.p.column.name), min(t % self.block, last), t / self.block};
    for (auto dim = self.heads.rbegin(); dim != self.heads.rend(); ++dim)
      call.push_back(index.at(dim->name));
    return Expr(self.result(call));
  };
  auto found = std::find(b.graph.results.begin(), b.graph.results.end(), p.result);
  bool direct = b.users[p.result].empty() && std::count(b.graph.results.begin(), b.graph.results.end(), p.result) == 1;
  if (direct && b.fusedInto(static_cast<int>(found - b.graph.results.begin()),
                            [self = *this](Stage &out) mutable { self.schedule(out); }))
    return;
  Stage copy{b.newFunc("attention", p.result), node.dims, {}, false, {}, false};
  copy.func(KernelBuilder::pureArgs(node.dims)) = b.values[p.result](KernelBuilder::varsOf(node.dims));
  copy.func.compute_root();
  schedule(copy);
  b.readFrom(p.result, copy.func);
  b.addStage(copy);
}

} // namespace quern::codegen
