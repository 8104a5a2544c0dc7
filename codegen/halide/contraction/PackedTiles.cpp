// Takes: a contraction of columns in bf16, or of rows and columns in codes. Gives: sums of their products by AMX's registers
// of 16 rows and 16 columns, as loops that TileProducts.cpp replaces.
//
//   pairs     copied[32][16 rows][pieces][depth / 32][rows / 16] = x   once, where rows are in f32: pieces of bf16 whose sum a
//                                                              number is (codegen/kernel/TileTerms.h)
//             strip[depth / 2][columns][2] = w                   once for a block of rows, as PackedPairs.cpp has it
//             for each tile of rows: sums[rows x columns] = products over the whole depth, of each piece
//   codes     strip[groups][steps][columns][4] = code            with a sign, in bytes, whatever they are stored in
//             for each tile of rows, for each 16 columns, for each group of codes
//               whole[rows x 16] = products of integers          out of the tile registers into the first cache
//               sums += whole * (the columns' scales * the row's scale) - ...      in registers, as PackedIntegers.cpp has it
#include "codegen/halide/contraction/PackedContraction.h"

#include "support/CodedGroups.h"

using namespace Halide;

namespace quern::codegen {

static constexpr int inWord = 4, inPair = 2;
static const Var ofStrip("group"), part("part"), step("step"), ofTile("ofTile"), piece("piece"), tileOfRows("rowTile");

PackedContraction::Sums PackedContraction::tiledPairs() {
  Var m = KernelBuilder::var(row->name);
  Expr count = b.extent(row->size);
  const std::vector<TileTerm> terms = termsOf(piecesOf(b.graph, x), 1);
  RDom k(0, inPair, 0, static_cast<int32_t>(*reduced[0].fixed() / inPair), 0, static_cast<int32_t>(terms.size()));
  Index index = start(tileRow(m, count));
  Expr columns = pairsOfStrip(index, k.x, k.y), at = k.y * inPair + k.x;
  index[reduced[0].name] = at;
  const bool inPlace = hasPairsAlone(b.graph, *this);
  Expr number = inPlace ? b.at(b.graph.nodes[x].operands[0], index)
                        : copiedRow(at % depthOfTile, at / depthOfTile, depthOfTile, rowPiece(terms, k.z), index);
  Sums sums{b.newFunc("sums", node), {k.x, k.y, k.z}, {}, {}};
  sums.pairs = sums.byTiles = true;
  sums.func(tileArgs()) = undef<float>();
  sums.func(tileArgs()) += tileProduct(number, columns, inPlace ? count - m : Expr(rows));
  return sums;
}

/// Rows in whole tiles, `run` numbers of the depth each; those behind the last are what the last one is.
Expr PackedContraction::copiedRow(const Expr &at, const Expr &ofRun, int run, const Expr &which, const Index &index) {
  Var m = KernelBuilder::var(row->name);
  const int depth = static_cast<int>(*reduced[0].fixed());
  Index own = KernelBuilder::varsOf(b.graph.nodes[x].dims);
  own[row->name] = min(tileOfRows * tileRows + ofTile, b.extent(row->size) - 1);
  Expr position = step * run + part;
  own[reduced[0].name] = depth % run ? min(position, depth - 1) : position;
  copied = b.newFunc("tiles", node);
  copied(copyArgs({part, ofTile, piece, step}, x, tileOfRows)) = pieceOf(b.real(x, own), piece);
  copied.bound(part, 0, run).bound(step, 0, (depth + run - 1) / run).vectorize(part);
  return copied(copyCall({at, m % tileRows, which, ofRun}, x, m / tileRows, index));
}

void PackedContraction::scheduleCopiedRows() {
  copied.compute_root()
      .bound(ofTile, 0, tileRows)
      .bound(piece, 0, piecesOf(b.graph, x))
      .bound(tileOfRows, 0, (b.extent(row->size) + (rows - 1)) / rows * amx)
      .reorder(part, piece, ofTile)
      .unroll(piece)
      .parallel(tileOfRows);
}

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
    return cast<int8_t>(unsignedCodeAt(from, ofStrip, step, part)) - cast<int8_t>(addedToCodes(storage));
  const int perGroup = support::groupOf(storage) / runOfTiles();
  auto bits = [&](int which) {
    CodePlace place = codePlace(storage, ofStrip % perGroup * runOfTiles() + step * inPair + which);
    place.group = ofStrip / perGroup;
    return reinterpret<uint32_t>(codeAt(from, place));
  };
  return bits(0) >> cast<uint32_t>(16) | bits(1);
}

int PackedContraction::runOfTiles() const {
  return std::min(support::groupOf(storage), depthOfTile);
}

