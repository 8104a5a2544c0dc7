// Takes: a contraction of rows and columns that are both in codes. Gives: sums of products of integers for a tile of them.
//
//     strip = code + 2^(bits - 1)                              without a sign, as the products below take them: of int8 bytes lie so
//                                                              already; else made once for a block of rows
//     for each tile of rows, or each row by itself
//       for each group of 32
//         whole[rows x columns] = -2^(bits - 1) * (sum of the row's codes in the group) + products of integers
//         sums += whole * (the columns' scales * the row's scale)
//
// The products, by what the target has (byteProducts):
//   fours: whole += four products of bytes, strip[groups][8][columns][4]                                   vpdpbusd
//   pairs, int4: halves[columns][2] += two products of bytes, in 16 bits: 8 * 2 * 15 * 127 is below 2^15   vpmaddubsw
//                whole += halves in pairs                                                                  vpmaddwd by ones
//   pairs, int8: products of two bytes would saturate, so both sides are widened to 16 bits                vpmaddwd
//                a tile of rows: whole += two products, strip[groups][16][columns][2] in 16 bits
//                a row by itself: halves[columns][2] in 32 bits, as bytes lie; whole += halves in pairs
#include "codegen/halide/contraction/PackedContraction.h"

#include "support/CodedGroups.h"

using namespace Halide;

