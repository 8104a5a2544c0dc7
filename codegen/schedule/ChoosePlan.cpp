// Takes: the anchors of a kernel, with what is known about their shapes; schedules. Gives: numbers for each.
// Why the cheapest by a model (Estimate.cpp) where no schedule says otherwise: what decides is known about every target and
// kernel (registers, caches, threads, bits of numbers), and no table has a line for all of them.
#include "codegen/schedule/ChoosePlan.h"

#include "codegen/schedule/ContractionSpace.h"
#include "codegen/schedule/Estimate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <tuple>

namespace quern::codegen {

using Numbers = std::map<std::string, int64_t>;

/// A number that a schedule gives, as near to it as the shape allows: a line is for all kernels of a family, and some are
/// small or narrow.
static int64_t fitted(const std::string &name, int64_t given, const PlanPart &part, const Facts &facts) {
  const bool product = part.numbers.contains("columns"), dense = part.family == "dense";
  int64_t tile = known(facts, "tile"), outer = known(facts, "outer"), rows = known(facts, "rows"),
          depth = known(facts, dense ? "depth" : "inner");
  if (name == "columns" && tile)
    return tile;
  if (name == "columns")
    while (given > known(facts, "vector") && outer && given / 2 >= outer)
      given /= 2;
  if (name == "rows" && product) {
    given = rows ? std::min(given, rows) : given;
    while (tile && given > 1 && !fitsRegisters(given, tile, facts)) // packed for another target
      --given;
  }
  if (name == "side")
    while (given > 1 && !fitsSide(given, part.numbers.at("columns"), facts))
      --given;
  if (name == "amx" && (!known(facts, "amx") || (product && part.numbers.at("columns") % 16)))
    return 0;
  if (name == "few" && part.family == "contract" && known(facts, "row_bits") < 16)
    return 0;
  if (name == "few" && dense && (!known(facts, "heads") || rows > given))
    return 0;
  if (name == "group" && part.family == "contract" && (!part["amx"] || known(facts, "levels")))
    return 1;
  if (name == "group" && outer) {
    int64_t columns = part.numbers.at("columns"), tiles = (outer + columns - 1) / columns;
    while (tiles % given)
      --given;
  }
  if (name == "depth" && depth) { // parts of one size
    const bool packed = part.family == "contract";
    const bool words = packed && part["amx"] && known(facts, "bits") == 32;
    if (packed && part["amx"] && !words)
      return codesOfTiledPart(given, facts);
    if (packed && ((known(facts, "row_bits") < 32 && !words) || given >= depth)) // summed over the whole depth
      return depth;
    int64_t parts = (depth + given - 1) / given, each = (depth + parts - 1) / parts,
            of = part["amx"] ? depthOfTile
                 : packed    ? codesOfPart(known(facts, "bits"))
                             : 1;
    return packed ? std::min(depth, (each + of - 1) / of * of) : (each + of - 1) / of * of;
  }
  if (name == "unroll" && product) {
    int64_t each = part.numbers.contains("depth") ? part.numbers.at("depth") : depth;
    while (given > 1 && !(depth && depth % each == 0 && each % given == 0))
      given /= 2;
  }
  if (name == "chunk" && !known(facts, "keys"))
    return 0;
  return given;
}

namespace {
/// The cheapest point of a family's space: numbers that share registers or a cache are chosen together, the others one after the
/// other.
class Choice {
public:
  Choice(const Anchor &anchor, const Numbers &given)
      : anchor(anchor), space(family(anchor.family)), estimate(anchor), given(given), best{anchor.family, {}} {}

  PlanPart make() {
    for (const Parameter &parameter : space.parameters)
      set(best, parameter, values(parameter).front());
    fitAll(best);
    sweep({"rows", "columns", "step"}, true);
    for (int round = 0; round < 2; ++round) { // what comes first is chosen again, beside the rest
      sweep({"amx", "row_block", "depth", "group"}, false);
      for (const char *name : {"unroll", "keys", "block"})
        sweep({name}, false);
      sweep({"alone", "few"}, false);
      sweep({"side"}, false);
    }
    return best;
  }

private:
  std::vector<int64_t> values(const Parameter &parameter) const {
    auto found = given.find(std::string(parameter.name));
    return found == given.end() ? estimate.values(parameter) : std::vector<int64_t>{found->second};
  }
  static void set(PlanPart &part, const Parameter &parameter, int64_t value) {
    part.numbers[std::string(parameter.name)] = value;
  }
  /// What was given, and the parts of a depth, follow from the other numbers.
  void fitAll(PlanPart &part) const {
    for (auto &[name, value] : part.numbers)
      if (given.contains(name) || name == "depth")
        value = fitted(name, given.contains(name) ? given.at(name) : value, part, anchor.facts);
  }
  double costOf(const PlanPart &part, bool ofTile) const {
    if (space.refuses(part, anchor.facts))
      return std::numeric_limits<double>::infinity();
    return ofTile ? estimate.ofTile(part) : estimate(part);
  }

