// Takes: numbers of a contraction's families. Gives: why they do not fit what is known about it, or together.
#include "codegen/schedule/ContractionSpace.h"

#include "codegen/schedule/Space.h"

namespace quern::codegen {

static std::string text(int64_t number) {
  return std::to_string(number);
}

/// A register tile of a contraction. One row is always possible: it needs no more than its columns.
static std::optional<std::string> refuseTile(const PlanPart &part, const Facts &facts) {
  int64_t rows = part["rows"], columns = part["columns"], unroll = part["unroll"];
  int64_t vector = known(facts, "vector"), tile = known(facts, "tile"), most = known(facts, "rows"),
          inner = known(facts, "inner");
  if (tile && columns != tile)
    return "columns " + text(columns) + ", but the weight is packed in tiles of " + text(tile);
  if (columns > vector && columns % vector)
    return "columns " + text(columns) + " are no multiple of the target's vector of " + text(vector) + " floats";
  if (most && rows > most)
    return "rows " + text(rows) + ", but there are only " + text(most);
  if (rows > 1 && !fitsRegisters(rows, columns, facts))
    return "rows " + text(rows) + " x columns " + text(columns) + " do not fit the target's " +
           text(known(facts, "registers")) + " registers of " + text(vector) + " floats";
  if (unroll > 1 && (!inner || inner % unroll))
    return "unroll " + text(unroll) + " does not divide the depth" + (inner ? " of " + text(inner) : "");
  return std::nullopt;
}

int64_t codesOfPart(int64_t bits) {
  return bits && bits < 16 ? 256 : 1;
}

/// By AMX: a few groups of codes, and no part that ends within one.
int64_t codesOfTiledPart(int64_t given, const Facts &facts) {
  constexpr int64_t least = 128;
  const int64_t depth = known(facts, "inner");
  if (!known(facts, "levels") || given >= depth || depth % least)
    return depth;
  for (int64_t part = (given + least - 1) / least * least; part < depth; part += least)
    if (depth % part == 0)
      return part;
  return depth;
}

/// AMX's registers.
static std::optional<std::string> refuseTiles(const PlanPart &part, const Facts &facts) {
  const int64_t amx = part["amx"];
  if (amx && !known(facts, "amx"))
    return "amx " + text(amx) +
           ", but only packed weights, and what is not packed but lies along its depth or its rows are multiplied so, "
           "on processors that have it";
  if (amx && part["columns"] % 16)
    return "amx " + text(amx) + ", but columns " + text(part["columns"]) + " are no multiple of 16";
  return std::nullopt;
}

std::optional<std::string> refusePacked(const PlanPart &part, const Facts &facts) {
  if (part["few"] && known(facts, "row_bits") < 16)
    return "few " + text(part["few"]) + ", but rows in codes are multiplied alone or by a copy of the columns";
  if (part["few"] && !fitsRegisters(part["together"], part["columns"], facts))
    return "together " + text(part["together"]) + " x columns " + text(part["columns"]) + " do not fit the target's " +
           text(known(facts, "registers")) + " registers";
  if (int64_t side = part["side"]; !fitsSide(side, part["columns"], facts))
    return "side " + text(side) + " does not divide the tiles of columns, or their sums do not fit the target's " +
           text(known(facts, "registers")) + " registers of " + text(known(facts, "vector")) + " floats";
  const int64_t depth = part["depth"], inner = known(facts, "inner"), bits = known(facts, "bits"),
                of = codesOfPart(bits);
  const int64_t group = part["group"], columns = known(facts, "outer");
  const bool tiled = part["amx"] && known(facts, "levels"), words = part["amx"] && bits == 32;
  if (group > 1 && (!part["amx"] || tiled))
    return "group " + text(group) + ", but only AMX multiplies several tiles of columns in a task, of f32 and bf16";
  if (group > 1 && (!columns || (columns + part["columns"] - 1) / part["columns"] % group))
    return "group " + text(group) + " does not divide the tiles of columns of " + text(columns);
  if (inner && words && depth < inner && depth % depthOfTile)
    return "depth " + text(depth) + ", but AMX multiplies " + text(depthOfTile) + " steps at a time";
  if (inner && depth < inner && !tiled && !words && (known(facts, "row_bits") < 32 || part["amx"]))
    return "depth " + text(depth) + ", but rows in fewer bits, and bf16 by AMX, are summed over the whole depth of " +
           text(inner);
  if (inner && tiled && depth < inner && depth != codesOfTiledPart(depth, facts))
    return "depth " + text(depth) + ", but AMX sums whole parts of 128 codes each, of " + text(inner);
  if (inner && !tiled && depth < inner && depth % of)
    return "depth " + text(depth) + " is no multiple of the " + text(of) + " codes that share scales";
  if (int64_t unroll = part["unroll"]; unroll > 1 && inner && depth < inner && (inner % depth || depth % unroll))
    return "unroll " + text(unroll) + " does not divide whole parts of the depth";
  if (std::optional<std::string> refused = refuseTiles(part, facts))
    return refused;
  return refuseTile(part, facts);
}

/// The depth's parts: unrolling needs whole ones. Tiles of columns are packed in whole groups: those behind the last would be
/// read from behind the weight.
std::optional<std::string> refuseDense(const PlanPart &part, const Facts &facts) {
  int64_t whole = known(facts, "depth"), depth = part["depth"], unroll = part["unroll"], group = part["group"];
  int64_t columns = part["columns"], outer = known(facts, "outer"),
          tiles = outer ? (outer + columns - 1) / columns : group;
  if (tiles % group)
    return "group " + text(group) + " does not divide the " + text(tiles) + " tiles of columns";
  PlanPart tile = part;
  tile.numbers["unroll"] = 1;
  if (std::optional<std::string> refused = refuseTile(tile, facts))
    return refused;
  if (unroll > 1 && (!whole || whole % depth || depth % unroll))
    return "unroll " + text(unroll) + " does not divide whole parts of the depth";
  if (std::optional<std::string> refused = refuseTiles(part, facts))
    return refused;
  if (part["amx"] && depth % depthOfTile)
    return "depth " + text(depth) + ", but AMX multiplies " + text(depthOfTile) + " steps at a time";
  if (part["few"] && (!known(facts, "heads") || known(facts, "rows") > part["few"]))
    return "few " + std::to_string(part["few"]) +
           ": only few rows of weights for each head are read where they are stored";
  return std::nullopt;
}

std::optional<std::string> refuseGrouped(const PlanPart &part, const Facts &facts) {
  std::optional<std::string> refused = refuseTiles(part, facts);
  return refused ? refused : refuseTile(part, facts);
}

std::optional<std::string> refuseExperts(const PlanPart &part, const Facts &facts) {
  if (std::optional<std::string> refused = refuseTiles(part, facts))
    return refused;
  PlanPart tile = part;
  tile.numbers["unroll"] = 1;
  return refuseTile(tile, facts);
}

} // namespace quern::codegen