namespace quern::codegen {

static constexpr int inStep = 4, stepsOfGroup = static_cast<int>(support::codedGroup) / inStep, inPair = 2;
static const Var part("part"), step("step"), half("half"), ofStrip("group");

template <typename T, typename More> static std::vector<T> with(std::vector<T> first, const More &more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

/// Codes of columns: `part` of the `step` of a group that `index` says, of four in a step; of what is widened, of two.
Expr PackedContraction::integerColumns(bool shared, const Index &index, const Expr &at, const Expr &which) {
  const Node &weight = b.graph.nodes[tableOf(w)];
  const bool wide = byteProducts(b.target) == ByteProducts::Pairs && bits == 8;
  if (!shared || (bits == 8 && !wide))
    return unsignedCodeAt(columnsAt(lane, Var("tile"), index), ofStrip, at, which);
  auto [around, aroundCall] = besideStrip(index);
  CodedColumns own = columnsAt(lane, Var("tile"), KernelBuilder::varsOf(weight.dims));
  strip = b.newFunc("strip", node);
  strip(with(std::vector<Var>{part, lane, step, ofStrip}, around)) =
      wide ? cast<int16_t>(unsignedCodeAt(own, ofStrip, step / inPair, step % inPair * inPair + part))
           : unsignedCodeAt(own, ofStrip, step, part);
  return strip(with(std::vector<Expr>{which, lane, at, ofStrip}, aroundCall));
}

PackedContraction::Sums PackedContraction::integerSums(const std::string &name, const Expr &at) {
  b.integers = true;
  const CodedRows &rows = *b.codedRows(x);
  const Node &weight = b.graph.nodes[tableOf(w)];
  const std::string &depth = reduced[0].name, groupOfRow = depth + "_group";
  const bool shared = name == "sums"; // by all tiles of rows of a task
  const bool pairs = byteProducts(b.target) == ByteProducts::Pairs, wide = pairs && bits == 8;
  Index index = start(at);
  index[groupOfRow] = ofStrip;
  /// The row's code at a place of the group.
  auto codes = [&](const Expr &within) {
    index[depth] = ofStrip * static_cast<int>(support::codedGroup) + within;
    return (wide ? b.wideCodes(x) : rows.codes)(KernelBuilder::call(rows.dims, index));
  };

  Sums sums{b.newFunc(name, node), {}, b.newFunc("whole", node), {}, true};
  std::vector<Var> args = tileArgs(), whole = with(args, std::vector<Var>{ofStrip});
  index[depth] = ofStrip * static_cast<int>(support::codedGroup);
  sums.ofGroup(whole) = -(1 << (bits - 1)) * rows.sum(KernelBuilder::call(rows.groups, index));
  if (wide && shared) {
    RDom k(0, inPair, 0, 2 * stepsOfGroup);
    Expr columns = integerColumns(shared, index, k.y, k.x);
    sums.ofGroup(whole) += cast<int32_t>(widening_mul(columns, codes(k.y * inPair + k.x)));
    sums.overGroup = {k.x, k.y};
  } else if (pairs) {
    RDom k(0, inPair, 0, stepsOfGroup), q(0, 2);
    sums.halves = b.newFunc("halves", node);
    std::vector<Var> halves = with(std::vector<Var>{half}, whole);
    Expr columns = integerColumns(shared, index, k.y, half * inPair + k.x),
         row = codes(k.y * inStep + half * inPair + k.x);
    if (wide) {
      sums.halves(halves) = 0;
      sums.halves(halves) += cast<int32_t>(widening_mul(cast<int16_t>(columns), row));
    } else {
      sums.halves(halves) = cast<int16_t>(0);
      sums.halves(halves) = saturating_add(sums.halves(halves), widening_mul(columns, row));
    }
    sums.overHalves = {k.x, k.y};
    sums.ofGroup(whole) += cast<int32_t>(sums.halves(with(std::vector<Expr>{q}, whole)));
    sums.overGroup = {q};
  } else {
    RDom k(0, inStep, 0, stepsOfGroup);
    Expr columns = integerColumns(shared, index, k.y, k.x);
    sums.ofGroup(whole) += cast<int32_t>(widening_mul(columns, codes(k.y * inStep + k.x)));
    sums.overGroup = {k.x, k.y};
  }

  RDom g(Region{codedRegion()[2]});
  sums.over = {g.x};
  index[groupOfRow] = g.x;
  std::vector<Expr> call(args.begin(), args.end());
  call.emplace_back(g.x);
  auto scaleOf = [&](const Index &columns, const Expr &group) {
    return scaleAt(columnsAt(lane, Var("tile"), columns), {Expr(), Expr(), group});
  };
  Expr scale;
  if (shared) {
    auto [around, aroundCall] = besideStrip(index);
    stripScale = b.newFunc("strip_scale", node);
    stripScale(with(std::vector<Var>{lane, ofStrip}, around)) = scaleOf(KernelBuilder::varsOf(weight.dims), ofStrip);
    scale = stripScale(with(std::vector<Expr>{lane, g.x}, aroundCall));
  } else {
    scale = scaleOf(index, g.x);
  }
  sums.func(args) = 0.0f;
  sums.func(args) += cast<float>(sums.ofGroup(call)) * (scale * rows.scale(KernelBuilder::call(rows.groups, index)));
  return sums;
}

/// One group at a time, in registers; of pairs first all halves, then what they come to for each row.
void PackedContraction::scheduleIntegers(Sums &sums, int rowsAtOnce, int tilesAtOnce) {
  Var beside("tile"), m = row ? KernelBuilder::var(row->name) : Var();
  auto place = [&](Func &func, const LoopLevel &level, int atOnce) {
    func.compute_at(level).bound_extent(lane, tile).bound_extent(beside, tilesAtOnce);
    func.vectorize(lane, vectorOfTile()).unroll(lane).unroll(beside);
    if (row)
      func.bound_extent(m, atOnce).unroll(m);
  };
  /// `within`: what lies beside each other in a vector beside the lanes, inside of which an instruction sums over[0].
  auto update = [&](Func &func, const std::vector<RVar> &over, std::optional<Var> within) {
    std::vector<VarOrRVar> loops = {over[0]};
    if (within)
      loops.emplace_back(*within);
    loops.insert(loops.end(), {lane, beside});
    if (row)
      loops.emplace_back(m);
    loops.insert(loops.end(), over.begin() + 1, over.end());
    for (auto dim = others.rbegin(); dim != others.rend(); ++dim)
      loops.push_back(KernelBuilder::var(dim->name));
    loops.emplace_back(ofStrip);
    Halide::Stage stage = func.update();
    stage.reorder(loops).atomic(/*override_associativity_test=*/within.has_value()).vectorize(over[0]);
    if (within)
      stage.vectorize(*within);
    stage.vectorize(lane, vectorOfTile()).unroll(lane).unroll(beside);
    if (over.size() > 1)
      stage.unroll(over[1]);
    if (row)
      stage.unroll(m);
  };
  const LoopLevel ofGroup(sums.func, sums.over[0]);
  if (!sums.halves.defined()) {
    place(sums.ofGroup, ofGroup, rowsAtOnce);
    return update(sums.ofGroup, sums.overGroup, std::nullopt);
  }
  place(sums.ofGroup, row ? LoopLevel(sums.func, m) : ofGroup, 1);
  update(sums.ofGroup, sums.overGroup, std::nullopt);
  sums.halves.bound_extent(half, 2).vectorize(half);
  place(sums.halves, ofGroup, rowsAtOnce);
  update(sums.halves, sums.overHalves, half);
}

void PackedContraction::scheduleIntegerStrip(const LoopLevel &level) {
  if (strip.defined()) {
    const bool wide = strip.types()[0] == Int(16);
    strip.compute_at(level).bound_extent(part, wide ? inPair : inStep).bound_extent(lane, tile);
    strip.bound_extent(Var("tile"), 1).bound_extent(step, wide ? 2 * stepsOfGroup : stepsOfGroup).unroll(step);
    strip.vectorize(part).vectorize(lane, vectorOfTile()).unroll(lane);
  }
  stripScale.compute_at(level).bound_extent(lane, tile).bound_extent(Var("tile"), 1);
  stripScale.vectorize(lane, vectorOfTile()).unroll(lane);
}

} // namespace quern::codegen
