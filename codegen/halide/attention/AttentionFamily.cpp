// Takes: attention in a kernel, its score as whatever expression the model wrote. Gives: stages for many queries
// (AttentionBlocks.cpp) and for one (AttentionSingle.cpp); the run chooses.
// Why parts of keys in both: what is stored of scores then depends on the schedule alone, not on the lengths.
//
//   for each part of the keys: largest, total = sum of e^(score - largest), sums = sum of e^(score - largest) v
//   top = the largest of all and of the sinks
//   result = sum over parts of e^(largest - top) sums / (sum over parts of e^(largest - top) total + that of the sinks)
//
// A row that sees nothing has total 0, and gives zeros.
#include "codegen/halide/attention/AttentionFamily.h"

#include "codegen/halide/Math.h"

#include <algorithm>
#include <stdexcept>

using namespace Halide;

namespace quern::codegen {

AttentionFamily::AttentionFamily(KernelBuilder &builder, AttentionPattern pattern, const PlanPart &plan)
    : AttentionRows(builder, std::move(pattern), plan), split((plan["split"] + width - 1) / width * width),
      parts(plan["parts"]), runs(plan["runs"]), dotVectors(plan["dot"]), ahead(plan["ahead"]) {}

/// The model's expression, over products that the way at hand computes.
Expr AttentionFamily::scoreAt(const Index &where, const Expr &at, const Product &product) {
  for (int node : p.inside)
    b.memo[node].clear();
  for (size_t i = 0; i < p.dots.size(); ++i) {
    Expr value = product(p.dots[i], i);
    b.values[p.dots[i].node] = [value](const Index &) { return value; };
  }
  Expr length = b.extent(p.key.size);
  Index inside = where;
  inside[p.key.name] = min(at, length - 1);
  Expr value = math::choose(at < length, b.real(p.score, inside), math::negativeInfinity());
  for (int node : p.inside)
    b.memo[node].clear();
  return value;
}

/// `args`: of the result, the column first; `rowArgs`: the same without the column. What is computed once a row goes to
/// `perRow`, in order.
Func AttentionFamily::combine(const std::string &what, const AttentionParts &parts, const Index &where,
                              const std::vector<Expr> &args, const std::vector<Expr> &rowArgs,
                              std::vector<Func> &perRow) {
  RDom r(0, parts.count);
  r.where(r.x >= parts.first && r.x <= parts.last);
  Expr now = clamp(r.x, parts.first, parts.last);
  std::vector<Expr> sinks;
  for (auto &[node, dim] : p.sinks) {
    int64_t size = *b.graph.nodes[node].dims[b.graph.nodes[node].find(dim)].fixed();
    Index index = where;
    for (int64_t u = 0; u < size; ++u) {
      index[dim] = static_cast<int32_t>(u);
      sinks.push_back(b.real(node, index));
    }
  }
  Func top = b.newFunc(what + "_top", p.result), factor = b.newFunc(what + "_factor", p.result);
  Func all = b.newFunc(what + "_all", p.result), out = b.newFunc(what, p.result);
  Expr most = math::negativeInfinity();
  for (const Expr &sink : sinks)
    most = math::max(most, sink);
  std::vector<Var> rowVars = asVars(rowArgs);
  top(rowVars) = most;
  top(rowArgs) = math::max(top(rowArgs), parts.read(now, AttentionParts::Most, 0));
  Expr best = top(rowArgs);
  Expr shift = math::choose(math::isNegativeInfinity(best), 0.0f, best);

  std::vector<Expr> factorArgs = rowArgs;
  factorArgs.push_back(part);
  factor(asVars(factorArgs)) = math::exp(math::sub(parts.read(part, AttentionParts::Most, 0), shift));
  factorArgs.back() = now;
  Expr first = 0.0f;
  for (const Expr &sink : sinks)
    first = math::add(first, math::exp(math::sub(sink, shift)));
  all(rowVars) = first;
  all(rowArgs) += factor(factorArgs) * parts.read(now, AttentionParts::Total, 0);

  Func weighted = b.newFunc(what + "_sums", p.result);
  weighted(asVars(args)) = 0.0f;
  weighted(args) += factor(factorArgs) * parts.read(now, AttentionParts::Sum, column);
  Expr whole = all(rowArgs);
  out(asVars(args)) = math::choose(math::equal(whole, 0.0f), 0.0f, math::div(weighted(args), whole));
  perRow = {top, factor, all, weighted};
  return out;
}

/// What is left to compute of a single query's parts is little: several heads are a task.
void AttentionFamily::scheduleTasks(Func &out, const Var &task) const {
  constexpr int numbersOfTask = 4096;
  const int heads = numbersOfTask / (static_cast<int>(*p.column.fixed()) * together);
  auto ofSingle = [&](auto loops) {
    Var several(task.name() + "s");
    loops.split(task, several, task, std::max(1, heads), TailStrategy::GuardWithIf).parallel(several);
  };
  if (!attended.defined())
    return ofSingle(out);
  if (single.defined())
    ofSingle(out.specialize(b.extent(p.query.size) == 1));
  out.parallel(task);
}

void AttentionFamily::schedule(Stage &out) {
  Var t = KernelBuilder::var(p.query.name), c = KernelBuilder::var(p.column.name), blockLoop("tblock"),
      within("twithin");
  out.func.split(t, blockLoop, within, positions * blocks, TailStrategy::GuardWithIf);
  std::vector<VarOrRVar> order = {c};
  for (auto dim = p.together.rbegin(); dim != p.together.rend(); ++dim)
    order.push_back(KernelBuilder::var(dim->name));
  order.push_back(within);
  order.push_back(blockLoop);
  for (auto dim = p.heads.rbegin(); dim != p.heads.rend(); ++dim)
    order.push_back(KernelBuilder::var(dim->name));
  out.func.reorder(order);
  Var task = blockLoop;
  for (auto dim = p.heads.rbegin(); dim != p.heads.rend(); ++dim) {
    Var next(task.name() + "_");
    out.func.fuse(task, KernelBuilder::var(dim->name), next);
    task = next;
  }
  if (int narrow = narrowed(*p.column.fixed()); narrow > 1)
    out.func.vectorize(c, narrow, TailStrategy::GuardWithIf);
  scheduleTasks(out.func, task);
  LoopLevel level(out.func, task);
  if (attended.defined())
    scheduleBlocks(level);
  if (single.defined())
    scheduleSingle(level);
  out.scheduled = true;
}

/// What `read` finds for a row: by its place in its block, or among the rows of a single query.
Expr AttentionFamily::atRow(const Index &index, const std::function<Expr(std::vector<Expr>, bool)> &read) const {
  Expr at = 0;
  for (const Dim &dim : p.together)
    at = at * static_cast<int32_t>(*dim.fixed()) + index.at(dim.name);
  auto call = [&](const Expr &row, bool block) {
    std::vector<Expr> args = {row};
    if (block)
      args.push_back(min(index.at(p.query.name), b.extent(p.query.size) - 1) / positions);
    for (auto dim = p.heads.rbegin(); dim != p.heads.rend(); ++dim)
      args.push_back(index.at(dim->name));
    return read(args, block);
  };
  // The remainder is at most the last query: said so that few queries make few rows.
  Expr t = index.at(p.query.name), queries = b.extent(p.query.size);
  Expr inBlock = min(t % positions, queries - 1) * together + at;
  if (!single.defined())
    return call(inBlock, true);
  if (!attended.defined())
    return call(at, false);
  // Halide computes only the one of the two that the number of queries asks for.
  return math::choose(queries == 1, call(at, false), call(inBlock, true));
}

/// The results and behind them, as two more columns, what the gradient keeps of the softmax: one pass makes them all.
void AttentionFamily::defineWithStatistics() {
  const Node &node = b.graph.nodes[p.result];
  std::vector<Dim> dims = node.dims;
  int32_t columns = static_cast<int32_t>(*p.column.fixed());
  for (Dim &dim : dims)
    if (dim.name == p.column.name)
      dim.size = dim.size + ir::Size(2);
  Stage all{b.newFunc("attention", p.result), dims, {}, false, {}, false};
  Index index = KernelBuilder::varsOf(dims), inside = index;
  Expr at = index.at(p.column.name);
  inside[p.column.name] = min(at, columns - 1);
  auto statistic = [&](size_t which) { // combine's order: largest, factors, totals
    return atRow(
        index, [&](std::vector<Expr> args, bool block) { return Expr((block ? blockRows : singleRows)[which](args)); });
  };
  Expr largest = statistic(0), total = statistic(2);
  Expr shift = math::choose(math::isNegativeInfinity(largest), 0.0f, largest);
  Expr share = math::choose(math::equal(total, 0.0f), 0.0f, math::div(1.0f, total));
  all.func(KernelBuilder::pureArgs(dims)) =
      math::choose(at < columns, b.values[p.result](inside), math::choose(at == columns, shift, share));
  all.func.compute_root();
  schedule(all);
  auto read = [this, dims, func = all.func](int result, int32_t offset, bool ofColumn) {
    b.isStage[result] = 1;
    b.values[result] = [dims, func, offset, ofColumn, name = p.column.name](Index index) {
      if (!ofColumn)
        index[name] = offset;
      return Expr(func(KernelBuilder::call(dims, index)));
    };
  };
  read(p.result, 0, true);
  read(p.shift, columns, false);
  read(p.share, columns + 1, false);
  b.addStage(all);
}

void AttentionFamily::define() {
  prepareInputs({p.v});
  std::optional<int64_t> queries = p.query.fixed();
  if (queries != 1)
    makeBlocks();
  if (!queries || queries == 1)
    makeSingle();
  for (int node : p.inside)
    b.values[node] = [](const Index &) -> Expr { throw std::logic_error("a value inside attention is asked for"); };
  b.isStage[p.result] = 1;
  b.values[p.result] = [self = *this](const Index &index) {
    return self.atRow(index, [&](std::vector<Expr> args, bool block) {
      args.insert(args.begin() + 1, index.at(self.p.column.name));
      return Expr((block ? self.attended : self.single)(args));
    });
  };
  if (p.shift >= 0)
    return defineWithStatistics();
  auto found = std::find(b.graph.results.begin(), b.graph.results.end(), p.result);
  bool direct = b.users[p.result].empty() && std::count(b.graph.results.begin(), b.graph.results.end(), p.result) == 1;
  if (direct && b.fusedInto(static_cast<int>(found - b.graph.results.begin()),
                            [self = *this](Stage &out) mutable { self.schedule(out); }))
    return;
  const Node &node = b.graph.nodes[p.result];
  Stage copy{b.newFunc("attention", p.result), node.dims, {}, false, {}, false};
  copy.func(KernelBuilder::pureArgs(node.dims)) = b.values[p.result](KernelBuilder::varsOf(node.dims));
  copy.func.compute_root();
  schedule(copy);
  b.readFrom(p.result, copy.func);
  b.addStage(copy);
}

void takeAttention(KernelBuilder &b) {
  for (const AttentionPattern &pattern : b.match.attentions)
    b.take(
        pattern.result, [&b, &pattern] { AttentionFamily(b, pattern, b.part(pattern.result)).define(); },
        pattern.inside);
}

} // namespace quern::codegen
