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
  Expr number = inPlace ? b.at(b.graph.nodes[x].operands[0], index) : copiedRow(at, rowPiece(terms, k.z), index);
  Sums sums{b.newFunc("sums", node), {k.x, k.y, k.z}, {}, {}};
  sums.pairs = sums.byTiles = true;
  sums.func(tileArgs()) = undef<float>();
  sums.func(tileArgs()) += tileProduct(number, columns, inPlace ? count - m : Expr(rows));
  return sums;
}

/// Rows in whole tiles, a kilobyte each; those behind the last are what the last one is.
Expr PackedContraction::copiedRow(const Expr &at, const Expr &which, const Index &index) {
  Var m = KernelBuilder::var(row->name);
  Index own = KernelBuilder::varsOf(b.graph.nodes[x].dims);
  own[row->name] = min(tileOfRows * tileRows + ofTile, b.extent(row->size) - 1);
  own[reduced[0].name] = step * depthOfTile + part;
  copied = b.newFunc("tiles", node);
  copied(copyArgs({part, ofTile, piece, step}, x, tileOfRows)) = pieceOf(b.real(x, own), piece);
  return copied(copyCall({at % depthOfTile, m % tileRows, which, at / depthOfTile}, x, m / tileRows, index));
}

void PackedContraction::scheduleCopiedRows() {
  copied.compute_root()
      .bound(part, 0, depthOfTile)
      .bound(ofTile, 0, tileRows)
      .bound(piece, 0, piecesOf(b.graph, x))
      .bound(step, 0, static_cast<int32_t>(*reduced[0].fixed() / depthOfTile))
      .bound(tileOfRows, 0, (b.extent(row->size) + (rows - 1)) / rows * amx)
      .reorder(part, piece, ofTile)
      .vectorize(part)
      .unroll(piece)
      .parallel(tileOfRows);
}

PackedContraction::Sums PackedContraction::tiledIntegers() {
  b.integers = true;
  const CodedRows &rows = *b.codedRows(x);
  const std::string &depth = reduced[0].name, groupOfRow = depth + "_group";
  const int run = support::groupOf(storage), inGroup = static_cast<int>(support::codedGroup);
  const int runs = static_cast<int>((*reduced[0].fixed() + inGroup - 1) / inGroup * (inGroup / run));
  const int perTile = tile / tileColumns;
  const bool lowered = support::superBlocksOf(storage);
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
  RDom k(0, inWord, 0, run / inWord), g(0, runs);
  Expr code = cast<int8_t>(unsignedCodeAt(from, ofStrip, step, part)) - cast<int8_t>(addedToCodes(storage));
  Expr column = ofStripAt(strip, "strip", {part, lane, step, ofStrip}, {k.x, ofPacked, k.y, ofStrip}, code);

  Index ofRow = index;
  ofRow[depth] = ofStrip * run + k.y * inWord + k.x;
  Sums sums{b.newFunc("sums", node), {g.x}, b.newFunc("whole", node), {k.x, k.y}, true};
  sums.byTiles = true;
  sums.runs = runs;
  std::vector<Var> args = tileArgs(), whole = args;
  whole.push_back(ofStrip);
  sums.ofGroup(whole) = undef<int32_t>();
  sums.ofGroup(whole) += tileProduct(rows.codes(KernelBuilder::call(rows.dims, ofRow)), column, count - m);

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
    return func(KernelBuilder::call(rows.groups, last));
  };
  CodePlace place{Expr(), Expr(), ofStrip};
  std::vector<Expr> call(args.begin(), args.end());
  call.emplace_back(g.x);
  Expr scale = ofStripAt(stripScale, "strip_scale", {lane, ofStrip}, {ofPacked, g.x}, scaleAt(from, place));
  Expr sum = cast<float>(sums.ofGroup(call)) * (scale * ofRows(besideRows(rows.scale), g.x / (inGroup / run)));
  if (lowered)
    sum -= ofStripAt(stripMinimum, "strip_minimum", {lane, ofStrip}, {ofPacked, g.x}, minimumAt(from, place)) *
           ofRows(besideRows(b.sharesOfRows(x, run)), g.x);
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
  b.tileSums.push_back({func, lane.name(), m.name(), over[0].name(), over[1].name(),
                        groups ? ofStrip.name() : std::string(), groups ? std::string() : over[2].name()});
}

} // namespace quern::codegen
