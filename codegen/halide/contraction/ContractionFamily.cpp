// Takes: a contraction in a kernel. Gives: accumulators for a tile of rows x columns that stay in registers, and loops
// around them.
// Why packed: the innermost loop then reads whole vectors of columns one after the other, whatever the weight's shape.
//
//   for each tile of columns, block of rows (parallel)    tiles of rows within the block share the columns in L2
//     for each tile of rows
//       sums[rows x columns] = 0
//       for k: sums += x[rows, k] * w[k, columns]         rows beyond the last repeat it, and are not stored
//       result[tile] = epilogue(sums)
#include "codegen/halide/contraction/ContractionFamily.h"

#include "codegen/halide/Math.h"

#include <algorithm>

using namespace Halide;

namespace quern::codegen {

ContractionFamily::ContractionFamily(KernelBuilder &builder, int node) : b(builder), node(node) {}

static bool has(const std::vector<Dim> &dims, const std::string &name) {
  return std::any_of(dims.begin(), dims.end(), [&](const Dim &dim) { return dim.name == name; });
}

/// A gather, behind what widens its bf16; or the node itself.
int ContractionFamily::pickOf(int operand) const {
  const Node &node = b.graph.nodes[operand];
  bool widened = node.op == Op::Widen && b.graph.nodes[node.operands[0]].op == Op::Gather;
  return widened ? node.operands[0] : operand;
}

/// What a weight is picked from, one expert for each position; or itself.
int ContractionFamily::tableOf(int operand) const {
  const Node &node = b.graph.nodes[pickOf(operand)];
  bool picked = node.op == Op::Gather && node.operands[0] < b.graph.argumentCount() &&
                (b.graph.argumentLayouts[node.operands[0]].packed || (isGrouped() && operand == w));
  return picked ? node.operands[0] : operand;
}

/// The weight is what is packed; else the operand with the larger dimensions of its own.
void ContractionFamily::chooseOperands() {
  const Node &c = b.graph.nodes[node];
  auto isPacked = [&](int operand) {
    operand = tableOf(operand);
    return operand < b.graph.argumentCount() && b.graph.argumentLayouts[operand].packed;
  };
  auto columns = [&](int mine, int its) {
    int64_t count = 1;
    for (const Dim &dim : b.graph.nodes[mine].dims)
      if (!b.graph.nodes[its].has(dim.name) && !contains(c.names, dim.name))
        count *= dim.fixed().value_or(1 << 12);
    return count;
  };
  x = c.operands[0], w = c.operands[1];
  // What lies innermost in the result makes columns: then whole vectors are stored.
  const Node &result = b.graph.nodes[b.graph.results[0]];
  auto innermostOf = [&](const Node &node) { return node.dims.empty() ? Dim{"", ir::Size(0)} : node.dims.back(); };
  Dim last = innermostOf(result);
  if (!b.graph.nodes[x].has(last.name) && !b.graph.nodes[w].has(last.name))
    last = innermostOf(c); // the result has others: its parts, or dimensions that are split
  const std::string &innermost = last.name;
  bool inX = b.graph.nodes[x].has(innermost), inW = b.graph.nodes[w].has(innermost);
  bool wide = last.fixed().value_or(b.target.vector) >= b.target.vector;
  if (isPacked(x) && !isPacked(w))
    std::swap(x, w);
  else if (!isPacked(w) && wide && inX != inW && !contains(c.names, innermost)) {
    if (inX)
      std::swap(x, w);
    columnName = innermost;
  } else if (!isPacked(w) && columns(x, w) > columns(w, x))
    std::swap(x, w);
  packed = isPacked(w);
  auto picks = [&](int operand) {
    const Node &gather = b.graph.nodes[pickOf(operand)];
    return gather.op == Op::Gather && gather.operands[0] < b.graph.argumentCount() &&
           b.graph.nodes[gather.operands[0]].dims.size() > 2;
  };
  if (!packed && picks(x) && !picks(w)) { // a weight for each row is never rows
    std::swap(x, w);
    columnName.clear();
  }
  if (packed) { // its tiles help only if it has columns of its own and nothing but its depth is summed
    const Node &weight = b.graph.nodes[tableOf(w)];
    const std::string &outer = weight.dims[weight.dims.size() - 2].name, &inner = weight.dims.back().name;
    packed = c.names == std::vector<std::string>{inner} && !b.graph.nodes[x].has(outer);
  }
}

void ContractionFamily::chooseDims() {
  const Node &c = b.graph.nodes[node], &input = b.graph.nodes[x], &weight = b.graph.nodes[w];
  for (const Node *operand : {&input, &weight})
    for (const Dim &dim : operand->dims)
      if (contains(c.names, dim.name) &&
          std::none_of(reduced.begin(), reduced.end(), [&](const Dim &known) { return known.name == dim.name; }))
        reduced.push_back(dim);
  if (packed) {
    const Node &table = b.graph.nodes[tableOf(w)];
    column = table.dims[table.dims.size() - 2];
  } else {
    for (const Dim &dim : b.graph.nodes[tableOf(w)].dims)
      if (!contains(c.names, dim.name) && !input.has(dim.name) && !(column && column->name == columnName))
        column = dim;
  }
  for (const Dim &dim : input.dims)
    if (!isGrouped() && !contains(c.names, dim.name) && !weight.has(dim.name) &&
        (!row || !dim.fixed() || (row->fixed() && *row->fixed() <= *dim.fixed())))
      row = dim;
  for (const Dim &dim : c.dims)
    if (!(column && dim.name == column->name) && !(row && dim.name == row->name) && !has(pairs, dim.name))
      others.push_back(dim);
}

/// What is read again and again must be memory.
void ContractionFamily::prepareInput() {
  bool byExpert = b.graph.nodes[node].op == Op::ScatterAdd;
  for (int operand : {x, w}) {
    int source = operand;
    bool view = true, widened = false;
    while (view && !b.isStage[source] && b.graph.nodes[source].op != Op::Argument) {
      Op op = b.graph.nodes[source].op;
      // On its way from memory to the loops: rounded and widened there.
      bool copied = byExpert || (!isGrouped() && (operand == w ? !packed : isDense()));
      view = op == Op::Rename || op == Op::Permute || op == Op::Squeeze || op == Op::Unit || op == Op::Cut ||
             op == Op::Expand || ((op == Op::Widen || op == Op::Narrow) && copied);
      widened |= op == Op::Widen;
      if (view)
        source = b.graph.nodes[source].operands[0];
    }
    narrow |= view && widened && operand == x;
    if (!view && tableOf(operand) == operand && !b.isStage[operand] && !b.graph.nodes[operand].dims.empty())
      b.materialize(operand);
    if (!view && b.isStage[operand])
      b.prologues.push_back(operand);
  }
}

/// `from`: the weight where it is packed; else what is read, that or the table it is picked from.
Expr ContractionFamily::weightAt(int from, const Expr &laneIndex, const Expr &tileIndex, Index index) {
  if (packed) {
    int source = tableOf(w);
    const Node &weight = b.graph.nodes[source], &node = b.graph.nodes[w];
    std::vector<Expr> args = {laneIndex, index.at(weight.dims.back().name), tileIndex};
    for (int d = static_cast<int>(weight.dims.size()) - 3; d >= 0; --d) {
      bool picked = source != w && !isGrouped() && weight.dims[d].name == node.names[0];
      args.push_back(picked ? clamp(b.at(node.operands[1], index), 0, b.extent(weight.dims[d].size) - 1)
                            : index.at(weight.dims[d].name));
    }
    return b.arguments[source](args);
  }
  Expr last = b.extent(column->size) - 1, position = tileIndex * tile + laneIndex;
  index[column->name] = min(position, last);
  auto read = [&] {
    return b.graph.nodes[from].kind == Kind::BF16 ? math::widen(b.at(from, index)) : b.real(from, index);
  };
  bool whole = column->fixed() && *column->fixed() % tile == 0;
  if (whole) {
    index[column->name] = position;
    return read();
  }
  return select(position <= last, read(), 0.0f);
}

/// A weight of no packed layout is brought into it first.
Func ContractionFamily::packWeight(int from) {
  const Node &weight = b.graph.nodes[from];
  Func copy = b.newFunc("packed", node);
  Index index = KernelBuilder::varsOf(weight.dims);
  Var tileIndex("tile");
  std::vector<Var> args = {lane};
  for (auto dim = weight.dims.rbegin(); dim != weight.dims.rend(); ++dim)
    if (dim->name != column->name)
      args.push_back(KernelBuilder::var(dim->name));
  args.push_back(tileIndex);
  copy(args) = weightAt(from, lane, tileIndex, index);
  copy.compute_root().bound(lane, 0, tile).vectorize(lane, std::min(tile, b.target.vector)).parallel(tileIndex);
  return copy;
}

/// Names of the loops of sums: within a tile, the other dimensions, tiles of columns.
std::vector<Var> ContractionFamily::tileArgs() const {
  std::vector<Var> args = {lane};
  if (row)
    args.push_back(KernelBuilder::var(row->name));
  for (auto dim = others.rbegin(); dim != others.rend(); ++dim)
    args.push_back(KernelBuilder::var(dim->name));
  args.emplace_back("tile");
  return args;
}

/// The summed dimensions, the last of them innermost; and where a step over them is.
Region ContractionFamily::reducedRegion() const {
  Region region;
  for (auto dim = reduced.rbegin(); dim != reduced.rend(); ++dim)
    region.push_back({0, b.extent(dim->size)});
  return region;
}

void ContractionFamily::setReduced(Index &index, const RDom &k) const {
  for (size_t i = 0; i < reduced.size(); ++i)
    index[reduced[reduced.size() - 1 - i].name] = k[static_cast<int>(i)];
}

/// Copies of rows: several groups beside each other, which share lines of memory, then the next step `along` their
/// depth.
void ContractionFamily::scheduleGroups(const Var &along) {
  Var some("gs"), beside("gb");
  groups.compute_root().bound(groupLane, 0, rows).split(Var("group"), some, beside, 8, TailStrategy::GuardWithIf);
  groups.reorder(groupLane, beside, along).vectorize(groupLane).parallel(some);
}

void ContractionFamily::accumulate() {
  const Node &weight = b.graph.nodes[w];
  sums = b.newFunc("sums", node);
  Var tileIndex("tile");
  std::vector<Var> args = tileArgs();
  RDom k(reducedRegion());
  Index index = KernelBuilder::varsOf(others);
  if (row)
    index[row->name] = min(KernelBuilder::var(row->name), b.extent(row->size) - 1);
  setReduced(index, k);
  for (int i = 0; i < k.dimensions(); ++i)
    over.push_back(k[i]);
  Expr factor;
  if (packed) {
    factor = weightAt(w, lane, tileIndex, index);
  } else {
    Func copy = packWeight(w);
    std::vector<Expr> call = {lane};
    for (auto dim = weight.dims.rbegin(); dim != weight.dims.rend(); ++dim)
      if (dim->name != column->name)
        call.push_back(index.at(dim->name));
    call.push_back(tileIndex);
    factor = copy(call);
  }
  sums(args) = 0.0f;
  sums(args) += b.real(x, index) * factor;
  totals = sums;
}

/// What is computed from the contraction reads its tiles.
void ContractionFamily::readTiles() {
  b.isStage[node] = 1;
  b.values[node] = [this_ = *this](const Index &position) {
    Expr at = position.at(this_.column->name);
    std::vector<Expr> call = {at % this_.tile};
    if (this_.row)
      call.push_back(position.at(this_.row->name));
    for (auto dim = this_.others.rbegin(); dim != this_.others.rend(); ++dim)
      call.push_back(position.at(dim->name));
    call.push_back(at / this_.tile);
    Expr sum = this_.isDense() ? this_.denseSum(call) : Expr(this_.totals(call));
    // Halide computes only the one of the two that the number of rows asks for.
    return this_.direct.defined()
               ? math::choose(this_.few,
                              this_.direct(KernelBuilder::call(this_.b.graph.nodes[this_.node].dims, position)), sum)
               : sum;
  };
}

/// The one result that everything computed from the sums flows into element by element, or -1. Parts of a joined weight
/// (gate and up) may be taken apart on the way: the result has the same row and column of each at hand.
int ContractionFamily::fusedResult() {
  const std::vector<Dim> &own = b.graph.nodes[node].dims;
  auto known = [&](const Dim &dim) {
    return std::any_of(own.begin(), own.end(), [&](const Dim &mine) { return mine.name == dim.name; });
  };
  std::vector<char> reached(b.graph.nodes.size());
  std::vector<std::string> parts; // dimensions of which single positions are taken
  reached[node] = 1;
  int result = -1;
  for (size_t i = node; i < b.graph.nodes.size(); ++i) {
    const Node &n = b.graph.nodes[i];
    bool isPart = n.op == Op::Cut || n.op == Op::Squeeze;
    for (int operand : n.operands)
      reached[i] |= reached[operand];
    if (!reached[i])
      continue;
    if (n.op == Op::Cut) {
      bool among = std::any_of(others.begin(), others.end(), [&](const Dim &dim) { return dim.name == n.names[0]; });
      if (!among || n.into[0].fixed() != 1)
        return -1;
      parts.push_back(n.names[0]);
    }
    bool plain =
        static_cast<int>(i) == node || b.graph.isElementwise(static_cast<int>(i)) || n.op == Op::Permute || isPart;
    bool dims =
        std::all_of(n.dims.begin(), n.dims.end(), [&](const Dim &dim) { return known(dim) || dim.fixed() == 1; });
    if (!plain || !dims || (static_cast<int>(i) != node && b.wantsStage(static_cast<int>(i))))
      return -1;
    for (size_t r = 0; r < b.graph.results.size(); ++r)
      if (b.graph.results[r] == static_cast<int>(i)) {
        if (result >= 0)
          return -1;
        result = static_cast<int>(r);
      }
  }
  if (result < 0)
    return -1;
  const Node &last = b.graph.nodes[b.graph.results[result]];
  for (const Dim &dim : own)
    if (last.has(dim.name) == contains(parts, dim.name))
      return -1;
  if (last.dims.size() + (others.size() - aroundOf(last.dims).size()) != own.size())
    return -1;
  return result;
}

/// The other dimensions that a result has: loops around its tiles. The rest is inside of a tile.
std::vector<Dim> ContractionFamily::aroundOf(const std::vector<Dim> &result) const {
  std::vector<Dim> around;
  for (const Dim &dim : others)
    if (std::any_of(result.begin(), result.end(), [&](const Dim &its) { return its.name == dim.name; }))
      around.push_back(dim);
  return around;
}

/// Parts within a tile: sums at positions that only the run knows would not stay in registers.
void ContractionFamily::unrollParts(Func sums, const std::vector<Dim> &outside) const {
  for (const Dim &dim : others)
    if (dim.fixed() && !has(outside, dim.name)) {
      Var part = KernelBuilder::var(dim.name);
      sums.unroll(part);
      sums.update().unroll(part);
    }
}

void ContractionFamily::schedule(Stage &target) {
  Func out = target.func;
  int vector = std::min(tile, b.target.vector);
  Var o = KernelBuilder::var(column->name), outer("co"), inner("ci"), task("task");
  std::vector<VarOrRVar> order = {inner};
  std::vector<VarOrRVar> around;
  out.split(o, outer, inner, tile, TailStrategy::GuardWithIf);
  LoopLevel level(out, outer);
  bool few = column->fixed() && *column->fixed() / tile < 4;
  Var blockOuter("rb"), blockInner("rt"), within("ri");
  if (row) {
    Var m = KernelBuilder::var(row->name), tiles("rows");
    out.split(m, tiles, within, rows, TailStrategy::GuardWithIf);
    out.split(tiles, blockOuter, blockInner, rowBlock, TailStrategy::GuardWithIf);
    order.push_back(within);
    order.push_back(blockInner);
    level = LoopLevel(out, blockInner);
  }
  std::vector<Dim> outside = aroundOf(target.dims);
  for (auto dim = outside.rbegin(); dim != outside.rend(); ++dim)
    around.push_back(KernelBuilder::var(dim->name));
  if (!row && !around.empty())
    level = LoopLevel(out, Var(around[0].name()));
  order.insert(order.end(), around.begin(), around.end());
  if (row)
    order.push_back(blockOuter);
  order.push_back(outer);
  out.reorder(order);
  Var parallel = outer;
  if (row) {
    out.fuse(blockOuter, outer, task);
    parallel = task;
  }
  if (few && row) // too few tasks along rows and columns alone
    for (const VarOrRVar &v : around) {
      Var next(parallel.name() + "_");
      out.fuse(v, parallel, next);
      parallel = next;
    }
  out.parallel(parallel);
  out.vectorize(inner, vector).unroll(inner);
  if (row)
    out.unroll(within);

  // Known extents keep the sums on the stack.
  sums.compute_at(level).bound_extent(lane, tile).bound_extent(Var("tile"), 1).vectorize(lane, vector).unroll(lane);
  std::vector<VarOrRVar> loops = {lane};
  if (row) {
    Var m = KernelBuilder::var(row->name);
    sums.bound_extent(m, rows).unroll(m);
    loops.push_back(m);
  }
  loops.insert(loops.end(), over.begin(), over.end());
  sums.update().reorder(loops).vectorize(lane, vector).unroll(lane);
  if (row)
    sums.update().unroll(KernelBuilder::var(row->name));
  if (unroll > 1)
    sums.update().unroll(over[0], unroll);
  unrollParts(sums, outside);
  target.scheduled = true;
}

void ContractionFamily::define() {
  chooseOperands();
  findPairs();
  chooseDims();
  prepareInput();
  // No columns: sums of products. Nor without rows, unless it is packed already: each number is read once, and a packed
  // copy of an operand would be as large as that.
  if (!column || (!row && !packed && !isGrouped())) {
    const Node &c = b.graph.nodes[node];
    Func total = b.reduceOver("dot", node, c.dims, reduced, Kind::Real, Reduction::Sum,
                              [&](const Index &index) { return b.real(x, index) * b.real(w, index); });
    return b.readFrom(node, total);
  }
  chooseTile(reduced.back().fixed().value_or(0));
  std::optional<int64_t> depth = reduced.back().fixed();
  while (unroll > 1 && !(depth && *depth % unroll == 0))
    unroll /= 2;
  if (isGrouped())
    return defineGrouped();
  if (isDense()) {
    chooseDepth();
    accumulateDense();
    makeDirect();
  } else {
    accumulate();
  }
  write();
}

/// How many rows and columns stay in registers.
void ContractionFamily::chooseTile(int64_t depth) {
  Schedule schedule = b.schedules.find("contract", {{"vector", b.target.vector},
                                                    {"registers", b.target.registers},
                                                    {"outer", column->fixed().value_or(0)},
                                                    {"inner", depth}});
  tile = packed ? static_cast<int>(b.graph.argumentLayouts[tableOf(w)].tile) : schedule["columns"];
  if (!packed)
    while (tile > b.target.vector && column->fixed() && tile / 2 >= *column->fixed())
      tile /= 2;
  // A narrower tile leaves registers for more rows.
  rows = std::min(schedule["rows"] * std::max(1, schedule["columns"] / std::max(tile, b.target.vector)), 12);
  if (row && row->fixed())
    rows = static_cast<int>(std::min<int64_t>(rows, *row->fixed()));
  rowBlock = schedule["row_block"];
  unroll = schedule["unroll"];
}

/// Loops of the result that takes the tiles; of the product alone where there is no such one.
void ContractionFamily::write() {
  readTiles();
  auto run = [self = *this](Stage &out) mutable {
    bool byExpert = self.b.graph.nodes[self.node].op == Op::ScatterAdd;
    byExpert ? self.scheduleByExpert(out) : self.isDense() ? self.scheduleDense(out) : self.schedule(out);
  };
  int result = fusedResult();
  if (result >= 0 && b.fusedInto(result, run))
    return;
  const Node &c = b.graph.nodes[node];
  Stage copy{b.newFunc("product", node), c.dims, {}, false, {}, false, node};
  copy.func(KernelBuilder::pureArgs(c.dims)) = b.values[node](KernelBuilder::varsOf(c.dims));
  copy.func.compute_root();
  run(copy);
  b.readFrom(node, copy.func);
  b.addStage(copy);
}

} // namespace quern::codegen
