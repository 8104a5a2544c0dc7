// Takes: a product's rows and columns. Gives: the sums of a tile of them in registers, of numbers or of columns in codes
// (PackedIntegers.cpp: of rows in codes, too), and what their loops look like within a tile.
#include "codegen/halide/contraction/PackedSums.h"

#include "codegen/halide/Math.h"
#include "support/CodedGroups.h"

using namespace Halide;

namespace quern::codegen {

PackedSums::PackedSums(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan,
                       std::optional<RoutedRows> routedRows)
    : Contraction(builder, std::move(pattern), plan), unroll(plan["unroll"]), routed(std::move(routedRows)) {
  if (routed)
    others.push_back(routed->block);
}

/// Where the other dimensions stand, and the row.
Index PackedSums::start(const Expr &at) const {
  Index index = KernelBuilder::varsOf(others);
  if (routed) {
    index[routed->among] = routed->expert(routed->chunk);
    routed->setRow(index);
  } else if (row) {
    index[row->name] = at;
  }
  return index;
}

RDom PackedSums::steps(const Region &region) const {
  RDom k(region);
  if (routed)
    k.where(routed->asked);
  return k;
}

PackedSums::Beside PackedSums::besideStrip(const Index &index) const {
  const Node &weight = b.graph.nodes[tableOf(w)];
  Beside beside{{}, {}, KernelBuilder::varsOf(weight.dims)};
  for (auto dim = weight.dims.rbegin(); dim != weight.dims.rend(); ++dim) {
    if (dim->name == column->name || dim->name == reduced[0].name)
      continue;
    const bool chosen = routed && dim->name == routed->among;
    Var own = chosen ? Var("chunk") : KernelBuilder::var(dim->name);
    beside.args.push_back(own);
    beside.call.push_back(chosen ? routed->chunk : index.at(dim->name));
    if (chosen)
      beside.columns[dim->name] = routed->expert(own);
  }
  beside.args.emplace_back("tile");
  beside.call.emplace_back(Var("tile"));
  return beside;
}

PackedSums::Columns PackedSums::storedColumns() const {
  return {[self = *this](const Index &index) { return self.loadWeight(self.w, self.lane, Var("tile"), index); },
          numbersInWord()};
}

PackedSums::Columns PackedSums::copiedColumns() {
  strip = b.newFunc("strip", node);
  Beside beside = besideStrip(KernelBuilder::varsOf(b.graph.nodes[tableOf(w)].dims));
  const Var depth = KernelBuilder::var(reduced[0].name);
  beside.args.insert(beside.args.begin(), {lane, depth});
  strip(beside.args) = loadWeight(packed ? w : tableOf(w), lane, Var("tile"), beside.columns);
  return {[self = *this](const Index &index) {
    std::vector<Expr> call = self.besideStrip(index).call;
    call.insert(call.begin(), {self.lane, index.at(self.reduced[0].name)});
    return Expr(self.strip(call));
  }};
}

/// The numbers of a word are a loop of their own, which is written out.
PackedSums::Sums PackedSums::sumsOf(const std::string &name, const Expr &at, const Columns &columns) {
  Sums sums{b.newFunc(name, node), {}, {}, {}};
  std::vector<Var> args = tileArgs();
  const int each = sums.inWord = columns.inWord;
  RDom k = steps(each > 1 ? Region{{0, each}, {0, b.extent(reduced[0].size) / each}} : reducedRegion());
  Index index = start(at);
  if (each > 1)
    index[reduced[0].name] = k[1] * each + k[0];
  else
    setReduced(index, k);
  for (int i = 0; i < k.dimensions(); ++i)
    sums.over.push_back(k[i]);
  sums.func(args) = 0.0f;
  sums.func(args) += b.real(x, index) * columns(index);
  return sums;
}

/// The sum of a row's numbers in a group: by halves, as a chain of additions would take as long as the group's products.
Expr PackedSums::rowSum(Sums &sums, const Expr &at, const Expr &ofGroup) {
  Var group("group"), number("number");
  std::vector<Var> args;
  if (row)
    args.push_back(KernelBuilder::var(row->name));
  for (const Dim &dim : others)
    if (b.graph.nodes[x].has(dim.name) || (routed && dim.name == routed->block.name))
      args.push_back(KernelBuilder::var(dim.name));
  std::vector<Expr> call(args.begin(), args.end());
  args.push_back(group);
  call.push_back(ofGroup);
  if (!sums.ofRow.defined()) {
    const int length = support::groupOf(storage);
    CodePlace place = codePlace(storage, number);
    place.group = group;
    Index index = start(at);
    setDepth(index, place);
    Func numbers = b.newFunc("numbers", node);
    std::vector<Var> ofNumbers = args;
    ofNumbers.insert(ofNumbers.begin(), number);
    numbers(ofNumbers) = withinDepth(b.real(x, index), place);
    numbers.bound(number, 0, length).vectorize(number, std::min(length, vectorOfTile())).unroll(number);
    sums.halvesOfRow = {numbers};
    sums.ofRow = b.newFunc("row_sum", node);
    sums.ofRow(args) = b.foldLanes(numbers, length, std::plus<Expr>(), sums.halvesOfRow);
  }
  return sums.ofRow(call);
}

/// For rows that are multiplied by themselves with columns in codes.
PackedSums::Sums PackedSums::codedSums(const std::string &name, const Expr &at, bool ofOneRow) {
  Sums sums{b.newFunc(name, node), {}, b.newFunc("group", node), {}};
  std::vector<Var> args = tileArgs(), ofGroup = args;
  Var group("group");
  ofGroup.push_back(group);
  const int inBlock = support::blockOf(storage) / support::groupOf(storage); // groups that share units of scales
  Region region = codedRegion();
  // Four codes whose high and low bits are put together at once are added at once: LLVM shares no words among statements before it
  // moves the masks of each into them.
  const support::SuperBlocks *form = support::superBlocksOf(storage);
  const int together = form && form->highBits() ? 4 : 1;
  RDom k(Region{{0, region[0].extent / together}, region[1]}),
      g = steps({{0, inBlock}, {0, region[2].extent / inBlock}});
  CodePlace place{k[0] * together, k[1], group};
  Index index = start(at);
  setDepth(index, place);
  const CodedColumns columns = columnsAt(lane, Var("tile"), index);
  // With several rows a code's shift counts less than a product more for each of them.
  const bool stands = ofOneRow && canStandInWords(columns);
  sums.overGroup = {k[0], k[1]};
  const int added = stands ? addedToStanding(storage) : 0;
  sums.ofGroup(ofGroup) = added ? rowSum(sums, at, group) * -float(added) : Expr(0.0f);
  Expr sum = sums.ofGroup(ofGroup);
  for (int code = 0; code < together; ++code) {
    place.code = k[0] * together + code;
    setDepth(index, place);
    Expr number = added ? withinDepth(b.real(x, index), place) : b.real(x, index); // what the row's sum has
    sum += stands ? math::mul(number, factorOfStanding(storage, place)) * standingCodeAt(columns, place)
                  : number * raisedCodeAt(columns, place);
  }
  sums.ofGroup(ofGroup) = sum;
  sums.over = {g[0], g[1]};
  std::vector<Expr> call(args.begin(), args.end());
  place.group = g[1] * inBlock + g[0];
  call.push_back(place.group);
  Expr product = sums.ofGroup(call) * (stands ? scaleAt(columns, place) : loweredScaleAt(columns, place));
  if (support::superBlocksOf(storage))
    product -= minimumAt(columns, place) * rowSum(sums, at, place.group);
  sums.func(args) = 0.0f;
  sums.func(args) += product;
  return sums;
}

void PackedSums::scheduleStrips(const LoopLevel &level) {
  if (stripScale.defined())
    return scheduleIntegerStrip(level);
  Var depth = KernelBuilder::var(reduced.back().name);
  strip.compute_at(level).bound_extent(lane, tile).bound_extent(Var("tile"), 1).vectorize(lane, vectorOfTile());
  if (!packed) { // lines of memory may run along the depth
    if (b.graph.nodes[tableOf(w)].dims.back().name == reduced.back().name)
      strip.reorder(depth, lane);
    return;
  }
  strip.unroll(lane).reorder(lane, depth);
  if (bits) // a last step's codes beyond the depth are there
    strip.unroll(depth, support::stepOf(storage), TailStrategy::RoundUp);
  else
    strip.unroll(depth, 4, TailStrategy::GuardWithIf);
}

void PackedSums::scheduleSum(Sums &sums, const LoopLevel &level, const std::vector<Dim> &outside, int rowsAtOnce,
                             int tilesAtOnce, int columns) {
  Var beside("tile");
  std::vector<VarOrRVar> loops = {lane, beside};
  const bool inner = sums.pairs || sums.inWord > 1;
  if (inner)
    loops.insert(loops.begin(), sums.over[0]);
  // Known extents keep the sums on the stack.
  sums.func.compute_at(level).bound_extent(lane, columns).bound_extent(beside, tilesAtOnce);
  sums.func.vectorize(lane, vectorOfTile()).unroll(lane).unroll(beside);
  if (row) {
    Var m = KernelBuilder::var(row->name);
    sums.func.bound_extent(m, rowsAtOnce).unroll(m);
    loops.push_back(m);
  }
  loops.insert(loops.end(), sums.over.begin() + inner, sums.over.end());
  for (auto dim = others.rbegin(); dim != others.rend(); ++dim) // outside: sums of one part at a time stay in registers
    loops.push_back(KernelBuilder::var(dim->name));
  sums.func.update().reorder(loops);
  if (sums.pairs)
    sums.func.update().atomic().vectorize(sums.over[0]);
  if (sums.inWord > 1)
    sums.func.update().unroll(sums.over[0]);
  sums.func.update().vectorize(lane, vectorOfTile()).unroll(lane).unroll(beside);
  if (row)
    sums.func.update().unroll(KernelBuilder::var(row->name));
  std::vector<Dim> around = outside;
  if (routed)
    around.push_back(routed->block);
  unrollParts(sums.func, around);
}

void PackedSums::scheduleSums(Sums &sums, const LoopLevel &level, const std::vector<Dim> &outside, int rowsAtOnce,
                              int tilesAtOnce) {
  scheduleSum(sums, level, outside, rowsAtOnce, tilesAtOnce, tile);
  if (sums.integers)
    return scheduleIntegers(sums, rowsAtOnce, tilesAtOnce);
  if (sums.ofGroup.defined())
    return scheduleGroup(sums, rowsAtOnce, tilesAtOnce);
  if (const int steps = unroll / sums.inWord; steps > 1)
    sums.func.update().unroll(sums.over.back(), steps);
}

/// One group at a time: its codes are taken apart in registers.
void PackedSums::scheduleGroup(Sums &sums, int rowsAtOnce, int tilesAtOnce) {
  Func group = sums.ofGroup;
  Var beside("tile");
  std::vector<VarOrRVar> loops = {lane, beside};
  group.compute_at(sums.func, sums.over[0]).bound_extent(lane, tile).bound_extent(beside, tilesAtOnce);
  group.vectorize(lane, vectorOfTile()).unroll(lane).unroll(beside);
  if (row) {
    Var m = KernelBuilder::var(row->name);
    group.bound_extent(m, rowsAtOnce).unroll(m);
    loops.push_back(m);
  }
  loops.insert(loops.end(), sums.overGroup.begin(), sums.overGroup.end());
  for (auto dim = others.rbegin(); dim != others.rend(); ++dim)
    loops.push_back(KernelBuilder::var(dim->name));
  loops.emplace_back(Var("group"));
  Halide::Stage update = group.update();
  update.reorder(loops).vectorize(lane, vectorOfTile()).unroll(lane).unroll(beside);
  // Of a single row that is added up as well, LLVM would choose another order for these additions.
  const bool last = rowsAtOnce > 1 || !sums.ofRow.defined();
  auto writeOut = [&](const VarOrRVar &loop) {
    if (last)
      b.unrollLast(group, {loop});
    else
      update.unroll(loop);
  };
  writeOut(sums.overGroup[0]);
  if (row)
    writeOut(KernelBuilder::var(row->name));
  if (!sums.ofRow.defined())
    return;
  if (support::superBlocksOf(storage))
    writeOut(sums.overGroup[1]); // where a code's high bits are is then known
  sums.ofRow.compute_at(sums.func, sums.over[0]);
  for (Func &half : sums.halvesOfRow)
    half.compute_at(sums.func, sums.over[0]);
}

} // namespace quern::codegen