PackedContraction::Sums PackedContraction::tiledCodes() {
  const bool integers = b.multipliesIntegers(*this);
  b.integers |= integers;
  const CodedRows *coded = integers ? b.codedRows(x) : nullptr;
  const std::string &depth = reduced[0].name, groupOfRow = depth + "_group";
  const int run = runOfTiles(), inGroup = static_cast<int>(support::codedGroup);
  const int length = static_cast<int>(*reduced[0].fixed()), perGroup = support::groupOf(storage) / run;
  const int runs = integers ? (length + inGroup - 1) / inGroup * (inGroup / run) : (length + run - 1) / run;
  const int perTile = tile / tileColumns;
  const bool lowered = support::superBlocksOf(storage);
  const std::vector<TileTerm> terms = integers ? termsOf(1, 1) : termsOf(piecesOf(b.graph, x), 1);
  Var m = KernelBuilder::var(row->name), columnTile("tile");
  Expr count = b.extent(row->size);
  Index index = start(tileRow(m, count));
  index[depth] = 0; // columns say where they are by their run

  // Strips are those of whole packed tiles; sums know tiles of 16 columns.
  Index own = KernelBuilder::varsOf(b.graph.nodes[tableOf(w)].dims);
  auto [around, aroundCall] = besideStrip(index);
  aroundCall.back() = columnTile / perTile;
  Expr ofPacked = columnTile % perTile * tileColumns + lane;
  auto ofStripAt = [&](Func &func, const char *name, std::vector<Var> args, std::vector<Expr> call, const Expr &value) {
    args.insert(args.end(), around.begin(), around.end());
    call.insert(call.end(), aroundCall.begin(), aroundCall.end());
    func = b.newFunc(name, node);
    func(args) = value;
    return Expr(func(call));
  };
  CodedColumns from = columnsAt(lane, Var("tile"), own);
  RDom g(0, runs);
  Sums sums{b.newFunc("sums", node), {g.x}, b.newFunc("whole", node), {}, integers};
  sums.byTiles = true;
  sums.runs = runs;
  std::vector<Var> args = tileArgs(), whole = args;
  whole.push_back(ofStrip);
  Expr codes = codesOfColumns(from);
  if (integers) {
    RDom k(0, inWord, 0, run / inWord);
    sums.overGroup = {k.x, k.y};
    Expr column = ofStripAt(strip, "strip", {part, lane, step, ofStrip}, {k.x, ofPacked, k.y, ofStrip}, codes);
    Index ofRow = index;
    ofRow[depth] = ofStrip * run + k.y * inWord + k.x;
    sums.ofGroup(whole) = undef<int32_t>();
    sums.ofGroup(whole) += tileProduct(coded->codes(KernelBuilder::call(coded->dims, ofRow)), column, count - m);
  } else {
    RDom k(0, run / inPair, 0, static_cast<int32_t>(terms.size()));
    sums.overGroup = {k.x, k.y};
    Expr column = ofStripAt(strip, "strip", {lane, step, ofStrip}, {ofPacked, k.x, ofStrip}, codes);
    sums.ofGroup(whole) = undef<float>();
    sums.ofGroup(whole) +=
        tileProduct(copiedRow(k.x * inPair, ofStrip, run, rowPiece(terms, k.y), index), column, Expr(rows));
  }

  // A row's scales stand beside those of its neighbours: then all rows of a tile have one address.
  auto besideRows = [&](Func func) {
    std::vector<Var> order = {m};
    for (const Var &arg : func.args())
      if (arg.name() != m.name())
        order.push_back(arg);
    func.reorder_storage(order);
    return func;
  };

  // Rows beyond the last are summed and not stored: with the scale of the last, so that nothing is read behind it.
  Index last = start(min(likely(m), count - 1));
  auto ofRows = [&](const Func &func, const Expr &place) {
    last[groupOfRow] = place;
    return func(KernelBuilder::call(coded->groups, last));
  };
  CodePlace place{Expr(), Expr(), ofStrip / perGroup};
  std::vector<Expr> call(args.begin(), args.end());
  call.emplace_back(g.x);
  Expr scale = ofStripAt(stripScale, "strip_scale", {lane, ofStrip}, {ofPacked, g.x}, scaleAt(from, place));
  if (integers)
    scale *= ofRows(besideRows(coded->scale), g.x / (inGroup / run));
  Expr sum = cast<float>(sums.ofGroup(call)) * scale;
  if (lowered)
    sum -= ofStripAt(stripMinimum, "strip_minimum", {lane, ofStrip}, {ofPacked, g.x}, minimumAt(from, place)) *
           (integers ? ofRows(besideRows(b.sharesOfRows(x, run)), g.x) : sumOfRow(run, g.x, last));
  sums.func(args) = 0.0f;
  sums.func(args) += sum;
  return sums;
}

/// Some groups at a time: what the tile registers store can't be loaded at once, and a core goes on with the next group's
/// products meanwhile.
void PackedContraction::scheduleTiledGroups(Sums &sums) {
  int some = 4;
  while (sums.runs % some)
    some /= 2;
  RVar outer("go"), inner("gi");
  sums.func.update().split(sums.over[0], outer, inner, some).unroll(inner);
  scheduleTiled(sums, LoopLevel(sums.func, outer));
  sums.ofGroup.bound_extent(ofStrip, some);
}

/// Plain loops, in memory of known size.
void PackedContraction::scheduleTiled(const Sums &sums, const LoopLevel &level) {
  const bool groups = sums.ofGroup.defined();
  Func func = groups ? sums.ofGroup : sums.func;
  const std::vector<RVar> &over = groups ? sums.overGroup : sums.over;
  Var m = KernelBuilder::var(row->name), beside("tile");
  func.compute_at(level).bound_extent(lane, manyColumns()).bound_extent(beside, 1).bound_extent(m, rows);
  std::vector<VarOrRVar> loops(over.begin(), over.end());
  loops.insert(loops.end(), {lane, m});
  if (groups)
    loops.emplace_back(ofStrip);
  loops.emplace_back(beside);
  for (auto dim = others.rbegin(); dim != others.rend(); ++dim)
    loops.push_back(KernelBuilder::var(dim->name));
  func.update().reorder(loops);
  TileSums tiles{func, lane.name(), m.name(), "", over[0].name()};
  if (!groups || sums.integers) // numbers, of which a word has several
    tiles.within = over[0].name(), tiles.step = over[1].name();
  if (!sums.integers)
    tiles.term = over.back().name();
  if (groups)
    tiles.group = ofStrip.name();
  b.tileSums.push_back(std::move(tiles));
}

} // namespace quern::codegen
