// Takes: a contraction of columns in bf16. Gives: sums of products by AMX's registers of 16 rows and 16 columns, as loops that
// TileProducts.cpp replaces. Columns in codes: CodedTiles.cpp.
//
//             copied[32][16 rows][pieces][depth / 32][rows / 16] = x   once, where rows are in f32: pieces of bf16 whose sum a
//                                                              number is (codegen/kernel/TileTerms.h)
//             for each tile of rows: sums[rows x columns] = products over the whole depth, of each piece
#include "codegen/halide/contraction/PackedContraction.h"

using namespace Halide;

namespace quern::codegen {

static constexpr int inPair = 2;
static const Var ofStrip("group"), part("part"), step("step"), ofTile("ofTile"), piece("piece"), tileOfRows("rowTile");

PackedContraction::Sums PackedContraction::tiledPairs() {
  Var m = KernelBuilder::var(row->name);
  Expr count = b.extent(row->size);
  const std::vector<TileTerm> terms = termsOf(piecesOf(b.graph, x), 1);
  RDom k(0, inPair, 0, static_cast<int32_t>(*reduced[0].fixed() / inPair), 0, static_cast<int32_t>(terms.size()));
  Index index = start(tileRow(m, count));
  Expr columns = halfOfPair(index, k.x, k.y), at = k.y * inPair + k.x;
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

/// Rows in whole tiles, `run` numbers of the depth each, of whole parts; what is behind the last, row or number, is what that is.
Expr PackedContraction::copiedRow(const Expr &at, const Expr &ofRun, int run, const Expr &which, const Index &index) {
  Var m = KernelBuilder::var(row->name);
  const int depth = static_cast<int>(*reduced[0].fixed()), ofPart = std::min(partDepth, depth),
            length = (depth + ofPart - 1) / ofPart * ofPart;
  Index own = KernelBuilder::varsOf(b.graph.nodes[x].dims);
  own[row->name] = min(tileOfRows * tileRows + ofTile, b.extent(row->size) - 1);
  Expr position = step * run + part;
  own[reduced[0].name] = depth % run || length > depth ? min(position, depth - 1) : position;
  copied = b.newFunc("tiles", node);
  copied(copyArgs({part, ofTile, piece, step}, x, tileOfRows)) = pieceOf(b.real(x, own), piece);
  copied.bound(part, 0, run).bound(step, 0, (length + run - 1) / run).vectorize(part, std::min(run, depthOfTile));
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

/// Some groups at a time: what the tile registers store can't be loaded at once, and a core goes on with the next group's
/// products meanwhile.
void PackedContraction::scheduleTiledGroups(Sums &sums) {
  const int some = groupsAtOnce(sums.runs);
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
  if (sums.pairs || sums.integers) // numbers, of which a word has several
    tiles.within = over[0].name(), tiles.step = over[1].name();
  if (!sums.integers)
    tiles.term = over.back().name();
  if (groups)
    tiles.group = ofStrip.name();
  b.tileSums.push_back(std::move(tiles));
}

} // namespace quern::codegen
