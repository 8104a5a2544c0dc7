// Takes: the anchors of a kernel, with what is known of their shapes; schedules. Gives: numbers for each.
// Why rules between schedule and plan: a schedule's line is for all kernels of a family, and a small or narrow one needs
// smaller tiles. A plan holds what comes out of them, so whoever reads it sees what is computed.
#include "codegen/schedule/ChoosePlan.h"

#include <algorithm>
#include <stdexcept>

namespace quern::codegen {

/// How many rows and columns stay in registers.
static void chooseTile(PlanPart &part, const Facts &facts, const Schedule &schedule) {
  int64_t vector = facts.at("vector"), outer = facts.at("outer"), inner = facts.at("inner"), tile = facts.at("tile");
  int64_t columns = tile ? tile : schedule["columns"];
  if (!tile)
    while (columns > vector && outer && columns / 2 >= outer)
      columns /= 2;
  // A narrower tile leaves registers for more rows.
  int64_t rows = schedule["rows"] * std::max<int64_t>(1, schedule["columns"] / std::max(columns, vector));
  rows = std::min<int64_t>(rows, schedule["most_rows"]);
  if (int64_t most = facts.at("rows"))
    rows = std::min(rows, most);
  while (columns > schedule["columns"] && rows > 1 && !fitsRegisters(rows, columns, facts))
    --rows; // a weight that was packed for another target
  part.numbers["columns"] = columns;
  part.numbers["rows"] = rows;
  if (auto side = part.numbers.find("side"); side != part.numbers.end())
    while (side->second > 1 && !fitsSide(side->second, columns, facts))
      --side->second;
  if (auto unroll = part.numbers.find("unroll"); unroll != part.numbers.end())
    while (unroll->second > 1 && !(inner && inner % unroll->second == 0))
      unroll->second /= 2;
}

/// In how many parts of which depth what is summed is packed, and how many tiles of columns share a task.
static void chooseParts(PlanPart &part, const Facts &facts, const Schedule &schedule) {
  int64_t outer = facts.at("outer"), columns = part.numbers.at("columns");
  int64_t &group = part.numbers["group"], &depth = part.numbers["depth"], &unroll = part.numbers["unroll"];
  // Neighbouring tiles together, as long as enough tasks are left: their packing reads longer lines of memory.
  int64_t tiles = outer ? (outer + columns - 1) / columns : 1;
  while (group > 1 && (tiles / group < schedule["tasks"] || tiles % group))
    group /= 2;
  bool wholeParts = false;
  if (int64_t whole = facts.at("depth")) {
    int64_t parts = (whole + depth - 1) / depth;
    depth = (whole + parts - 1) / parts;
    wholeParts = whole % depth == 0;
  }
  while (unroll > 1 && !(wholeParts && depth % unroll == 0))
    unroll /= 2;
  if (!facts.at("heads") || facts.at("rows") > part.numbers["few"])
    part.numbers["few"] = 0;
}

/// No tile twice as wide as the product, no part of a depth that is only a warp's first step.
static void chooseTensorTile(PlanPart &part, const Facts &facts) {
  constexpr int64_t ownDepth = 256;
  int64_t outer = facts.at("outer"), inner = facts.at("inner"), rows = facts.at("rows");
  auto halve = [&](const char *size, const char *warps, int64_t most) {
    int64_t &tile = part.numbers.at(size), &many = part.numbers.at(warps);
    while (most && tile > 16 && tile / 2 >= most) {
      tile /= 2;
      if (many > 1)
        many /= 2;
    }
  };
  halve("columns", "warp_columns", outer);
  halve("rows", "warp_rows", rows);
  int64_t &split = part.numbers.at("split");
  while (split > 1 && inner && inner / split < ownDepth)
    split /= 2;
}

std::vector<PlanPart> chooseParts(const std::vector<Anchor> &anchors, const ScheduleTable &schedules) {
  std::vector<PlanPart> parts;
  for (const Anchor &anchor : anchors) {
    const Family &space = family(anchor.family);
    Schedule schedule = schedules.find(anchor.family, anchor.facts);
    PlanPart part{anchor.family, {}};
    for (const Parameter &parameter : space.parameters)
      if (parameter.role == Parameter::Role::Plan)
        part.numbers[std::string(parameter.name)] = schedule[std::string(parameter.name)];
    if (anchor.family == "tile")
      chooseTensorTile(part, anchor.facts);
    else if (part.numbers.count("columns"))
      chooseTile(part, anchor.facts, schedule);
    if (anchor.family == "dense")
      chooseParts(part, anchor.facts, schedule);
    if (anchor.family == "scan" && !anchor.facts.at("keys"))
      part.numbers["chunk"] = 0;
    if (std::optional<std::string> refused = checkPart(part, anchor))
      throw std::runtime_error("a schedule of " + anchor.family + " cannot be: " + *refused);
    parts.push_back(std::move(part));
  }
  return parts;
}

std::optional<std::string> checkParts(const std::vector<PlanPart> &parts, const std::vector<Anchor> &anchors) {
  auto names = [](const auto &list) {
    std::vector<std::string> names;
    for (const auto &one : list)
      names.push_back(one.family);
    return listed(names);
  };
  bool same = std::equal(parts.begin(), parts.end(), anchors.begin(), anchors.end(),
                         [](const PlanPart &part, const Anchor &anchor) { return part.family == anchor.family; });
  if (!same)
    return "its parts are " + (parts.empty() ? "none" : names(parts)) + "; the kernel has " + names(anchors);
  for (size_t i = 0; i < parts.size(); ++i)
    if (std::optional<std::string> refused = checkPart(parts[i], anchors[i]))
      return parts[i].family + ": " + *refused;
  return std::nullopt;
}

int64_t weightTile(int64_t rows, int64_t depth, const ScheduleTable &schedules, const CpuTarget &target) {
  if (rows < 2)
    return 0;
  Schedule schedule = schedules.find(
      "contract", {{"vector", target.vector}, {"registers", target.registers}, {"outer", rows}, {"inner", depth}});
  int64_t tile = schedule["columns"];
  // Not always the widest: padding is read from memory like the rest, and decoding is bound by memory.
  auto padding = [&] { return (rows + tile - 1) / tile * tile - rows; };
  while (tile > target.vector && padding() * schedule["padding"] > rows)
    tile /= 2;
  return tile;
}

} // namespace quern::codegen
