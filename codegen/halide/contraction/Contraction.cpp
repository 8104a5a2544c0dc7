// Takes: a contraction's pattern and plan. Gives: what all families of them do alike: reading the weight, the
// dimensions of a tile of sums, the result that takes the tiles.
#include "codegen/halide/contraction/Contraction.h"

#include "codegen/halide/Math.h"
#include "support/CodedGroups.h"

#include <algorithm>

using namespace Halide;

namespace quern::codegen {

Contraction::Contraction(KernelBuilder &builder, ContractionPattern pattern, const PlanPart &plan)
    : ContractionPattern(std::move(pattern)), b(builder), tile(plan["columns"]), rows(plan["rows"]),
      rowBlock(plan["row_block"]), storage(packed ? b.graph.nodes[tableOf(w)].storage : Storage::F32),
      bits(bitsOfCode(storage)) {}

static bool has(const std::vector<Dim> &dims, const std::string &name) {
  return std::any_of(dims.begin(), dims.end(), [&](const Dim &dim) { return dim.name == name; });
}

bool prepareOperands(KernelBuilder &b, const ContractionPattern &p, bool sorted) {
  bool narrow = false;
  sorted |= p.form == ContractionForm::ByExpert;
  for (int operand : {p.x, p.w}) {
    if (operand == p.x && b.multipliesIntegers(p))
      continue;                                   // their codes are stored
    if (operand == p.x && b.multipliesPairs(p)) { // what was narrowed is stored, or was given in bf16
      int rows = b.graph.nodes[operand].operands[0];
      if (b.graph.nodes[rows].op == Op::Argument)
        continue;
      if (!b.isStage[rows])
        b.materialize(rows);
      b.prologues.push_back(rows);
      continue;
    }
    int source = operand;
    bool view = true, widened = false;
    while (view && !b.isStage[source] && b.graph.nodes[source].op != Op::Argument) {
      Op op = b.graph.nodes[source].op;
      // On its way from memory to the loops: rounded and widened there.
      bool copied = sorted || (!p.isGrouped() && (operand == p.w ? !p.packed : p.isDense()));
      view = op == Op::Rename || op == Op::Permute || op == Op::Squeeze || op == Op::Unit || op == Op::Cut ||
             op == Op::Expand || ((widensStored(op) || op == Op::Narrow) && copied);
      widened |= widensStored(op);
      if (view)
        source = b.graph.nodes[source].operands[0];
    }
    narrow |= view && widened && operand == p.x;
    if (!view && tableOf(b.graph, p, operand) == operand && !b.isStage[operand] && !b.graph.nodes[operand].dims.empty())
      b.materialize(operand);
    if (!view && b.isStage[operand] &&
        !b.codedRows(operand)) // codes have several readers: none can hold them in its loops
      b.prologues.push_back(operand);
  }
  return narrow;
}

/// On a device a work-item reads a row for each column: what is computed is stored first, unless that would copy what it
/// is gathered from.
void storeOperands(KernelBuilder &b, const ContractionPattern &p) {
  std::function<bool(int, bool &)> plain = [&](int node, bool &gathered) {
    const Node &n = b.graph.nodes[node];
    if (b.isStage[node] || n.op <= Op::Index)
      return true;
    gathered |= n.op == Op::Gather;
    bool view = (n.op >= Op::Rename && n.op <= Op::Permute) || widensStored(n.op) || n.op == Op::Narrow;
    for (int operand : n.operands)
      view &= plain(operand, gathered);
    return view;
  };
  for (int operand : {p.x, p.w}) {
    bool gathered = false;
    if (!plain(operand, gathered) && !gathered)
      b.materialize(operand);
  }
}

/// Numbers of two bytes are widened where they are read.
Expr readFactor(KernelBuilder &b, int operand, const Index &index) {
  Storage storage = b.graph.nodes[operand].storage;
  return isNarrow(storage) ? math::widen(storage, b.at(operand, index), b.target) : b.real(operand, index);
}

std::vector<Expr> Contraction::packedArgs(const Expr &laneIndex, const Expr &tileIndex, const Index &index) const {
  const Node &weight = b.graph.nodes[tableOf(w)], &node = b.graph.nodes[pickOf(w)];
  std::vector<Expr> args = {laneIndex, index.at(weight.dims.back().name), streams.tileAt(tileIndex)};
  for (int d = static_cast<int>(weight.dims.size()) - 3; d >= 0; --d) {
    bool gathered = node.op == Op::Gather && !isGrouped() && weight.dims[d].name == node.names[0];
    args.push_back(gathered ? clamp(b.at(node.operands[1], index), 0, b.extent(weight.dims[d].size) - 1)
                            : index.at(weight.dims[d].name));
  }
  return args;
}

Region Contraction::codedRegion() const {
  const int each = support::stepOf(storage), group = support::groupOf(storage), block = support::blockOf(storage);
  int64_t depth = *reduced[0].fixed(), blocks = (depth + block - 1) / block;
  return {{0, each}, {0, group / each}, {0, int32_t(blocks * (block / group))}};
}

/// The last group's codes beyond the depth are 0, and multiply its last number.
void Contraction::setDepth(Index &index, const CodePlace &place) const {
  Expr position = positionOf(storage, place);
  bool whole = *reduced[0].fixed() % support::blockOf(storage) == 0;
  index[reduced[0].name] = whole ? position : min(position, b.extent(reduced[0].size) - 1);
}

Expr Contraction::withinDepth(const Expr &number, const CodePlace &place) const {
  if (!support::superBlocksOf(storage) || *reduced[0].fixed() % support::blockOf(storage) == 0)
    return number;
  return select(positionOf(storage, place) < b.extent(reduced[0].size), number, 0.0f);
}

int Contraction::runOfTiles() const {
  const int group = support::groupOf(storage), most = 128;
  if (b.multipliesIntegers(*this))
    return std::min({group, support::groupOf(storedAs(b.graph, x)), most});
  return std::min(group, piecesOf(b.graph, x) > 1 ? depthOfTile : most); // pieces are products enough for a scale
}

Expr Contraction::signedCodeOfRun(const CodedColumns &columns, const Expr &run, const Expr &four,
                                  const Expr &byte) const {
  const int perGroup = support::groupOf(storage) / runOfTiles(), fours = runOfTiles() / 4;
  return cast<int8_t>(unsignedCodeAt(columns, run / perGroup, run % perGroup * fours + four, byte)) -
         cast<int8_t>(addedToCodes(storage));
}

/// Every read of a weight. `from`: the weight where it is packed; else what is read, that or the table it is gathered from.
Expr Contraction::loadWeight(int from, const Expr &laneIndex, const Expr &tileIndex, Index index) const {
  if (bits)
    return numberAt(columnsAt(laneIndex, tileIndex, index), codePlace(storage, index.at(reduced[0].name)));
  if (packed) {
    Expr stored = b.packedNumber(tableOf(w), packedArgs(laneIndex, tileIndex, index));
    return isNarrow(storage) ? math::widen(storage, stored, b.target) : stored;
  }
  Expr last = b.extent(column->size) - 1, position = tileIndex * tile + laneIndex;
  index[column->name] = min(position, last);
  auto read = [&] { return readFactor(b, from, index); };
  bool whole = column->fixed() && *column->fixed() % tile == 0;
  if (whole) {
    index[column->name] = position;
    return read();
  }
  return select(position <= last, read(), 0.0f);
}

/// Names of the loops of sums: within a tile, the other dimensions, tiles of columns.
std::vector<Var> Contraction::tileArgs() const {
  std::vector<Var> args = {lane};
  if (row)
    args.push_back(KernelBuilder::var(row->name));
  for (auto dim = others.rbegin(); dim != others.rend(); ++dim)
    args.push_back(KernelBuilder::var(dim->name));
  args.emplace_back("tile");
  return args;
}

/// The summed dimensions, the last of them innermost; and where a step over them is.
Region Contraction::reducedRegion() const {
  Region region;
  for (auto dim = reduced.rbegin(); dim != reduced.rend(); ++dim)
    region.push_back({0, b.extent(dim->size)});
  return region;
}

void Contraction::setReduced(Index &index, const RDom &k) const {
  for (size_t i = 0; i < reduced.size(); ++i)
    index[reduced[reduced.size() - 1 - i].name] = k[static_cast<int>(i)];
}

std::vector<Var> Contraction::copyArgs(std::vector<Var> first, int operand, const Var &last) const {
  for (const Dim &dim : besideDepth(operand))
    first.push_back(KernelBuilder::var(dim.name));
  first.push_back(last);
  return first;
}

std::vector<Expr> Contraction::copyCall(std::vector<Expr> first, int operand, const Expr &last,
                                        const Index &index) const {
  for (const Dim &dim : besideDepth(operand))
    first.push_back(index.at(dim.name));
  first.push_back(last);
  return first;
}

/// Dimensions of an operand but its own one and the depth, innermost first.
std::vector<Dim> Contraction::besideDepth(int operand) const {
  const std::string &own = operand == w ? column->name : row->name;
  std::vector<Dim> dims(b.graph.nodes[operand].dims.rbegin(), b.graph.nodes[operand].dims.rend());
  std::erase_if(dims, [&](const Dim &dim) { return dim.name == own || dim.name == reduced.back().name; });
  return dims;
}

/// Copies of rows: several groups beside each other, which share lines of memory, then the next step `along` their
/// depth.
void Contraction::scheduleGroups(Func &groups, const Var &along, int beside) const {
  Var some("gs"), side("gb");
  groups.compute_root().bound(groupLane, 0, rows).split(Var("group"), some, side, beside, TailStrategy::GuardWithIf);
  groups.reorder(groupLane, side, along).vectorize(groupLane).parallel(some);
}

LoopLevel Contraction::scheduleTotals(Func &totals, const RDom &parts, const LoopLevel &level, int tilesAtOnce) const {
  Var tiles("rt"), within("ri"), beside("tile");
  totals.compute_at(level).bound_extent(lane, tile).bound_extent(beside, tilesAtOnce);
  totals.vectorize(lane, vectorOfTile()).unroll(lane);
  std::vector<VarOrRVar> order = {lane, within, tiles, beside};
  for (const Dim &dim : others)
    order.push_back(KernelBuilder::var(dim.name));
  for (int i = 0; i < parts.dimensions(); ++i)
    order.push_back(parts[i]);
  totals.update().split(KernelBuilder::var(row->name), tiles, within, rows, TailStrategy::GuardWithIf).reorder(order);
  totals.update().vectorize(lane, vectorOfTile()).unroll(lane).unroll(within);
  return {totals, tiles};
}

std::vector<Expr> Contraction::tileCall(const Index &position, int columns) const {
  Expr at = position.at(column->name);
  std::vector<Expr> call = {at % columns};
  if (row)
    call.push_back(position.at(row->name));
  for (auto dim = others.rbegin(); dim != others.rend(); ++dim)
    call.push_back(position.at(dim->name));
  call.push_back(at / columns);
  return call;
}

/// The one result that everything computed from the sums flows into element by element, or -1. Parts of a joined weight
/// (gate and up) may be taken apart on the way: the result has the same row and column of each at hand.
int Contraction::fusedResult() const {
  const std::vector<Dim> &own = b.graph.nodes[node].dims;
  auto known = [&](const Dim &dim) {
    return std::any_of(own.begin(), own.end(), [&](const Dim &mine) { return mine.name == dim.name; });
  };
  std::vector<char> reached(b.graph.nodes.size());
  std::vector<std::string> parts; // dimensions of which single positions are taken
  reached[node] = 1;
  int result = -1;
  for (size_t i = node; i < b.graph.nodes.size(); ++i) {
    const Node &n = b.graph.nodes[i];
    bool isPart = n.op == Op::Cut || n.op == Op::Squeeze;
    for (int operand : n.operands)
      reached[i] |= reached[operand];
    if (!reached[i])
      continue;
    if (n.op == Op::Cut) {
      bool among = std::any_of(others.begin(), others.end(), [&](const Dim &dim) { return dim.name == n.names[0]; });
      if (!among || n.into[0].fixed() != 1)
        return -1;
      parts.push_back(n.names[0]);
    }
    bool plain =
        static_cast<int>(i) == node || b.graph.isElementwise(static_cast<int>(i)) || n.op == Op::Permute || isPart;
    bool dims =
        std::all_of(n.dims.begin(), n.dims.end(), [&](const Dim &dim) { return known(dim) || dim.fixed() == 1; });
    if (!plain || !dims || (static_cast<int>(i) != node && b.wantsStage(static_cast<int>(i))))
      return -1;
    for (size_t r = 0; r < b.graph.results.size(); ++r)
      if (b.graph.results[r] == static_cast<int>(i)) {
        if (result >= 0)
          return -1;
        result = static_cast<int>(r);
      }
  }
  if (result < 0)
    return -1;
  const Node &last = b.graph.nodes[b.graph.results[result]];
  for (const Dim &dim : own)
    if (last.has(dim.name) == (std::find(parts.begin(), parts.end(), dim.name) != parts.end()))
      return -1;
  if (last.dims.size() + (others.size() - aroundOf(last.dims).size()) != own.size())
    return -1;
  return result;
}

/// The other dimensions that a result has: loops around its tiles. The rest is inside of a tile.
std::vector<Dim> Contraction::aroundOf(const std::vector<Dim> &result) const {
  std::vector<Dim> around;
  for (const Dim &dim : others)
    if (std::any_of(result.begin(), result.end(), [&](const Dim &its) { return its.name == dim.name; }))
      around.push_back(dim);
  return around;
}

/// Dimensions of parts (gate and up), which a tile has all of.
std::vector<Dim> Contraction::partsWithin(const std::vector<Dim> &outside) const {
  std::vector<Dim> parts = others;
  std::erase_if(parts, [&](const Dim &dim) { return !dim.fixed() || has(outside, dim.name); });
  return parts;
}

/// Sums at positions that only the run knows would not stay in registers.
void Contraction::unrollParts(Func sums, const std::vector<Dim> &outside) const {
  for (const Dim &dim : partsWithin(outside)) {
    Var part = KernelBuilder::var(dim.name);
    sums.unroll(part);
    sums.update().unroll(part);
  }
}

void Contraction::write(const std::function<Expr(const Index &)> &value, const std::function<void(Stage &)> &schedule) {
  b.isStage[node] = 1;
  b.values[node] = value; // what is computed from the contraction reads its tiles
  int result = fusedResult();
  if (result >= 0 && b.fusedInto(result, schedule))
    return;
  const Node &c = b.graph.nodes[node];
  Stage copy{b.newFunc("product", node), c.dims, {}, false, {}, false, node};
  copy.func(KernelBuilder::pureArgs(c.dims)) = b.values[node](KernelBuilder::varsOf(c.dims));
  copy.func.compute_root();
  // Tiles begin at multiples of their size, whatever is read of the product.
  for (const std::optional<Dim> *dim : {&row, &column})
    if (*dim && has(c.dims, (*dim)->name))
      copy.func.bound(KernelBuilder::var((*dim)->name), 0, b.extent((*dim)->size));
  schedule(copy);
  b.readFrom(node, copy.func);
  b.addStage(copy);
}

} // namespace quern::codegen