  /// `ofTile`: by the tile in registers alone.
  void sweep(const std::vector<std::string_view> &names, bool ofTile) {
    std::vector<PlanPart> points = {best};
    for (std::string_view name : names)
      if (const Parameter *parameter = space.find(name)) {
        std::vector<PlanPart> more;
        for (int64_t value : values(*parameter))
          for (const PlanPart &point : points) {
            more.push_back(point);
            set(more.back(), *parameter, value);
          }
        points = std::move(more);
      }
    if (points.size() < 2)
      return;
    double least = std::numeric_limits<double>::infinity();
    for (PlanPart &point : points) {
      fitAll(point);
      if (double its = costOf(point, ofTile); its < least) {
        best = point;
        least = its;
      }
    }
  }

  const Anchor &anchor;
  const Family &space;
  Estimate estimate;
  const Numbers &given;
  PlanPart best;
};
} // namespace

/// Kernels of a model have the same parts again and again.
static PlanPart cheapest(const Anchor &anchor, const Numbers &given) {
  using Key = std::tuple<std::string, Facts, Numbers>;
  static std::mutex mutex;
  static std::map<Key, PlanPart> known;
  Key key{anchor.family, anchor.facts, given};
  std::lock_guard lock(mutex);
  auto found = known.find(key);
  if (found == known.end())
    found = known.emplace(std::move(key), Choice(anchor, given).make()).first;
  return found->second;
}

/// Of tensor cores the model knows nothing: eight warps with tiles that fit their registers, and copies that fit the memory of
/// a block on every card; on Hopper two warp groups, each with as many sums as its registers hold. No tile twice as wide as the product. Of
/// few rows, two blocks for every multiprocessor of a large card, by parts of the depth: narrower blocks read lines in pieces,
/// which took twice as long (H100).
static PlanPart tensorTile(const Anchor &anchor, const Numbers &given) {
  constexpr int64_t ownDepth = 256, multiprocessors = 128;
  PlanPart part{anchor.family, given};
  part.numbers.insert({{"rows", 128}, {"columns", 128}, {"depth", 32}, {"stages", 3}});
  part.numbers.insert({{"warp_rows", 2}, {"warp_columns", 4}, {"few", 8}, {"split", 1}, {"slice", 64}});
  // Measured (H100). A step of codes is four bytes of a lane: to ask for a line takes as many requests as to read it.
  part.numbers.insert({"ahead", known(anchor.facts, "bits") < 16 ? 1 : 3});
  int64_t parts = std::max<int64_t>(1, known(anchor.facts, "parts"));
  part.numbers.insert({{"groups", 2}, {"wide", parts > 1 ? 128 : 256}, {"ring", 4}, {"some", 256}, {"exact", 0}});
  int64_t outer = known(anchor.facts, "outer"), inner = known(anchor.facts, "inner"),
          rows = known(anchor.facts, "rows");
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
  for (int64_t &wide = part.numbers.at("wide"); outer && wide > 16 && wide / 2 >= outer;)
    wide /= 2;
  if (rows && rows <= 64 && part.numbers.at("groups"))
    part.numbers.at("groups") = 1;
  int64_t &split = part.numbers.at("split"), &slice = part.numbers.at("slice");
  auto blocks = [&] { return outer / slice * split; };
  while (outer && split < 8 && blocks() < 2 * multiprocessors && inner / split >= 2 * ownDepth)
    split *= 2;
  while (outer && slice > 16 && blocks() < multiprocessors)
    slice /= 2;
  return part;
}

/// Attention by tensor cores: four warps of 16 rows. Where keys are in bf16, all numbers are one piece, as their own
/// rounding is no smaller. What does not fit gets fewer keys at a time, then fewer rows.
static PlanPart tensorAttention(const Anchor &anchor, const Numbers &given) {
  PlanPart part{anchor.family, given};
  int64_t few = 16;
  while (few < 64 && few < known(anchor.facts, "rows"))
    few += 16;
  part.numbers.insert({{"rows", 64}, {"keys", 64}, {"stages", 2}, {"warps", 4}, {"few", few}, {"split", 16}});
  part.numbers.insert({"pieces", known(anchor.facts, "bits") == 16 ? 1 : 3});
  part.numbers.insert({{"groups", 0}, {"wide", 128}, {"ring", 2}, {"turns", 1}});
  int64_t &keys = part.numbers.at("keys"), &rows = part.numbers.at("rows"), &warps = part.numbers.at("warps");
  auto fits = [&] { return !checkPart(part, anchor); };
  while (!fits() && !given.contains("keys") && keys > 16)
    keys -= 16;
  while (!fits() && !given.contains("rows") && !given.contains("warps") && rows > 16) {
    rows /= 2, warps = std::max<int64_t>(1, warps / 2);
    part.numbers.at("few") = std::min(part.numbers.at("few"), rows);
  }
  int64_t &groups = part.numbers.at("groups"), &wide = part.numbers.at("wide");
  if (given.contains("groups"))
    return part;
  groups = 2;
  while (!fits() && !given.contains("wide") && wide > 32)
    wide -= 16;
  if (!fits())
    groups = 0;
  return part;
}

static PlanPart partOf(const Anchor &anchor, const Numbers &given) {
  return anchor.family == "tile"     ? tensorTile(anchor, given)
         : anchor.family == "attend" ? tensorAttention(anchor, given)
                                     : cheapest(anchor, given);
}

std::vector<PlanPart> chooseParts(const std::vector<Anchor> &anchors, const ScheduleTable &schedules) {
  std::vector<PlanPart> parts;
  for (const Anchor &anchor : anchors) {
    const Numbers given = schedules.find(anchor.family, anchor.facts);
    PlanPart part = partOf(anchor, given);
    if (std::optional<std::string> refused = checkPart(part, anchor))
      throw std::runtime_error("a schedule of " + anchor.family + " cannot be: " + *refused);
    parts.push_back(std::move(part));
  }
  return parts;
}

static bool haveSameFamilies(const auto &ours, const auto &others) {
  return std::equal(ours.begin(), ours.end(), others.begin(), others.end(),
                    [](const auto &one, const auto &other) { return one.family == other.family; });
}

std::optional<std::vector<PlanPart>> partsLike(const std::vector<PlanPart> &others,
                                               const std::vector<Anchor> &anchors) {
  if (!haveSameFamilies(others, anchors))
    return std::nullopt;
  std::vector<PlanPart> parts;
  for (size_t i = 0; i < anchors.size(); ++i) {
    parts.push_back(partOf(anchors[i], others[i].numbers));
    if (checkPart(parts.back(), anchors[i]))
      return std::nullopt;
  }
  return parts;
}

std::optional<double> distanceOf(const std::vector<Anchor> &ours, const std::vector<Anchor> &others) {
  if (!haveSameFamilies(ours, others))
    return std::nullopt;
  double distance = 0;
  for (size_t i = 0; i < ours.size(); ++i)
    for (const auto &[name, value] : ours[i].facts)
      distance += std::abs(std::log2(double(value + 1) / double(known(others[i].facts, name.c_str()) + 1)));
  return distance;
}

std::optional<std::string> checkParts(const std::vector<PlanPart> &parts, const std::vector<Anchor> &anchors) {
  auto names = [](const auto &list) {
    std::vector<std::string> names;
    for (const auto &one : list)
      names.push_back(one.family);
    return listed(names);
  };
  if (!haveSameFamilies(parts, anchors))
    return "its parts are " + (parts.empty() ? "none" : names(parts)) + "; the kernel has " + names(anchors);
  for (size_t i = 0; i < parts.size(); ++i)
    if (std::optional<std::string> refused = checkPart(parts[i], anchors[i]))
      return parts[i].family + ": " + *refused;
  return std::nullopt;
}

/// Not always the widest: padding is read and multiplied like the rest.
int64_t weightTile(int64_t rows, int64_t depth, const ScheduleTable &schedules, const CpuTarget &target) {
  if (rows < 2)
    return 0;
  Facts facts = factsOf(target);
  facts["outer"] = rows, facts["inner"] = depth;
  std::map<std::string, int64_t> given = schedules.find("contract", facts);
  if (auto columns = given.find("columns"); columns != given.end())
    return fitted("columns", columns->second, {"contract", given}, facts);
  Estimate estimate({"contract", -1, facts});
  int64_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t tile = 4 * target.vector; tile >= target.vector; tile /= 2) {
    double padded = double((rows + tile - 1) / tile * tile) / double(rows);
    if (double cost = padded * estimate.ofPackedTile(tile); cost < least) {
      least = cost;
      best = tile;
    }
  }
  return best;
}

support::PackingRule packingRule(const ScheduleTable &schedules, const CpuTarget &target) {
  return {[schedules, target](int64_t rows, int64_t depth) { return weightTile(rows, depth, schedules, target); },
          target.device.empty()};
}

} // namespace quern::codegen
