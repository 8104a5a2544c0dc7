// The families of loops, their numbers and when these fit. Why declared: a number in a plan, a line of a schedule
// and a tuner's candidate are checked by one text before anything is compiled.
#include "codegen/schedule/Space.h"

#include "codegen/schedule/ContractionSpace.h"

#include <algorithm>
#include <stdexcept>

namespace quern::codegen {

bool Parameter::contains(int64_t value) const {
  if (value < least || value > most)
    return false;
  if (step)
    return (value - least) % step == 0;
  std::vector<int64_t> all = values();
  return std::find(all.begin(), all.end(), value) != all.end();
}

std::vector<int64_t> Parameter::values() const {
  std::vector<int64_t> all;
  for (int64_t value = least; value <= most; value = step ? value + step : value * 2)
    all.push_back(value);
  return all;
}

std::string Parameter::domain() const {
  auto text = [](int64_t number) { return std::to_string(number); };
  if (least == most)
    return text(least);
  int64_t second = step ? least + step : least * 2;
  return step == 1 ? text(least) + " to " + text(most) : text(least) + ", " + text(second) + " ... " + text(most);
}

const Parameter *Family::find(std::string_view wanted) const {
  for (const Parameter &parameter : parameters)
    if (parameter.name == wanted)
      return &parameter;
  return nullptr;
}

int64_t known(const Facts &facts, const std::string &name) {
  auto it = facts.find(name);
  return it == facts.end() ? 0 : it->second;
}

bool fitsRegisters(int64_t rows, int64_t columns, const Facts &facts) {
  int64_t vector = known(facts, "vector"), vectors = (columns + vector - 1) / vector;
  return rows * vectors + vectors + 1 <= known(facts, "registers");
}

bool fitsSide(int64_t side, int64_t columns, const Facts &facts) {
  int64_t vector = known(facts, "vector"), outer = known(facts, "outer"), tiles = (outer + columns - 1) / columns;
  return side == 1 ||
         (outer && tiles % side == 0 && side * ((columns + vector - 1) / vector) + 2 <= known(facts, "registers"));
}

static std::string text(int64_t number) {
  return std::to_string(number);
}

/// Rows stand in lanes; a step is one of keys or columns.
static std::optional<std::string> refuseLanes(const PlanPart &part, const Facts &facts) {
  int64_t rows = part["rows"], step = part["step"], vector = known(facts, "vector");
  if (rows % vector)
    return "rows " + text(rows) + " are no multiple of the target's vector of " + text(vector) + " floats";
  if (!fitsRegisters(step, rows, facts))
    return "rows " + text(rows) + " x step " + text(step) + " do not fit the target's " +
           text(known(facts, "registers")) + " registers of " + text(vector) + " floats";
  if (part["keys"] < step)
    return "keys " + text(part["keys"]) + " are less than a step of " + text(step);
  return std::nullopt;
}

static std::optional<std::string> refuseAttention(const PlanPart &part, const Facts &facts) {
  if (int64_t amx = part["amx"]; amx && !known(facts, "amx"))
    return "amx " + text(amx) +
           ", but only several queries whose products sum over one fixed dimension are multiplied so, on processors "
           "that have it";
  if (int64_t keys = part["keys"]; part["amx"] && keys < depthOfTile)
    return "keys " + text(keys) + ", but AMX multiplies " + text(depthOfTile) + " at a time";
  if (int64_t vector = known(facts, "vector"), split = part["split"]; split % vector)
    return "split " + text(split) + " is no multiple of the target's vector of " + text(vector) + " floats";
  return refuseLanes(part, facts);
}

static std::optional<std::string> refuseThreads(const PlanPart &part, const Facts &) {
  if (part["wide"] > part["group"])
    return "wide " + text(part["wide"]) + " is more than the group's " + text(part["group"]);
  return std::nullopt;
}

static std::optional<std::string> refuseScan(const PlanPart &part, const Facts &facts) {
  if (part["chunk"] && !known(facts, "keys"))
    return "chunk " + text(part["chunk"]) +
           ", but the recurrence is neither a memory of keys and values nor a delta rule";
  return std::nullopt;
}

/// The same of Hopper's warp groups: 64 rows for each, beside the one that copies, by 64 of the depth.
static std::optional<std::string> refuseGroups(const PlanPart &part, int64_t parts) {
  constexpr int64_t sharedBytes = 227 << 10, lineBytes = 128;
  int64_t groups = part["groups"], wide = part["wide"], mostSums = groups == 3 ? 64 : 128;
  if (!groups)
    return std::nullopt;
  if (int64_t bytes = ((64 * groups + parts * wide) * lineBytes + 16) * part["ring"]; bytes > sharedBytes)
    return "ring " + text(part["ring"]) + " takes " + text(bytes) + " bytes of a block's memory; there are " +
           text(sharedBytes);
  if (wide * parts / 2 > mostSums)
    return "wide " + text(wide) + " does not fit the registers of " + text(groups) + " groups";
  return std::nullopt;
}

/// What a block of threads shares and what its registers hold: of the least that cards with tensor cores have.
static std::optional<std::string> refuseTensor(const PlanPart &part, const Facts &facts) {
  constexpr int64_t sharedBytes = 99 << 10, registers = 65536, mostSums = 128, others = 64;
  int64_t rows = part["rows"], columns = part["columns"], parts = std::max<int64_t>(1, known(facts, "parts")),
          warps = part["warp_rows"] * part["warp_columns"];
  if (rows % (16 * part["warp_rows"]))
    return "rows " + text(rows) + " are no multiple of 16 for each of " + text(part["warp_rows"]) + " warps";
  if (columns % (16 * part["warp_columns"]))
    return "columns " + text(columns) + " are no multiple of 16 for each of " + text(part["warp_columns"]) + " warps";
  if (int64_t bytes = (rows + parts * columns) * (2 * part["depth"] + 16) * part["stages"]; bytes > sharedBytes)
    return "stages " + text(part["stages"]) + " take " + text(bytes) + " bytes of a block's memory; there are " +
           text(sharedBytes);
  int64_t sums = rows * columns * parts / (32 * warps);
  if (sums > mostSums || 32 * warps * (sums + others) > registers)
    return "rows " + text(rows) + " x columns " + text(columns) + " do not fit the registers of " + text(warps) +
           " warps";
  return refuseGroups(part, parts);
}

/// The same of Hopper's warp groups, which hold rows in registers.
static std::optional<std::string> refuseAttendGroups(const PlanPart &part, const Facts &facts) {
  constexpr int64_t sharedBytes = 227 << 10;
  int64_t groups = part["groups"], wide = part["wide"], depth = known(facts, "depth"), values = known(facts, "values");
  if (!groups || known(facts, "bits") == 32 || known(facts, "dots") != 1 || part["pieces"] > 1)
    return std::nullopt; // none of it is made
  // In shared memory lines of 32, 64 or 128 bytes, as many as it takes.
  auto line = [](int64_t numbers) { return numbers > 32 ? (numbers + 63) / 64 * 128 : numbers > 16 ? 64 : 32; };
  auto padded = [&](int64_t numbers) { return (line(numbers) * wide + 1023) / 1024 * 1024; };
  if (int64_t bytes = (padded(depth) + padded(values) + 32) * part["ring"] + 8 * groups; bytes > sharedBytes)
    return "ring " + text(part["ring"]) + " of wide " + text(wide) + " takes " + text(bytes) +
           " bytes of a block's memory; there are " + text(sharedBytes);
  // Scores, weights of the tile before, totals and rows.
  int64_t held = wide / 2 + wide / 4 + values / 2 + depth / 4, most = groups == 3 ? 120 : 192;
  if (held > most || values > 256)
    return "wide " + text(wide) + " beside values " + text(values) + " does not fit the registers of " + text(groups) +
           " groups";
  return std::nullopt;
}

/// Attention by tensor cores: the memory of a block and a warp's registers, as above. Rows, keys and values are each of `bits`
/// or all pieces; what only the run knows counts for nothing.
static std::optional<std::string> refuseAttend(const PlanPart &part, const Facts &facts) {
  constexpr int64_t sharedBytes = 99 << 10, registers = 65536, mostSums = 160, others = 80;
  int64_t rows = part["rows"], keys = part["keys"], warps = part["warps"], pieces = part["pieces"], few = part["few"],
          depth = known(facts, "depth"), values = known(facts, "values"), dots = known(facts, "dots"),
          sums = known(facts, "sums");
  bool wide = known(facts, "bits") == 32;
  if (rows % (16 * warps))
    return "rows " + text(rows) + " are no multiple of 16 for each of " + text(warps) + " warps";
  if (few % 16)
    return "few " + text(few) + " is no multiple of 16";
  if (wide && pieces < 3)
    return "pieces " + text(pieces) + ", but keys and values are no bf16: three hold f32's bits";
  auto bytes = [&](int64_t numbers, int64_t parts) { return 2 * numbers + 16 * parts; };
  int64_t ofRows = pieces * std::max(rows, few) * bytes(depth, dots),
          ofKeys = (wide ? pieces : part["stages"]) * keys * (bytes(depth, dots) + bytes(values, sums));
  if (!wide) // computed keys and values may be all pieces, in one slot
    ofKeys = std::max(ofKeys, pieces * keys * (bytes(depth, dots) + bytes(values, sums)));
  if (ofRows + ofKeys > sharedBytes)
    return "keys " + text(keys) + " beside rows " + text(rows) + " take " + text(ofRows + ofKeys) +
           " bytes of a block's memory; there are " + text(sharedBytes);
  int64_t held = rows / (16 * warps) * (dots * keys + values) / 2;
  if (held > mostSums || 32 * warps * (held + others) > registers)
    return "keys " + text(keys) + " beside values " + text(values) + " do not fit the registers of " + text(warps) +
           " warps";
  return refuseAttendGroups(part, facts);
}

static std::optional<std::string> refuseNothing(const PlanPart &, const Facts &) {
  return std::nullopt;
}

const std::vector<Family> &families() {
  static const std::vector<std::string_view> ofTarget = {"vector", "registers", "fused", "threads", "first", "second"},
                                             ofProduct = {"vector", "registers", "fused",    "threads", "first",
                                                          "second", "outer",     "inner",    "rows",    "tile",
                                                          "bits",   "levels",    "row_bits", "bytes",   "scaled",
                                                          "amx",    "parts"},
                                             ofAttention = {"vector", "registers", "fused", "threads",
                                                            "first",  "second",    "depth", "values"},
                                             ofForward = {"vector",  "registers", "fused",  "products",
                                                          "threads", "first",     "second", "depth",
                                                          "values",  "key_bits",  "amx"};
  static const Parameter rows{"rows", "rows of a register tile", 1, 64},
      columns{"columns", "columns of a register tile", 1, 512},
      unroll{"unroll", "steps of the reduction per iteration", 1, 64, 0},
      block{"row_block", "tiles of rows per task, whose inputs stay in the second cache", 1, 4096},
      beside{"beside", "groups of rows that are copied side by side, as they share lines of memory", 1, 64},
      dot{"dot", "vectors that a step of a dot product takes at once", 1, 16, 0},
      group{"group", "tiles of columns of a task", 1, 64},
      ahead{"ahead",
            "bytes ahead of what one row reads from memory that its lines are asked for; 0: none, nor by tiles", 0,
            16384, 512},
      amx{"amx", "tiles of 16 rows that AMX multiplies at a time, in place of `rows`; 0: it is not used", 0, 4};
  static const std::vector<Family> table = {
      {"attend",
       "attention, and sums of its gradient, by tensor cores",
       "",
       {{"rows", "queries of a block, with the heads that share their keys", 16, 256, 0},
        {"keys", "keys whose scores are held at a time", 16, 128, 16},
        {"stages", "tiles of keys and values that a block holds, where they are copied", 2, 6},
        {"warps", "warps along the rows", 1, 8, 0},
        {"few", "up to so many rows keys are divided among blocks; 0: never", 0, 64, 16},
        {"split", "such blocks", 1, 64, 0},
        {"pieces", "bf16 numbers that a row's or a weight's number is, if it is none", 1, 3},
        {"groups", "on Hopper: warp groups of 64 rows that multiply in a block; 0: as on other cards", 0, 3},
        {"wide", "on Hopper: keys whose scores are held at a time", 16, 256, 16},
        {"ring", "on Hopper: tiles of keys and values that a block holds", 2, 8},
        {"turns", "on Hopper: whether groups multiply in turn, so that one does while others compute weights", 0, 1}},
       {"vector", "registers", "depth", "values", "dots", "sums", "bits", "rows"},
       refuseAttend},
      {"attention",
       "scores, softmax and weighted sum, rows in lanes",
       "",
       {{"rows", "queries per register tile, with the heads that share their keys", 1, 256},
        {"step", "keys or columns of a register tile", 1, 64},
        {"unroll", "steps of a sum per iteration", 1, 64, 0},
        {"keys", "keys whose scores are held at a time", 1, 1 << 16},
        {"block", "rows of a task, which share copies of keys and values", 1, 1 << 16},
        {"split", "keys per task of a single query, at most", 1, 1 << 16},
        {"parts", "tasks of a single query, if each has a vector of keys", 1, 256},
        {"runs", "runs of such a task's keys, which are read in turns", 1, 16},
        dot,
        ahead,
        amx},
       ofForward,
       refuseAttention},
      {"contract",
       "a product with packed columns",
       "",
       {rows,
        columns,
        unroll,
        block,
        {"depth", "steps of the reduction whose columns stay in the second cache for all tiles of rows of a task", 1,
         1 << 16},
        {"tiles", "with fewer tiles of columns, other dimensions are tasks too", 1, 1 << 16},
        {"alone", "up to so many rows are multiplied one by one; 0: none", 0, 64},
        {"side", "tiles of columns that such a row is multiplied with at a time", 1, 16},
        {"few", "up to so many rows are multiplied with columns as they are stored, without a copy; 0: none", 0, 64},
        {"together", "rows of such a tile", 1, 16},
        group,
        ahead,
        amx},
       ofProduct,
       refusePacked},
      {"dense",
       "a product of values as they are stored, packed part by part",
       "contract",
       {rows,
        columns,
        unroll,
        block,
        {"depth", "steps of the reduction that are packed at a time", 1, 1 << 16},
        {"shallow", "up to so many parts of the depth, sums go from registers to the result", 0, 64},
        group,
        {"few", "up to so many rows read the weights of each head where they are stored; 0: none", 0, 64},
        dot,
        beside,
        amx},
       ofProduct,
       refuseDense},
      {"experts",
       "the gradient of weights that rows are routed to",
       "contract",
       {rows, columns, block, group, beside, amx},
       ofProduct,
       refuseExperts},
      {"gradient",
       "the gradient of attention, rows in lanes",
       "",
       {{"rows", "queries, or keys, per register tile", 1, 256},
        {"step", "keys, queries or columns of a register tile", 1, 64},
        {"unroll", "steps of a sum per iteration", 1, 64, 0},
        {"keys", "scores of a row that are held at a time", 1, 1 << 16},
        {"block", "rows of a task, which share copies", 1, 1 << 16}},
       ofAttention,
       refuseLanes},
      {"grouped",
       "a product whose weight is routed for each row",
       "contract",
       {rows,
        columns,
        unroll,
        block,
        ahead,
        amx,
        {"blocks", "such tiles per task", 1, 64},
        {"few", "up to so many rows of an expert, on average, go without AMX or copies of codes; 0: none", 0, 64}},
       ofProduct,
       refuseGrouped},
      {"map",
       "stages of their own: elementwise, and whatever no other family takes",
       "",
       {{"work", "elements per task", 1, 1 << 24}, {"most", "rows per task, at most", 1, 1 << 20}},
       ofTarget,
       refuseNothing},
      {"row",
       "sums within rows: norms, softmax",
       "",
       {{"lanes", "partial sums of a reduction", 1, 1024, 0},
        {"work", "elements per task", 1, 1 << 24},
        {"most", "rows per task, at most", 1, 1 << 20},
        {"inside", "elements that a row with a sum counts for, at least", 1, 1 << 24}},
       ofTarget,
       refuseNothing},
      {"scan",
       "a recurrence; keys and values: of the memory that it is, 0: it is none",
       "",
       {{"chunk", "positions that a memory or a delta rule computes by products of matrices; 0: one by one", 0, 64,
         16}},
       {"vector", "registers", "fused", "threads", "first", "second", "keys", "values"},
       refuseScan},
      {"tile",
       "a product by tensor cores; parts: products that share rows, as a gate and what it opens",
       "",
       {{"rows", "rows of a block's tile", 16, 256, 0},
        {"columns", "columns of a block's tile", 16, 256, 0},
        {"depth", "steps of the sum that are copied at a time", 16, 64, 0},
        {"stages", "such copies that a block holds", 2, 6},
        {"warp_rows", "warps along the rows", 1, 4, 0},
        {"warp_columns", "warps along the columns", 1, 8, 0},
        {"few", "up to so many rows weights are read once, without tensor cores; 0: none", 0, 8},
        {"split", "parts of the depth that are blocks of their own, where there are few rows", 1, 16, 0},
        {"slice", "columns of such a block, a part of a packed tile", 8, 128, 0},
        {"ahead", "steps of these weights that a block fetches before the launch before it has ended", 0, 64},
        {"groups", "on Hopper: warp groups of 64 rows that multiply in a block; 0: as on other cards", 0, 3},
        {"wide", "on Hopper: columns of a block's tile", 16, 256, 0},
        {"ring", "on Hopper: copies that a block holds, of 64 steps of the sum each", 2, 8},
        {"some", "on Hopper: up to so many rows blocks share the depth, and tiles are narrower; 0: none", 0, 512, 64},
        {"exact", "whether a code times its scale is three numbers of bf16 beside numbers of bf16; 0: one", 0, 1}},
       {"vector", "registers", "outer", "inner", "rows", "bits", "parts"},
       refuseTensor},
      {"threads",
       "all of a kernel on a device: a work-item for each element of each stage",
       "",
       {{"group", "work-items of a group", 1, 1024, 0},
        {"wide", "of these along the last dimension, at most, where there is another one", 1, 1024, 0}},
       ofTarget,
       refuseThreads},
  };
  return table;
}

std::string listed(std::vector<std::string> names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += (!i ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

const Family &family(std::string_view name) {
  std::vector<std::string> names;
  for (const Family &one : families()) {
    if (one.name == name)
      return one;
    names.emplace_back(one.name);
  }
  throw std::runtime_error("'" + std::string(name) + "' is no family; there are " + listed(names));
}

std::optional<std::string> checkPart(const PlanPart &part, const Anchor &anchor) {
  const Family &space = family(anchor.family);
  std::vector<std::string> names;
  for (const Parameter &parameter : space.parameters)
    names.emplace_back(parameter.name);
  for (const std::string &name : names)
    if (!part.numbers.count(name))
      return "'" + name + "' is missing; it has " + listed(names);
  for (const auto &[name, value] : part.numbers) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      return "'" + name + "' is none of its numbers; it has " + listed(names);
    if (const Parameter &parameter = *space.find(name); !parameter.contains(value))
      return name + " " + std::to_string(value) + " is not among " + parameter.domain();
  }
  return space.refuses(part, anchor.facts);
}

} // namespace quern::codegen
