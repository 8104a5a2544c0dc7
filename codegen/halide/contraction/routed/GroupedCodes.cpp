// Takes: a product whose weight is chosen for each row, rows and weights in codes. Gives: its sums by AMX's registers, as
// CodedTiles.cpp has them: integers of a group out of the tile registers, then scales in vectors.
//
//   sorted[depth][slots] = code of a row, scales[slots][groups]       once, in the order of slots
//   strip[groups][steps][columns][4] = code of the expert of a chunk    with a sign, for all its blocks
//   for each block of slots, for each 16 columns, for each group of codes
//     whole[rows x 16] = products of integers;  sums += whole * (the columns' scales * the rows' scales) - ...
#include "codegen/halide/contraction/routed/GroupedTiles.h"

#include "support/CodedGroups.h"

using namespace Halide;

namespace quern::codegen {

static constexpr int inWord = 4;
static const Var ofTile("ofTile"), tileOfSlots("group"), chunk("chunk"), tileIndex("tile"), part("part"), step("step"),
    run("run");

int GroupedTiles::runsOfDepth() const {
  return static_cast<int>((*reduced[0].fixed() + runOfTiles() - 1) / runOfTiles());
}

/// What is known of a row along its depth, in the order of slots; of tiles that have a pair. `rowsBeside`: all rows of a tile have
/// one address, else a row's numbers lie together.
Func GroupedTiles::sortCodes(const std::string &name, const Func &ofRows, const std::vector<Dim> &dims,
                             const std::string &along, int length, bool rowsBeside) {
  const RDom r = stepsOfTiles(length);
  std::vector<Var> args = {step, ofTile};
  if (rowsBeside)
    std::swap(args[0], args[1]);
  Func copy = sortedCopy(name, args, {r.x, ofTile}, rowsBeside, r, [&](Index index) {
    index[along] = r.x;
    return Expr(ofRows(KernelBuilder::call(dims, index)));
  });
  if (!rowsBeside)
    copy.update().allow_race_conditions().vectorize(r.x, depthOfTile);
  return copy;
}

/// What a chunk's expert has for its columns: `args` without what they share.
Func GroupedTiles::stripOfCodes(const std::string &name, std::vector<Var> args,
                                const std::function<Expr(const CodedColumns &, const Expr &run)> &value) {
  const Node &gather = b.graph.nodes[pickOf(w)];
  Index index = KernelBuilder::varsOf(besideExperts());
  index[gather.names[0]] = expertOf(chunk);
  index[reduced[0].name] = 0; // columns say where they are by their run
  args.push_back(run);
  for (const Dim &dim : besideExperts())
    args.push_back(KernelBuilder::var(dim.name));
  args.insert(args.end(), {chunk, tileIndex});
  Func copy = b.newFunc(name, node);
  copy(args) = value(columnsAt(lane, tileIndex, index), run);
  strips.push_back(copy);
  return copy;
}

void GroupedTiles::accumulateCodes(const std::vector<Var> &args) {
  const CodedRows &rowsInCodes = *b.codedRows(x);
  const std::string &depth = reduced[0].name, groupOfRow = depth + "_group";
  const int ofRun = runOfTiles(), runs = runsOfDepth(), perTile = tile / tileColumns;
  const int inGroup = rowsInCodes.group, perGroup = support::groupOf(storage) / ofRun;
  const int groups = (static_cast<int>(*reduced[0].fixed()) + inGroup - 1) / inGroup;
  b.integers = true;
  Func codes = sortCodes("codes", rowsInCodes.codes, rowsInCodes.dims, depth, groups * inGroup, false),
       scales = sortCodes("scales", rowsInCodes.scale, rowsInCodes.groups, groupOfRow, groups, true);
  strip = stripOfCodes("strip", {part, lane, step},
                       [&](const CodedColumns &from, const Expr &at) { return signedCodeOfRun(from, at, step, part); });
  Func columnScales = stripOfCodes("strip_scale", {lane}, [&](const CodedColumns &from, const Expr &at) {
    return scaleAt(from, {Expr(), Expr(), at / perGroup});
  });

  // Strips are those of whole packed tiles; sums know tiles of 16 columns.
  auto ofRow = [&](const Func &func, const Expr &first, const Expr &second) {
    std::vector<Expr> call = {first, second};
    for (const Dim &dim : besidePairs())
      call.emplace_back(KernelBuilder::var(dim.name));
    call.push_back(block * amx + within / tileRows);
    return func(call);
  };
  auto ofColumn = [&](const Func &func, std::vector<Expr> call) {
    for (const Dim &dim : besideExperts())
      call.emplace_back(KernelBuilder::var(dim.name));
    call.insert(call.end(), {block / rowBlock, tileIndex / perTile});
    return func(call);
  };
  Expr ofPacked = tileIndex % perTile * tileColumns + lane;
  RDom k(0, inWord, 0, ofRun / inWord, "k"), g(0, runs, "g");
  std::vector<Var> wholeArgs = args;
  wholeArgs.push_back(run);
  whole = b.newFunc("whole", node);
  whole(wholeArgs) = undef<int32_t>();
  whole(wholeArgs) += tileProduct(ofRow(codes, run * ofRun + k.y * inWord + k.x, within % tileRows),
                                  ofColumn(strip, {k.x, ofPacked, k.y, run}), rows);
  overWhole = {k.x, k.y};

  std::vector<Expr> call(args.begin(), args.end());
  call.emplace_back(g.x);
  Expr sum = cast<float>(whole(call)) *
             (ofColumn(columnScales, {ofPacked, g.x}) * ofRow(scales, within % tileRows, g.x / (inGroup / ofRun)));
  if (support::superBlocksOf(storage)) {
    Func shares = sortCodes("shares", b.sharesOfRows(x, ofRun), rowsInCodes.groups, groupOfRow, runs, true);
    Func minimums = stripOfCodes("strip_minimum", {lane}, [&](const CodedColumns &from, const Expr &at) {
      return minimumAt(from, {Expr(), Expr(), at / perGroup});
    });
    sum -= ofColumn(minimums, {ofPacked, g.x}) * ofRow(shares, within % tileRows, g.x);
  }
  g.where(pairAt(block * rows) >= 0);
  sums(args) = 0.0f;
  sums(args) += sum;
  over = {g.x};
}

/// Some groups at a time, as PackedTiles.cpp has it.
void GroupedTiles::scheduleCodes(const LoopLevel &ofColumns, const LoopLevel &ofTask) {
  const int some = groupsAtOnce(runsOfDepth());
  RVar outer("go"), inner("gi");
  sums.compute_at(ofColumns).bound_extent(lane, tileColumns).bound_extent(within, rows);
  sums.bound_extent(block, 1).bound_extent(tileIndex, 1).vectorize(lane).unroll(within);
  sums.update().split(over[0], outer, inner, some).reorder({lane, within, inner, outer});
  sums.update().vectorize(lane).unroll(within).unroll(inner);
  whole.compute_at(sums, outer).bound_extent(lane, tileColumns).bound_extent(within, rows).bound_extent(run, some);
  whole.bound_extent(block, 1).bound_extent(tileIndex, 1);
  whole.update().reorder({overWhole[0], overWhole[1], lane, within, run});
  b.tileSums.push_back({whole, lane.name(), within.name(), overWhole[0].name(), overWhole[1].name(), run.name()});
  for (Func &copy : strips) {
    copy.compute_at(ofTask).bound_extent(lane, tile).bound_extent(tileIndex, 1);
    if (copy.name() == strip.name())
      copy.bound_extent(part, inWord).bound_extent(step, runOfTiles() / inWord);
    copy.vectorize(lane, vectorOfTile()).unroll(lane);
    if (copy.name() == strip.name())
      copy.unroll(step).vectorize(part);
  }
}

} // namespace quern::codegen
