// Takes: operations that combine positions. Gives: stages.
// Why partial sums: a sum along the dimension that is innermost runs in `lanes` independent sums (vectors), added at
// the end; so it is fast, and rounds less. Over several dimensions each run along that one has such sums, which are then added
// to those of all runs: the rounding grows with the length and the number of runs, not with their product.
#include "codegen/halide/KernelBuilder.h"
#include "codegen/halide/Math.h"

#include <algorithm>
#include <limits>

using namespace Halide;

namespace quern::codegen {

static std::vector<Dim> withoutDims(const std::vector<Dim> &dims, const std::vector<std::string> &names) {
  std::vector<Dim> kept;
  for (const Dim &dim : dims)
    if (std::find(names.begin(), names.end(), dim.name) == names.end())
      kept.push_back(dim);
  return kept;
}

static std::vector<Dim> onlyDims(const std::vector<Dim> &dims, const std::vector<std::string> &names) {
  std::vector<Dim> out;
  for (const Dim &dim : dims)
    if (std::find(names.begin(), names.end(), dim.name) != names.end())
      out.push_back(dim);
  return out;
}

Expr KernelBuilder::identity(Reduction reduction, Kind kind) {
  bool real = kind == Kind::Real;
  switch (reduction) {
  case Reduction::Max:
    return real ? math::negativeInfinity() : Expr(std::numeric_limits<int32_t>::min());
  case Reduction::Min:
    return real ? math::infinity() : Expr(std::numeric_limits<int32_t>::max());
  case Reduction::Any:
    return cast<uint8_t>(0);
  case Reduction::All:
    return cast<uint8_t>(1);
  default:
    return real ? Expr(0.0f) : Expr(0);
  }
}

Expr KernelBuilder::combine(Reduction reduction, const Expr &a, const Expr &b) {
  bool real = a.type().is_float();
  switch (reduction) {
  case Reduction::Max:
    return real ? math::max(a, b) : max(a, b);
  case Reduction::Min:
    return real ? math::min(a, b) : min(a, b);
  case Reduction::Any:
    return a | b;
  case Reduction::All:
    return a & b;
  default:
    return a + b;
  }
}

Expr KernelBuilder::foldLanes(const Func &lanes, int count,
                              const std::function<Expr(const Expr &, const Expr &)> &combine,
                              std::vector<Func> &halves) const {
  Func last = lanes;
  const std::vector<Var> args = last.args();
  auto at = [&](const Expr &lane) {
    std::vector<Expr> call(args.begin(), args.end());
    call[0] = lane;
    return Expr(last(call));
  };
  for (; count > 2 && count % 2 == 0; count /= 2) {
    Func half(lanes.name() + "_" + std::to_string(count / 2));
    half(args) = combine(at(args[0]), at(args[0] + count / 2));
    half.bound(args[0], 0, count / 2).vectorize(args[0], std::min(count / 2, target.vector), TailStrategy::GuardWithIf);
    half.unroll(args[0]);
    halves.push_back(half);
    last = half;
  }
  Expr whole = at(0);
  for (int i = 1; i < count; ++i)
    whole = combine(whole, at(i));
  return whole;
}

/// How many partial sums: a number that divides the length where one does, so that no lane needs a guard.
static int lanesFor(const Dim &dim, int wished) {
  std::optional<int64_t> length = dim.fixed();
  if (!length)
    return wished;
  for (int lanes = wished; lanes >= 4; lanes /= 2)
    if (*length % lanes == 0)
      return lanes;
  int lanes = wished;
  while (lanes > 4 && lanes / 2 >= *length)
    lanes /= 2;
  return lanes;
}

/// Steps of a run along the innermost dimension, from which on it has sums of its own: one more addition for so many.
static constexpr int64_t longRun = 8;

Func KernelBuilder::reduceOver(const std::string &what, int node, const std::vector<Dim> &kept,
                               const std::vector<Dim> &over, Kind kind, Reduction reduction,
                               const std::function<Expr(const Index &)> &body) {
  Func total = newFunc(what, node);
  if (over.empty()) {
    total(pureArgs(kept)) = body(varsOf(kept));
    addStage({total, kept});
    return total;
  }
  // Along which dimension memory runs: the last of the operand.
  const std::vector<Dim> &order = graph.nodes[graph.nodes[node].operands[0]].dims;
  const Dim *last = &over.back();
  bool alongOver = false;
  for (const Dim &dim : over)
    if (!order.empty() && dim.name == order.back().name) {
      last = &dim;
      alongOver = true;
    }
  if (onDevice())
    return sumInParts({what, node, identity(reduction, kind),
                       [&](const Expr &a, const Expr &b) { return combine(reduction, a, b); },
                       alongOver || kept.empty()},
                      kept, over, body);
  int lanes = alongOver ? lanesFor(*last, part("row")["lanes"]) : 1;
  bool guarded = lanes > 1 && !(last->fixed() && *last->fixed() % lanes == 0);
  std::vector<Dim> others;
  for (const Dim &dim : over)
    if (dim.name != last->name)
      others.push_back(dim);
  const bool rounds = kind == Kind::Real && (reduction == Reduction::Sum || reduction == Reduction::Mean);
  const bool inRuns =
      rounds && lanes > 1 && !others.empty() && last->fixed().value_or(longRun * lanes) >= longRun * lanes;

  Expr length = extent(last->size);
  Region region = {{0, lanes > 1 ? (length + (lanes - 1)) / lanes : length}}, ofOthers;
  for (auto dim = others.rbegin(); dim != others.rend(); ++dim)
    ofOthers.push_back({0, extent(dim->size)});
  if (!inRuns)
    region.insert(region.end(), ofOthers.begin(), ofOthers.end());
  RDom r(region);
  Var lane("lane");
  Index index = varsOf(kept);
  Expr position = lanes > 1 ? r[0] * lanes + lane : Expr(r[0]);
  if (guarded) { // what is read has no lanes behind the length: Halide does not see that for lanes of a vector
    r.where(position < length);
    position = unsafe_promise_clamped(position, 0, length - 1);
  }
  index[last->name] = position;
  std::vector<RVar> variables = {r[0]};
  for (size_t i = 0; i < others.size(); ++i) {
    const std::string &name = others[others.size() - 1 - i].name;
    index[name] = inRuns ? Expr(var(name)) : Expr(r[int(i) + 1]);
    if (!inRuns)
      variables.push_back(r[int(i) + 1]);
  }

  Func sums = lanes > 1 ? newFunc(what + (inRuns ? "_run" : "_lanes"), node) : total;
  std::vector<Var> args = pureArgs(kept);
  if (inRuns) {
    std::vector<Var> more = pureArgs(others);
    args.insert(args.begin(), more.begin(), more.end());
  }
  if (lanes > 1)
    args.insert(args.begin(), lane);
  sums(args) = identity(reduction, kind);
  sums(args) = combine(reduction, sums(args), body(index));
  if (lanes == 1) {
    addStage({total, kept, {variables}});
    return total;
  }
  const int width = std::min(lanes, target.vector);
  auto inVectors = [&](Func &of, const std::vector<RVar> &loops) { // along memory, whatever the number of loops
    std::vector<VarOrRVar> order(loops.begin(), loops.end());
    order.insert(order.begin(), lane);
    of.bound(lane, 0, lanes).vectorize(lane, width, TailStrategy::GuardWithIf).unroll(lane);
    of.update().reorder(order);
    of.update().vectorize(lane, width, TailStrategy::GuardWithIf).unroll(lane);
  };
  inVectors(sums, variables);
  if (inRuns) {
    RDom q(ofOthers);
    Func run = sums;
    std::vector<Expr> there(args.begin(), args.end());
    variables.clear();
    for (size_t i = 0; i < others.size(); ++i) {
      there[i + 1] = q[int(i)];
      variables.push_back(q[int(i)]);
    }
    args = pureArgs(kept);
    args.insert(args.begin(), lane);
    sums = newFunc(what + "_lanes", node);
    sums(args) = identity(reduction, kind);
    sums(args) = combine(reduction, sums(args), run(there));
    inVectors(sums, variables);
    run.compute_at(sums, q[0]);
  }
  // Several elements in a vector would gather their lanes from as many places.
  Stage stage{total, kept};
  stage.oneByOne = lanes > 4;
  stage.lanes = {sums};
  total(pureArgs(kept)) =
      foldLanes(sums, lanes, [&](const Expr &a, const Expr &b) { return combine(reduction, a, b); }, stage.lanes);
  addStage(std::move(stage));
  return total;
}

void KernelBuilder::writeOut(int node, const std::vector<Dim> &over, std::function<Expr(const Index &)> body) {
  values[node] = [over, body = std::move(body)](const Index &index) {
    std::vector<Index> places = {index};
    for (const Dim &dim : over) {
      std::vector<Index> next;
      for (Index &place : places)
        for (int32_t i = 0; i < *dim.fixed(); ++i) {
          place[dim.name] = i;
          next.push_back(place);
        }
      places = std::move(next);
    }
    Expr sum;
    for (const Index &place : places)
      sum = sum.defined() ? sum + body(place) : body(place);
    return sum;
  };
}

void KernelBuilder::defineReduce(int i) {
  const Node &node = graph.nodes[i];
  int x = node.operands[0];
  std::vector<Dim> over = onlyDims(graph.nodes[x].dims, node.names);
  bool mean = node.reduction == Reduction::Mean;
  Kind kind = mean ? Kind::Real : node.kind();
  Func total = reduceOver("reduce", i, node.dims, over, kind, node.reduction, [&](const Index &index) {
    return kind == Kind::Bool ? stored(at(x, index), Storage::U8) : kind == Kind::Real ? real(x, index) : at(x, index);
  });
  readFrom(i, total);
  if (mean) {
    Expr count = 1.0f;
    for (const Dim &dim : over)
      count = count * cast<float>(extent(dim.size));
    values[i] = [read = values[i], count](const Index &index) { return math::div(read(index), count); };
  }
}

void KernelBuilder::defineSoftmax(int i) {
  const Node &node = graph.nodes[i];
  int x = node.operands[0];
  std::vector<Dim> kept = withoutDims(graph.nodes[x].dims, node.names),
                   over = onlyDims(graph.nodes[x].dims, node.names);
  Func largest =
      reduceOver("max", i, kept, over, Kind::Real, Reduction::Max, [&](const Index &index) { return real(x, index); });
  Func weights = newFunc("exp", i);
  Index vars = varsOf(node.dims);
  // Where everything is -inf the maximum must not be subtracted: -inf - -inf is no number.
  Expr top = largest(call(kept, vars));
  Expr shift = math::choose(math::isNegativeInfinity(top), 0.0f, top);
  weights(pureArgs(node.dims)) = math::exp(math::sub(real(x, vars), shift));
  addStage({weights, node.dims});
  Func total = reduceOver("sum", i, kept, over, Kind::Real, Reduction::Sum,
                          [&](const Index &index) { return weights(call(node.dims, index)); });
  isStage[i] = 1;
  values[i] = [this, i, weights, total, kept](const Index &index) {
    Expr sum = total(call(kept, index)), weight = weights(call(graph.nodes[i].dims, index));
    return math::choose(math::equal(sum, 0.0f), 0.0f, math::div(weight, sum));
  };
}

void KernelBuilder::defineArgmax(int i) {
  const Node &node = graph.nodes[i];
  int x = node.operands[0];
  const Dim &over = graph.nodes[x].dims[graph.nodes[x].find(node.names[0])];
  Func best = newFunc("argmax", i);
  RDom r(1, max(extent(over.size) - 1, 0));
  Index first = varsOf(node.dims), next = first;
  first[over.name] = 0;
  next[over.name] = r.x;
  std::vector<Var> args = pureArgs(node.dims);
  // The position comes first: Halide stores a tuple's parts in order, and the position is decided by the old value.
  best(args) = Tuple(0, at(x, first));
  Expr value = at(x, next), known = best(args)[1];
  Expr better = value.type().is_float() ? math::less(known, value) : known < value;
  best(args) = Tuple(select(better, Expr(r.x), best(args)[0]), select(better, value, known));
  addStage({best, node.dims, {{r.x}}});
  isStage[i] = 1;
  values[i] = [this, i, best](const Index &index) { return Expr(best(call(graph.nodes[i].dims, index))[0]); };
}

/// By rank: how many are larger, or equal and earlier. The one of rank c is the c-th.
void KernelBuilder::defineTopK(int i) {
  const Node &node = graph.nodes[i];
  int x = node.operands[0];
  const Node &from = graph.nodes[x];
  const Dim &over = from.dims[from.find(node.names[0])], &into = node.into[0];
  Func rank = newFunc("rank", i);
  RDom other(0, extent(over.size));
  Index mine = varsOf(from.dims), its = mine;
  its[over.name] = other.x;
  Expr a = at(x, mine), b = at(x, its), me = mine[over.name];
  bool isReal = a.type().is_float();
  Expr larger = isReal ? math::less(a, b) : a < b, same = isReal ? math::equal(a, b) : a == b;
  std::vector<Var> args = pureArgs(from.dims);
  rank(args) = 0;
  rank(args) += cast<int32_t>(larger || (same && other.x < me));
  addStage({rank, from.dims, {{other.x}}});

  Func position = newFunc("position", i);
  RDom each(0, extent(over.size));
  Index vars = varsOf(node.dims), there = vars;
  there[over.name] = each.x;
  std::vector<Var> own = pureArgs(node.dims);
  position(own) = 0;
  position(own) += select(rank(call(from.dims, there)) == vars[into.name], Expr(each.x), 0);
  addStage({position, node.dims, {{each.x}}});
  isStage[i] = 1;
  values[i] = [this, i, x, position, over](const Index &index) {
    Expr found = clamp(position(call(graph.nodes[i].dims, index)), 0, extent(over.size) - 1);
    if (graph.nodes[i].op == Op::TopKPositions)
      return found;
    Index inside = index;
    inside[over.name] = found;
    return at(x, inside);
  };
}

void KernelBuilder::defineCumsum(int i) {
  const Node &node = graph.nodes[i];
  int x = node.operands[0];
  const Dim &along = node.dims[node.find(node.names[0])];
  Func sums = newFunc("cumsum", i);
  Index vars = varsOf(node.dims), here = vars, before = vars;
  RDom r(1, max(extent(along.size) - 1, 0));
  bool reverse = node.integer;
  Expr last = extent(along.size) - 1;
  here[along.name] = reverse ? last - r.x : Expr(r.x);
  before[along.name] = reverse ? last - r.x + 1 : r.x - 1;
  sums(pureArgs(node.dims)) = at(x, vars);
  sums(call(node.dims, here)) += sums(call(node.dims, before));
  sums.update().unscheduled(); // along a single dimension it stays as it is: silences Halide
  addStage({sums, node.dims, {{r.x}}});
  readFrom(i, sums);
}

/// A scatter on a device, where one loop over what is summed would be one work-item's. Tokens (all that is summed together) are sorted
/// by their places first, and those of one place are a work-item's, in their order: the result is that of the loop, bit for bit.
///
///   rank[n] = tokens that go before n: to a place before, or to the same one and were before it
///   sorted[rank[n]] = n
///   many[k] = tokens that go to the place of sorted[k], if sorted[k] is the first of them; else 0
///   for k: for j < many[k]: sums[place of sorted[k]] += x[sorted[k + j]]
///
/// The first and the third compare all pairs of tokens, which is little beside the rows of numbers that they stand for. `over`: what
/// is summed, all of it dimensions of the positions. Returns the loops; the last one's steps write to different places, so that the
/// update may be raced.
static std::vector<RVar> scatterByPlace(KernelBuilder &b, Func &sums, int i, const std::vector<Dim> &over) {
  const Node &node = b.graph.nodes[i];
  int x = node.operands[0], positions = node.operands[1];
  const Dim &into = node.into[0];
  Dim token{"token of " + std::to_string(i), ir::Size(1)}, other{"other " + token.name, ir::Size(1)};
  for (const Dim &dim : over)
    token.size = token.size * dim.size;
  other.size = token.size;
  Expr count = b.extent(token.size);
  auto indexOf = [&](Expr number) { // of a token along what is summed
    Index index;
    for (auto dim = over.rbegin(); dim != over.rend(); ++dim) {
      Expr length = b.extent(dim->size);
      index[dim->name] = &*dim == &over.front() ? number : number % length;
      number = number / length;
    }
    return index;
  };
  Var n = KernelBuilder::var(token.name);
  auto stage = [&](const std::string &what) { return b.newFunc("scatter_" + what, i); };

  Func place = stage("place");
  place(n) =
      clamp(b.at(positions, indexOf(n)), 0, b.extent(into.size) - 1); // as a gather's: never outside of the buffer
  b.addStage({place, {token}, {}, false, {}, false, i});

  Func rank = b.reduceOver("scatter_rank", i, {token}, {other}, Kind::Int, Reduction::Sum, [&](const Index &index) {
    const Expr &own = index.at(token.name), &its = index.at(other.name);
    Expr goesTo = place(own), itGoesTo = place(its);
    return cast<int32_t>(itGoesTo < goesTo || (itGoesTo == goesTo && its < own));
  });

  Func sorted = stage("sorted");
  sorted(n) = 0;
  RDom each(0, count);
  sorted(clamp(rank(each.x), 0, count - 1)) = each.x;
  sorted.update().allow_race_conditions(); // ranks differ
  b.addStage({sorted, {token}, {{each.x}}, false, {}, false, i});

  auto sortedPlace = [&](const Expr &at) { return place(clamp(sorted(at), 0, count - 1)); };
  Func many = b.reduceOver("scatter_many", i, {token}, {other}, Kind::Int, Reduction::Sum, [&](const Index &index) {
    const Expr &own = index.at(token.name);
    Expr first = own == 0 || sortedPlace(max(own - 1, 0)) != sortedPlace(own);
    return cast<int32_t>(first && place(index.at(other.name)) == sortedPlace(own));
  });

  RDom r(0, count, 0, count); // of a place, places
  r.where(r.x < many(r.y));
  Index from = KernelBuilder::varsOf(node.dims), to = from;
  from.erase(into.name);
  Expr next = clamp(sorted(clamp(r.y + r.x, 0, count - 1)), 0, count - 1);
  for (auto &[name, position] : indexOf(next))
    from[name] = position;
  to[into.name] = clamp(sortedPlace(r.y), 0, b.extent(into.size) - 1);
  sums(KernelBuilder::call(node.dims, to)) += b.real(x, from);
  sums.update().allow_race_conditions(); // places differ
  return {r.x, r.y};
}

/// One update over all that is summed, in the order of x's dimensions: what meets at a position is added in that order. On a
/// device that order is kept for each position alone, where each goes with one number of all that is summed.
/// Adds what the scatter `i` scatters to a Func of its dimensions. Returns the loops.
std::vector<RVar> KernelBuilder::scatterInto(Func &sums, int i) {
  const Node &node = graph.nodes[i], &positions = graph.nodes[node.operands[1]];
  const Node &x = graph.nodes[node.operands[0]];
  std::vector<Dim> over = onlyDims(x.dims, node.names);
  for (const Dim &dim : onlyDims(positions.dims, node.names))
    if (!x.has(dim.name))
      over.push_back(dim);
  bool together = !over.empty() && over.size() == positions.dims.size() &&
                  std::all_of(over.begin(), over.end(), [&](const Dim &dim) { return positions.has(dim.name); });
  if (onDevice() && together)
    return scatterByPlace(*this, sums, i, over);
  Region region;
  for (auto dim = over.rbegin(); dim != over.rend(); ++dim)
    region.push_back({0, extent(dim->size)});
  // Of the same name may be a summed dimension and the new one: the former is of what is read, the latter of the
  // result.
  const Dim &into = node.into[0];
  Index from = varsOf(node.dims), to = from;
  from.erase(into.name);
  std::vector<RVar> variables;
  if (!region.empty()) {
    RDom r(region);
    for (size_t d = 0; d < over.size(); ++d)
      from[over[over.size() - 1 - d].name] = r[static_cast<int>(d)];
    for (size_t d = 0; d < over.size(); ++d)
      variables.push_back(r[static_cast<int>(d)]);
  }
  Expr place = at(node.operands[1], from);
  to[into.name] = clamp(place, 0, extent(into.size) - 1); // as a gather's: never outside of the buffer
  sums(call(node.dims, to)) += real(node.operands[0], from);
  sums.update().unscheduled(); // it may well stay as it is: silences Halide
  return variables;
}

void KernelBuilder::defineScatterAdd(int i) {
  const Node &node = graph.nodes[i];
  Func sums = newFunc("scatter", i);
  sums(pureArgs(node.dims)) = 0.0f;
  std::vector<RVar> variables = scatterInto(sums, i);
  addStage({sums, node.dims, {variables}, false, {}, false, -1, true});
  readFrom(i, sums);
}

/// A result that is a sum with a scatter (a tied matrix: its product, and the rows that tokens looked up): the scatter
/// goes into the result itself, not through a second matrix.
void KernelBuilder::findScatteredResults() {
  for (size_t r = 0; r < graph.results.size(); ++r) {
    int i = graph.results[r];
    const Node &node = graph.nodes[i];
    bool once = users[i].empty() && std::count(graph.results.begin(), graph.results.end(), i) == 1;
    auto byExpert = [&](int scatter) { return match.contractions.count(scatter) > 0; };
    if (node.op == Op::ScatterAdd && once && !byExpert(i))
      scatteredInto[i] = {-1, i}; // first zeros
    if (node.op != Op::Add || node.storage != Storage::F32 || !once)
      continue;
    for (int which : {0, 1}) {
      int scatter = node.operands[which], other = node.operands[1 - which];
      bool alone = graph.nodes[scatter].op == Op::ScatterAdd && users[scatter].size() == 1 && other != scatter &&
                   !std::count(graph.results.begin(), graph.results.end(), scatter);
      if (!alone || graph.nodes[scatter].dims.size() != node.dims.size() || scatteredInto.count(i) || byExpert(scatter))
        continue;
      scatteredInto[i] = {other, scatter};
    }
  }
}

} // namespace quern::codegen
