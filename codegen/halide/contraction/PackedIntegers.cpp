// Takes: a contraction of rows and columns that are both in codes. Gives: sums of products of integers for a tile of them.
//
//     strip = code + added                                     without a sign, as the products below take them (addedToCodes): of
//                                                              int8 bytes are already in this order; else made once for a block of rows
//     for each tile of rows, or each row by itself
//       for each run of codes: a group of the columns' or of the rows', whichever is shorter
//         whole[rows x columns] = -added * (sum of the row's codes in the run) + products of integers
//         sums += whole * (the columns' scales * the row's scale)
//                 - the columns' minimums * (sum of the row's codes * its scale)                 in super-blocks
//       where several runs share a row's scale, the same without it, and then these sums times the scale
//       a row by itself takes super-blocks one by one, whose units multiply sums of what their counts of these multiply
//
// The products, by what the target has (byteProducts):
//   fours: whole += four products of bytes, strip[runs][steps][columns][4]                                 vpdpbusd
//   pairs, of less than 8 bits or with paired rows:
//                for each part of the run whose sums 16 bits hold: halves[columns][2] += two products of bytes  vpmaddubsw
//                whole += halves in pairs                                                                  vpmaddwd by ones
//   pairs, others: products of two bytes would saturate, so both sides are widened to 16 bits              vpmaddwd
//                a tile of rows: whole += two products, strip[groups][16][columns][2] in 16 bits
//                a row by itself: halves[columns][2] in 32 bits, in the order of the bytes; whole += halves in pairs
#include "codegen/halide/contraction/PackedSums.h"

#include "support/CodedGroups.h"

using namespace Halide;

