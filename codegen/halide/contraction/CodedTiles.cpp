// Takes: a contraction of columns in codes. Gives: sums of products by AMX's registers, a group of codes at a time, as loops
// that TileProducts.cpp replaces.
//
//   rows in codes      strip[4][16][steps][groups][slices] = code   with a sign, in bytes, whatever they are stored in
//   rows in f32, bf16  copied[run][16 rows][pieces][runs][rows / 16] = x    once: pieces of bf16 whose sum a number is
//                      strip[16][words][groups][slices] = code      bf16 has all numbers that codes are: two in a word
//   for each part of the depth, tile of rows, 16 columns: rows, a strip's part and the sums between them stay in the first cache
//     for each group of codes
//       whole[rows x 16] = products                     out of the tile registers into the first cache
//       sums += whole * (the columns' scales * the row's scale, of codes) - the columns' minimums * the row's sum    in registers
//     totals += sums
#include "codegen/halide/contraction/PackedContraction.h"

#include "support/CodedGroups.h"

using namespace Halide;

namespace quern::codegen {

static constexpr int inWord = 4, inPair = 2;
static const Var ofStrip("group"), part("part"), step("step");

/// A row's sums over runs of the depth, which columns' minimums multiply, beside those of its neighbours: [rows][runs].
Expr PackedContraction::sumOfRow(int run, const Expr &at, Index index) {
  const int depth = static_cast<int>(*reduced[0].fixed());
  Var m = KernelBuilder::var(row->name);
  std::vector<Var> args = {m, step};
  std::vector<Expr> call = {index.at(row->name), at};
  for (const Dim &dim : besideDepth(x)) {
    args.push_back(KernelBuilder::var(dim.name));
    call.push_back(index.at(dim.name));
  }
  Index own = KernelBuilder::varsOf(b.graph.nodes[x].dims);
  RDom k(0, run);
  Expr position = step * run + k;
  own[reduced[0].name] = depth % run ? min(position, depth - 1) : position;
  Expr number = b.real(x, own);
  rowSums = b.newFunc("row_sums", node);
  rowSums(args) = 0.0f;
  rowSums(args) += depth % run ? select(position < depth, number, 0.0f) : number;
  rowSums.compute_root().bound(step, 0, (depth + run - 1) / run).parallel(args.back());
  rowSums.update().reorder(k.x, m).atomic().vectorize(k.x, std::min(run, b.target.vector)).parallel(args.back());
  return rowSums(call);
}

/// A column's codes of a run as AMX takes them: bytes with a sign, or words of two numbers of bf16, which has all of them.
Expr PackedContraction::codesOfColumns(const CodedColumns &from) const {
  if (b.multipliesIntegers(*this))
    return signedCodeOfRun(from, ofStrip, step, part);
  const int perGroup = support::groupOf(storage) / runOfTiles();
  auto bits = [&](int which) {
    CodePlace place = codePlace(storage, ofStrip % perGroup * runOfTiles() + step * inPair + which);
    place.group = ofStrip / perGroup;
    return reinterpret<uint32_t>(codeAt(from, place));
  };
  return bits(0) >> cast<uint32_t>(16) | bits(1);
}

/// What is made of a packed tile of columns, once for a task, in slices of 16 columns, at a tile of sums.
Expr PackedContraction::ofSlices(Func &func, const char *name, std::vector<Var> args, std::vector<Expr> call,
                                 const Expr &value) const {
  const int slices = tile / tileColumns;
  const Var columnTile("tile");
  Index index = start(KernelBuilder::var(row->name));
  Beside beside = besideStrip(index);
  beside.call.back() = columnTile / slices;
  args.push_back(slice), call.push_back(columnTile % slices);
  args.insert(args.end(), beside.args.begin(), beside.args.end());
  call.insert(call.end(), beside.call.begin(), beside.call.end());
  func = b.newFunc(name, node);
  func(args) = value;
  return func(call);
}

/// The products of a run, `ofStrip`, of whole sums.
void PackedContraction::multiplyRuns(Sums &sums, const std::vector<Var> &whole, const CodedColumns &from) {
  const int run = runOfTiles();
  Var m = KernelBuilder::var(row->name);
  Expr count = b.extent(row->size), codes = codesOfColumns(from);
  Index index = start(tileRow(m, count));
  index[reduced[0].name] = 0; // columns say where they are by their run
  if (sums.integers) {
    RDom k(0, inWord, 0, run / inWord);
    sums.overGroup = {k.x, k.y};
    Expr column = ofSlices(strip, "strip", {part, lane, step, ofStrip}, {k.x, lane, k.y, ofStrip}, codes);
    index[reduced[0].name] = ofStrip * run + k.y * inWord + k.x;
    const CodedRows &coded = *b.codedRows(x);
    sums.ofGroup(whole) = undef<int32_t>();
    sums.ofGroup(whole) += tileProduct(coded.codes(KernelBuilder::call(coded.dims, index)), column, count - m);
    return;
  }
  const std::vector<TileTerm> terms = termsOf(piecesOf(b.graph, x), 1);
  RDom k(0, run / inPair, 0, static_cast<int32_t>(terms.size()));
  sums.overGroup = {k.x, k.y};
  Expr column = ofSlices(strip, "strip", {lane, step, ofStrip}, {lane, k.x, ofStrip}, codes);
  sums.ofGroup(whole) = undef<float>();
  sums.ofGroup(whole) +=
      tileProduct(copiedRow(k.x * inPair, ofStrip, run, rowPiece(terms, k.y), index), column, Expr(rows));
}

PackedContraction::Sums PackedContraction::tiledCodes() {
  const bool integers = b.multipliesIntegers(*this), lowered = support::superBlocksOf(storage);
  b.integers |= integers;
  const int run = runOfTiles();
  const int length = static_cast<int>(*reduced[0].fixed()), perGroup = support::groupOf(storage) / run;
  const int runs = (length + run - 1) / run;
  const bool inParts = partDepth < length;
  Var m = KernelBuilder::var(row->name), ofDepth("depth");
  Sums sums{b.newFunc("sums", node), {}, b.newFunc("whole", node), {}, integers};
  sums.byTiles = true;
  sums.runs = inParts ? partDepth / run : runs;
  RDom g(0, sums.runs);
  sums.over = {g.x};
  Expr at = inParts ? Expr(ofDepth * sums.runs + g.x) : Expr(g.x);

  const std::vector<Var> all = tileArgs();
  std::vector<Var> args = all;
  if (inParts)
    args.push_back(ofDepth);
  std::vector<Var> whole = args;
  whole.push_back(ofStrip);
  CodedColumns from =
      columnsAt(slice * tileColumns + lane, Var("tile"), KernelBuilder::varsOf(b.graph.nodes[tableOf(w)].dims));
  multiplyRuns(sums, whole, from);

  // Rows beyond the last are summed and not stored: with the scale of the last, so that nothing is read behind it. What a
  // row has stands beside that of its neighbours: then all rows of a tile have one address.
  const Index last = start(min(likely(m), b.extent(row->size) - 1));
  auto ofRows = [&](Func func, const Expr &place) {
    std::vector<Var> order = {m};
    for (const Var &arg : func.args())
      if (arg.name() != m.name())
        order.push_back(arg);
    func.reorder_storage(order);
    return ofRow(func, last, place);
  };
  CodePlace place{Expr(), Expr(), ofStrip / perGroup};
  std::vector<Expr> call(args.begin(), args.end());
  call.emplace_back(at);
  Expr scale = ofSlices(stripScale, "strip_scale", {lane, ofStrip}, {lane, at}, scaleAt(from, place));
  if (integers)
    scale *= ofRows(b.codedRows(x)->scale, at / (b.codedRows(x)->group / run));
  Expr sum = cast<float>(sums.ofGroup(call)) * scale;
  if (lowered)
    sum -= ofSlices(stripMinimum, "strip_minimum", {lane, ofStrip}, {lane, at}, minimumAt(from, place)) *
           (integers ? ofRows(b.sharesOfRows(x, run), at) : sumOfRow(run, at, last));
  sums.func(args) = 0.0f;
  sums.func(args) += sum;
  if (inParts)
    addParts(sums.func, all, length / partDepth);
  return sums;
}

/// All columns of a strip within a tile of rows: what is read of these is in the first cache from then on.
LoopLevel PackedContraction::scheduleTiledTotals(const LoopLevel &level) {
  Var rowTiles("rt"), within("ri"), beside("tile");
  totals.compute_at(level).bound_extent(lane, tileColumns).bound_extent(beside, tile / tileColumns).vectorize(lane);
  std::vector<VarOrRVar> order = {lane, within, beside, rowTiles};
  for (const Dim &dim : others)
    order.push_back(KernelBuilder::var(dim.name));
  order.emplace_back(parts.x);
  totals.update().split(KernelBuilder::var(row->name), rowTiles, within, rows, TailStrategy::GuardWithIf);
  totals.update().reorder(order).vectorize(lane).unroll(within);
  return {totals, beside};
}

void PackedContraction::scheduleTiledStrip(const LoopLevel &level) {
  strip.compute_at(level).bound_extent(lane, tileColumns).bound_extent(slice, tile / tileColumns);
  strip.bound_extent(Var("tile"), 1);
  strip.bound_extent(step, runOfTiles() / (tiles.integers ? inWord : inPair));
  strip.reorder(lane, step, slice, ofStrip).unroll(step);
  if (tiles.integers)
    strip.bound_extent(part, inWord).reorder(part, lane).vectorize(part);
  strip.vectorize(lane);
  for (Func *levels : {&stripScale, &stripMinimum})
    if (levels->defined())
      levels->compute_at(level)
          .bound_extent(lane, tileColumns)
          .bound_extent(slice, tile / tileColumns)
          .bound_extent(Var("tile"), 1)
          .vectorize(lane);
}

} // namespace quern::codegen
