// Takes: a product of values as they are stored, all of bf16. Gives: its sums by AMX's registers of 16 rows and 16 columns, as
// loops that TileProducts.cpp replaces.
//
//   tiles[32 of the depth][16 rows][depth / 32][rows / 16] = x      once: a kilobyte each, which lies together; behind the depth 0.
//                                                                 Where rows lie along a depth of whole steps, x as it is
//   strip[2][columns][depth / 2] = w                              for a block of rows, as DenseContraction.cpp has it
//   for each tile of rows: sums[rows x columns] = products over the whole depth, or a part of it
#include "codegen/halide/contraction/DenseContraction.h"

#include <algorithm>

using namespace Halide;

namespace quern::codegen {

static const Var ofStep("ofStep"), ofTile("ofTile"), stepVar("step"), tileVar("group");

/// Whether tiles can be loaded from where x is stored.
bool DenseContraction::liesInTiles() const {
  const Node &input = b.graph.nodes[x];
  const Dim &depth = reduced.back();
  if (input.op != Op::Widen || input.dims.back().name != depth.name || !wholeParts ||
      *depth.fixed() % numbersOfTile != 0)
    return false;
  const int stored = input.operands[0];
  return b.graph.nodes[stored].op == Op::Argument && b.graph.nodes[stored].storage == Storage::BF16 &&
         b.graph.argumentLayouts[stored].strides.back() == 1;
}

void DenseContraction::copyTiles() {
  const Node &input = b.graph.nodes[x];
  std::vector<Var> args = {ofStep, ofTile, stepVar};
  for (auto dim = input.dims.rbegin(); dim != input.dims.rend(); ++dim)
    if (dim->name != row->name && dim->name != reduced.back().name)
      args.push_back(KernelBuilder::var(dim->name));
  args.push_back(tileVar);
  Index index = KernelBuilder::varsOf(input.dims);
  index[row->name] = min(tileVar * tileRows + ofTile, b.extent(row->size) - 1);
  groups = b.newFunc("tiles", node);
  groups(args) = bf16At(x, index, stepVar * numbersOfTile + ofStep);
}

/// `step`: of pairs along the depth.
Expr DenseContraction::tiledRowsAt(const Products &out, const Expr &step, Index index) const {
  const Node &input = b.graph.nodes[x];
  Var m = KernelBuilder::var(row->name);
  constexpr int inPair = 2, pairsOfTile = numbersOfTile / inPair;
  if (!groups.defined()) {
    index[row->name] = tileRow(m, b.extent(row->size));
    index[reduced.back().name] = step * inPair + out.pair;
    return asBF16(b.real(x, index));
  }
  std::vector<Expr> call = {step % pairsOfTile * inPair + out.pair, m % tileRows, step / pairsOfTile};
  for (auto dim = input.dims.rbegin(); dim != input.dims.rend(); ++dim)
    if (dim->name != row->name && dim->name != reduced.back().name)
      call.push_back(index.at(dim->name));
  call.push_back(m / tileRows);
  return groups(call);
}

void DenseContraction::scheduleCopiedTiles() {
  Expr depth = b.extent(reduced.back().size);
  Expr ofParts = (depth + (partDepth - 1)) / partDepth * (partDepth / numbersOfTile),
       steps = (depth + (numbersOfTile - 1)) / numbersOfTile;
  if (totals.defined())
    steps = shallow.defined() ? select(shallow, steps, ofParts) : ofParts;
  groups.compute_root()
      .bound(ofStep, 0, numbersOfTile)
      .bound(ofTile, 0, tileRows)
      .bound(stepVar, 0, steps)
      .bound(tileVar, 0, tilesOfRows() * amx);
  groups.vectorize(ofStep).parallel(tileVar);
}

/// Plain loops, in memory of known size.
void DenseContraction::scheduleTiledProducts(Products &out, const LoopLevel &tiles) {
  Var m = KernelBuilder::var(row->name), beside("tile");
  out.sums.compute_at(tiles).bound_extent(lane, tile).bound_extent(m, rows).bound_extent(beside, 1);
  out.sums.update().reorder({out.pair, out.over, lane, m});
  b.tileSums.push_back({out.sums, lane.name(), m.name(), out.pair.name(), out.over.name()});
}

} // namespace quern::codegen