namespace quern::codegen {

static constexpr int inStep = 4, inPair = 2;
static const Var part("part"), step("step"), half("half"), piece("piece"), ofStrip("group");

template <typename T, typename More> static std::vector<T> with(std::vector<T> first, const More &more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

/// How many codes are summed before a scale multiplies them.
int PackedSums::codesOfRun() const {
  return std::min(support::groupOf(storage), b.codedRows(x)->group);
}

/// Whether 16 bits hold sums of two products in so many steps.
bool PackedSums::fitsHalves(int steps) const {
  return steps * ((1 << bits) - 1) * b.codedRows(x)->ofPair < 1 << 15;
}

bool PackedSums::widensCodes() const {
  return byteProducts(b.target) == ByteProducts::Pairs && !fitsHalves(1);
}

/// Steps of a run that halves sum: all where they have 32 bits, else as many as 16 hold.
int PackedSums::stepsOfHalves() const {
  int steps = codesOfRun() / inStep;
  while (!widensCodes() && !fitsHalves(steps))
    steps /= 2;
  return steps;
}

/// Codes of columns: `which` of the `at`-th step of a run that `index` says, of four in a step; of what is widened, of two.
Expr PackedSums::integerColumns(bool shared, const Index &index, const Expr &at, const Expr &which) {
  const int runs = support::groupOf(storage) / codesOfRun(), steps = codesOfRun() / inStep;
  auto codeOf = [&](const Index &columns, const Expr &four, const Expr &byte) {
    return unsignedCodeAt(columnsAt(lane, Var("tile"), columns), ofStrip / runs, ofStrip % runs * steps + four, byte);
  };
  if (!shared || (bits == 8 && !widensCodes()))
    return codeOf(index, at, which);
  const Beside beside = besideStrip(index);
  strip = b.newFunc("strip", node);
  strip(with(std::vector<Var>{part, lane, step, ofStrip}, beside.args)) =
      widensCodes() ? cast<int16_t>(codeOf(beside.columns, step / inPair, step % inPair * inPair + part))
                    : codeOf(beside.columns, step, part);
  return strip(with(std::vector<Expr>{which, lane, at, ofStrip}, beside.call));
}

/// What multiplies the whole sums of a run of columns, or its minimum; of a tile of rows, out of a strip.
Expr PackedSums::levelOfRun(Func &ofAll, const Index &index, const Expr &run, bool shared) {
  const bool minimum = &ofAll == &stripMinimum;
  auto level = [&](const Index &columns, const Expr &at) {
    CodePlace place{Expr(), Expr(), at / (support::groupOf(storage) / codesOfRun())};
    CodedColumns from = columnsAt(lane, Var("tile"), columns);
    return minimum ? minimumAt(from, place) : scaleAt(from, place);
  };
  if (!shared)
    return level(index, run);
  const Beside beside = besideStrip(index);
  ofAll = b.newFunc(minimum ? "strip_minimum" : "strip_scale", node);
  ofAll(with(std::vector<Var>{lane, ofStrip}, beside.args)) = level(beside.columns, ofStrip);
  return ofAll(with(std::vector<Expr>{lane, run}, beside.call));
}

/// What is kept of a row for each run, or for the group that the run is in.
Expr PackedSums::ofRow(const Func &func, Index index, const Expr &place) const {
  index[reduced[0].name + "_group"] = place;
  return func(KernelBuilder::call(b.codedRows(x)->groups, index));
}

PackedSums::Sums PackedSums::integerSums(const std::string &name, const Expr &at, Codes of) {
  b.integers = true;
  const CodedRows &rows = *b.codedRows(x);
  const std::string &depth = reduced[0].name;
  const bool shared = of == Codes::Copied;
  const bool pairs = byteProducts(b.target) == ByteProducts::Pairs, wide = widensCodes();
  const int run = codesOfRun(), steps = run / inStep, added = addedToCodes(storage);
  Index index = start(at);
  index[depth] = 0; // columns say where they are by their run
  /// The row's code at a place of the run.
  auto codes = [&](const Expr &within) {
    index[depth] = ofStrip * run + within;
    return (wide ? b.wideCodes(x) : rows.codes)(KernelBuilder::call(rows.dims, index));
  };

  Sums sums{b.newFunc(name, node), {}, b.newFunc("whole", node), {}, true};
  std::vector<Var> args = tileArgs(), whole = with(args, std::vector<Var>{ofStrip});
  sums.ofGroup(whole) = added ? ofRow(b.startsOfSums(x, run, added), index, ofStrip) : Expr(0);
  if (wide && shared) {
    RDom k(0, inPair, 0, run / inPair);
    Expr columns = integerColumns(shared, index, k.y, k.x);
    sums.ofGroup(whole) += cast<int32_t>(widening_mul(columns, codes(k.y * inPair + k.x)));
    sums.overGroup = {k.x, k.y};
  } else if (pairs) {
    const int together = stepsOfHalves();
    RDom k(0, inPair, 0, together), q(0, 2, 0, steps / together);
    sums.halves = b.newFunc("halves", node);
    std::vector<Var> halves = with(std::vector<Var>{half, piece}, whole);
    Expr four = piece * together + k.y, columns = integerColumns(shared, index, four, half * inPair + k.x),
         row = codes(four * inStep + half * inPair + k.x);
    if (wide) {
      sums.halves(halves) = 0;
      sums.halves(halves) += cast<int32_t>(widening_mul(cast<int16_t>(columns), row));
    } else {
      sums.halves(halves) = cast<int16_t>(0);
      sums.halves(halves) = saturating_add(sums.halves(halves), widening_mul(columns, row));
    }
    sums.overHalves = {k.x, k.y};
    sums.ofGroup(whole) += cast<int32_t>(sums.halves(with(std::vector<Expr>{q.x, q.y}, whole)));
    sums.overGroup = {q.x, q.y};
  } else {
    RDom k(0, inStep, 0, steps);
    Expr columns = integerColumns(shared, index, k.y, k.x);
    sums.ofGroup(whole) += cast<int32_t>(widening_mul(columns, codes(k.y * inStep + k.x)));
    sums.overGroup = {k.x, k.y};
  }

  const int runs = static_cast<int>((*reduced[0].fixed() + run - 1) / run);
  if (support::superBlocksOf(storage) && !shared) {
    sumsOfBlocks(sums, index, runs);
    return sums;
  }
  sumsOfLevels(sums, index, runs, shared);
  return sums;
}

/// A run at a time. Where several share a row's scale, it multiplies what the columns' scales make of these.
void PackedSums::sumsOfLevels(Sums &sums, const Index &index, int runs, bool shared) {
  const CodedRows &rows = *b.codedRows(x);
  const int run = codesOfRun(), together = rows.group / run;
  // Beyond the depth a super-block has codes of 0.
  const bool nested = together > 1 && (runs % together == 0 || support::blockOf(storage) % rows.group == 0);
  Var super("super");
  RDom r(0, together), g = steps({{0, nested ? (runs + together - 1) / together : runs}});
  const Expr at = nested ? Expr(super * together + r) : Expr(g.x);
  std::vector<Var> args = tileArgs();
  std::vector<Expr> call(args.begin(), args.end()), ofRun = with(call, std::vector<Expr>{at});
  auto begin = [](Func func, const auto &places) { // products are added one by one: each is a multiply-add
    func(places) = 0.0f;
    return func(places);
  };
  Expr sum, scale = levelOfRun(stripScale, index, at, shared);
  sums.over = {g.x};
  if (nested) {
    sums.scaled = b.newFunc("scaled", node);
    sums.overBlock = {r.x};
    sum = begin(sums.scaled, with(args, std::vector<Var>{super}));
  } else {
    scale *= ofRow(rows.scale, index, at / together);
    sum = begin(sums.func, args);
  }
  sum += cast<float>(sums.ofGroup(ofRun)) * scale;
  if (support::superBlocksOf(storage))
    sum -= levelOfRun(stripMinimum, index, at, shared) *
           ofRow(nested ? b.countsOfRows(x, run) : b.sharesOfRows(x, run), index, at);
  if (!nested) {
    sums.func(args) = sum;
    return;
  }
  sums.scaled(with(args, std::vector<Var>{super})) = sum;
  sums.func(args) = 0.0f;
  sums.func(args) += sums.scaled(with(call, std::vector<Expr>{g.x})) * ofRow(rows.scale, index, g.x);
}

/// A super-block at a time: its runs by their counts of units, then the units.
void PackedSums::sumsOfBlocks(Sums &sums, const Index &index, int runs) {
  const int run = codesOfRun(), inRows = b.codedRows(x)->group / run, inGroup = support::groupOf(storage) / run;
  const int length = support::blockOf(storage);
  const bool whole = *reduced[0].fixed() % length == 0;
  const int inBlock = whole ? length / run : 1;
  const CodedRows &rows = *b.codedRows(x);
  Var super("super");
  RDom r(0, inBlock), g = steps({{0, runs / inBlock}});
  CodedColumns columns = columnsAt(lane, Var("tile"), index);
  std::vector<Var> args = tileArgs(), ofBlock = with(args, std::vector<Var>{super});
  Expr at = super * inBlock + r;
  auto add = [&](Func &func, const char *name, bool minimum, const Func &ofRows, int perRun) {
    std::vector<Expr> call(args.begin(), args.end());
    call.push_back(at);
    Expr level = countAt(columns, at / inGroup, minimum) * ofRow(ofRows, index, at / perRun);
    func = b.newFunc(name, node);
    func(ofBlock) = 0.0f;
    func(ofBlock) += minimum ? level : cast<float>(sums.ofGroup(call)) * level;
  };
  add(sums.scaled, "scaled", false, rows.scale, inRows);
  add(sums.lowered, "lowered", true, b.sharesOfRows(x, run), 1);
  sums.over = {g.x};
  sums.overBlock = {r.x};
  std::vector<Expr> call(args.begin(), args.end());
  call.emplace_back(g.x);
  Expr group = g.x * inBlock / inGroup;
  sums.func(args) = 0.0f;
  sums.func(args) +=
      unitAt(columns, group, false) * sums.scaled(call) - unitAt(columns, group, true) * sums.lowered(call);
}

/// One run at a time, in registers; of pairs first all halves, then what they come to for each row.
void PackedSums::scheduleIntegers(Sums &sums, int rowsAtOnce, int tilesAtOnce) {
  Var beside("tile"), m = row ? KernelBuilder::var(row->name) : Var();
  auto place = [&](Func &func, const LoopLevel &level, int atOnce, int besideEachOther) {
    func.compute_at(level).bound_extent(lane, tile).bound_extent(beside, besideEachOther);
    func.vectorize(lane, vectorOfTile()).unroll(lane).unroll(beside);
    if (row)
      func.bound_extent(m, atOnce).unroll(m);
  };
  /// `within`: what is side by side in a vector beside the lanes, inside of which an instruction sums over[0].
  auto update = [&](Func &func, const std::vector<RVar> &over, int steps, std::optional<Var> within) {
    std::vector<VarOrRVar> loops = {over[0]};
    if (within)
      loops.emplace_back(*within);
    loops.insert(loops.end(), {lane, beside});
    if (row)
      loops.emplace_back(m);
    loops.insert(loops.end(), over.begin() + 1, over.end());
    for (auto dim = others.rbegin(); dim != others.rend(); ++dim)
      loops.push_back(KernelBuilder::var(dim->name));
    if (within)
      loops.emplace_back(piece);
    loops.emplace_back(ofStrip);
    Halide::Stage stage = func.update();
    stage.reorder(loops).atomic(/*override_associativity_test=*/within.has_value()).vectorize(over[0]);
    if (within)
      stage.vectorize(*within);
    stage.vectorize(lane, vectorOfTile()).unroll(lane).unroll(beside);
    // Of pairs in tiles of rows two steps at a time: LLVM adds up more of them for one row after the other, and then loads the
    // columns anew for each.
    const int most = rowsAtOnce > 1 && steps > 4 && byteProducts(b.target) == ByteProducts::Pairs ? 2
                     : codesOfRun() > support::codedGroup                                         ? 8
                                                                                                  : steps;
    if (steps > most)
      stage.unroll(over[1], most);
    else
      stage.unroll(over[1]);
    if (row)
      stage.unroll(m);
  };
  LoopLevel ofGroup(sums.func, sums.over[0]);
  if (sums.scaled.defined()) {
    for (Func *func : {&sums.scaled, &sums.lowered}) {
      if (!func->defined())
        continue;
      place(*func, ofGroup, rowsAtOnce, tilesAtOnce);
      std::vector<VarOrRVar> loops = {lane, beside};
      if (row)
        loops.emplace_back(m);
      loops.emplace_back(sums.overBlock[0]);
      for (auto dim = others.rbegin(); dim != others.rend(); ++dim)
        loops.push_back(KernelBuilder::var(dim->name));
      loops.emplace_back(Var("super"));
      Halide::Stage stage = func->update();
      stage.reorder(loops).vectorize(lane, vectorOfTile()).unroll(lane).unroll(beside);
      if (row)
        stage.unroll(m);
      const int length = support::blockOf(storage);
      if (*reduced[0].fixed() % length == 0 && func == &sums.lowered) // else a run at a time
        stage.unroll(sums.overBlock[0], std::min(8, length / codesOfRun()));
    }
    ofGroup = LoopLevel(sums.scaled, sums.overBlock[0]);
  }
  if (!sums.halves.defined()) {
    place(sums.ofGroup, ofGroup, rowsAtOnce, tilesAtOnce);
    return update(sums.ofGroup, sums.overGroup, codesOfRun() / (widensCodes() ? inPair : inStep), std::nullopt);
  }
  const int together = stepsOfHalves(), pieces = codesOfRun() / inStep / together;
  sums.halves.bound_extent(half, 2).vectorize(half).bound_extent(piece, 1);
  update(sums.halves, sums.overHalves, together, half);
  update(sums.ofGroup, sums.overGroup, pieces, std::nullopt);
  if (pieces > 1) { // a tile of a row after the other, whose halves need no place then
    place(sums.ofGroup, ofGroup, rowsAtOnce, tilesAtOnce);
    return place(sums.halves, LoopLevel(sums.ofGroup, beside), 1, 1);
  }
  place(sums.ofGroup, row ? LoopLevel(sums.scaled.defined() ? sums.scaled : sums.func, m) : ofGroup, 1, tilesAtOnce);
  place(sums.halves, ofGroup, rowsAtOnce, tilesAtOnce);
}

void PackedSums::scheduleIntegerStrip(const LoopLevel &level) {
  if (strip.defined()) {
    const int each = widensCodes() ? inPair : inStep;
    strip.compute_at(level).bound_extent(part, each).bound_extent(lane, tile);
    strip.bound_extent(Var("tile"), 1).bound_extent(step, codesOfRun() / each).unroll(step);
    strip.vectorize(part).vectorize(lane, vectorOfTile()).unroll(lane);
  }
  for (Func *levels : {&stripScale, &stripMinimum})
    if (levels->defined()) {
      levels->compute_at(level).bound_extent(lane, tile).bound_extent(Var("tile"), 1);
      levels->vectorize(lane, vectorOfTile()).unroll(lane);
    }
}

} // namespace quern::codegen
