// Takes: a product whose weight is chosen for each row, experts in bf16 or rows and experts in codes. Gives: its sums by AMX's
// registers of 16 rows and 16 columns, as loops that TileProducts.cpp replaces, for as many rows as fill them; fewer have the
// loops of GroupedContraction.cpp.
//
//   sorted[16 words][16 slots][pieces][depth / 32][slots / 16] = x   once, in the order of slots: rows of a tile lie together
//   strip[columns][words of the depth][pieces] = w                   of the expert of a chunk, for all its blocks
//   for each block of slots: sums[rows x columns] = products over the whole depth
#include "codegen/halide/contraction/routed/GroupedTiles.h"

using namespace Halide;

namespace quern::codegen {

static const Var word("word"), ofTile("ofTile"), step("step"), tileOfSlots("group"), chunk("chunk"), tileIndex("tile");

GroupedTiles::GroupedTiles(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan, Numbers numbers,
                           Expr asked)
    : RoutedPairs(builder, std::move(pattern), plan), numbers(std::move(numbers)), asked(std::move(asked)),
      amx(plan["amx"]), terms(termsOf(pieces(x), pieces(w))) {
  rows = amx * tileRows;
  rowBlock = plan["blocks"];
}

static void eraseNamed(std::vector<Dim> &dims, const std::string &name) {
  std::erase_if(dims, [&](const Dim &dim) { return dim.name == name; });
}

/// Dimensions of x but the depth and those of the pairs, innermost first.
std::vector<Dim> GroupedTiles::besidePairs() const {
  std::vector<Dim> dims(b.graph.nodes[x].dims.rbegin(), b.graph.nodes[x].dims.rend());
  eraseNamed(dims, reduced[0].name);
  for (const Dim &pair : pairs)
    eraseNamed(dims, pair.name);
  return dims;
}

/// Dimensions of the weight but the depth, columns and experts, innermost first.
std::vector<Dim> GroupedTiles::besideExperts() const {
  const Node &gather = b.graph.nodes[pickOf(w)], &table = b.graph.nodes[gather.operands[0]];
  std::vector<Dim> dims(table.dims.rbegin(), table.dims.rend());
  for (const std::string &name : {reduced[0].name, column->name, gather.names[0]})
    eraseNamed(dims, name);
  return dims;
}

Expr GroupedTiles::wordAt(const Index &index, const Expr &word, const Expr &piece, const Numbers &number) const {
  const bool whole = *reduced[0].fixed() % depthOfTile == 0;
  auto half = [&](int which) { return orZero(index, word * 2 + which, whole, number); };
  return wordOf(half(0), half(1), piece);
}

/// A copy in the order of slots, of tiles that have a pair, where tiles multiply: an update, as these are known by data. `args`,
/// `loops`: without those of pairs; `along` of the arguments takes `steps` of the depth.
Func GroupedTiles::sortedCopy(const std::string &name, std::vector<Var> args, std::vector<VarOrRVar> loops,
                              size_t along, const RDom &steps, const Numbers &number) {
  Index index = KernelBuilder::varsOf(besidePairs());
  setPair(index, tileOfSlots * tileRows + ofTile);
  for (const Dim &dim : besidePairs()) {
    args.push_back(KernelBuilder::var(dim.name));
    loops.emplace_back(KernelBuilder::var(dim.name));
  }
  args.push_back(tileOfSlots);
  loops.emplace_back(tileOfSlots);
  std::vector<Expr> call(args.begin(), args.end());
  call[along] = steps.x;
  Func copy = b.newFunc(name, node);
  Expr value = number(index);
  copy(args) = undef(value.type());
  copy(call) = value;
  copy.compute_root().bound(args[along], 0, steps.x.extent()).bound(ofTile, 0, tileRows);
  copy.bound(tileOfSlots, 0, slotCount / tileRows);
  copy.update().reorder(loops).parallel(tileOfSlots);
  return copy;
}

RDom GroupedTiles::stepsOfTiles(const Expr &count) const {
  RDom steps(0, count, "r");
  steps.where(asked && pairAt(tileOfSlots * tileRows) >= 0);
  return steps;
}

void GroupedTiles::sortWords() {
  const RDom r = stepsOfTiles(wordsOf(b.extent(reduced[0].size)) / wordsOfTile);
  sorted = sortedCopy("tiles", {word, ofTile, piece, step}, {word, piece, r.x, ofTile}, 3, r, [&](const Index &index) {
    return wordAt(index, r.x * wordsOfTile + word, pieces(x) > 1 ? Expr(piece) : 0,
                  [&](const Index &at) { return cast<float>(numbers(at)); });
  });
  sorted.bound(word, 0, wordsOfTile).bound(piece, 0, pieces(x));
  sorted.update().vectorize(word).unroll(piece);
}

void GroupedTiles::stripOfWords() {
  const Node &gather = b.graph.nodes[pickOf(w)], &table = b.graph.nodes[gather.operands[0]];
  Var depth = KernelBuilder::var(reduced[0].name);
  Index index = KernelBuilder::varsOf(besideExperts());
  index[gather.names[0]] = expertOf(chunk);
  std::vector<Var> args = {lane, depth, piece};
  for (const Dim &dim : besideExperts())
    args.push_back(KernelBuilder::var(dim.name));
  args.insert(args.end(), {chunk, tileIndex});
  Expr value = wordAt(index, depth, pieces(w) > 1 ? Expr(piece) : 0, [&](const Index &at) {
    return loadWeight(packed ? w : gather.operands[0], lane, tileIndex, at);
  });
  strip = b.newFunc("strip", node);
  if (!packed && table.dims.back().name == reduced[0].name)
    defineTurned(strip, turned = b.newFunc("words", node), args, value);
  else
    strip(args) = value;
}

void GroupedTiles::accumulateWords(const std::vector<Var> &args) {
  sortWords();
  stripOfWords();
  RDom k(Region{{0, wordsOf(b.extent(reduced[0].size))}, {0, static_cast<int32_t>(terms.size())}}, "k");
  k.where(pairAt(block * rows) >= 0);
  std::vector<Expr> ofRow = {k.x % wordsOfTile, within % tileRows, rowPiece(terms, k.y), k.x / wordsOfTile},
                    ofColumn = {lane, k.x, columnPiece(terms, k.y)};
  for (const Dim &dim : besidePairs())
    ofRow.emplace_back(KernelBuilder::var(dim.name));
  for (const Dim &dim : besideExperts())
    ofColumn.emplace_back(KernelBuilder::var(dim.name));
  ofRow.push_back(block * amx + within / tileRows);
  ofColumn.insert(ofColumn.end(), {block / rowBlock, tileIndex});
  sums(args) = undef<float>();
  sums(args) += tileProduct(sorted(ofRow), strip(ofColumn), rows); // copies have whole tiles
  over = {k.x, k.y};
}

/// Plain loops, in memory of known size.
void GroupedTiles::scheduleWords(const LoopLevel &ofBlock, const LoopLevel &ofTask) {
  sums.compute_at(ofBlock).bound_extent(lane, tile).bound_extent(within, rows);
  sums.bound_extent(block, 1).bound_extent(tileIndex, 1);
  sums.update().reorder({over[0], over[1], lane, within});
  b.tileSums.push_back({sums, lane.name(), within.name(), "", over[0].name(), "", over[1].name()});
  Contraction::scheduleWords(strip, turned, ofTask, 1, pieces(w));
}

void GroupedTiles::define(int positions, const Dim &among) {
  sortPairs(positions, among, rows * rowBlock);
  findLeaders(positions);
  slots.where(pairAt(slots.y / rowBlock * (rows * rowBlock)) >= 0); // no strip of what has no pair
  std::vector<Var> args = {lane, within, block};
  for (auto dim = others.rbegin(); dim != others.rend(); ++dim)
    args.push_back(KernelBuilder::var(dim->name));
  args.push_back(tileIndex);
  sums = b.newFunc("sums", node);
  if (bits)
    accumulateCodes(args);
  else
    accumulateWords(args);
}

void GroupedTiles::write(Stage &target, int value) {
  b.values[node] = [self = *this](const Index &position) {
    return self.sumAt(self.sums, position, true, self.columnsAtOnce());
  };
  writePairs(target, value, asked);
}

void GroupedTiles::schedule(Stage &target, int update) {
  Halide::Stage out = target.func.update(update);
  const TaskLoops loops{Var("to"), Var("ti"), RVar("tb"), RVar("tt"), RVar("tiles")};
  const Var some("ts");
  scheduleTasks(out, loops, aroundOf(target.dims), some, columnsAtOnce());
  // A loop of its own for the last tile would end as the others' does, and LLVM would join their tiles.
  out.never_partition({slots.x, loops.blockInner, loops.task});
  LoopLevel ofBlock(target.func, loops.blockInner), ofTask(target.func, loops.task);
  if (bits)
    scheduleCodes(columnsAtOnce() < tile ? LoopLevel(target.func, some) : ofBlock, ofTask);
  else
    scheduleWords(ofBlock, ofTask);
}

} // namespace quern::codegen
