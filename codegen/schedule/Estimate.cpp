// Takes: numbers of a part, what is known about it and the machine. Gives: cycles, by the peak's.
// Why a model and no table: a table holds for the processor that it was measured on; what decides (registers, caches, threads,
// bits of a number) is known about every target. It ranks points of one space, so only what differs between them is in it.
//
// A step of a tile is bound by its slowest part (products, loads, instructions, a sum's latency), and the rest is not hidden
// whole. Constants that no target says were fitted once, to kernels of Ice Lake, Zen 4 and Zen 5 with code for AVX2 and
// AVX-512 (docs/design/schedules.md); they are cores' habits, no plan's numbers.
#include "codegen/schedule/Estimate.h"

#include "support/Machine.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quern::codegen {

/// Of a cycle: instructions, loads.
static constexpr double issued = 5, loaded = 2;
static constexpr double tileLatency = 52; ///< of a product of AMX's tiles
/// Bytes of a cycle from the second cache, the third, and from memory where one core reads alone.
static constexpr double fromSecond = 32, fromThird = 16, fromMemory = 10;
/// Of a stream, what is fetched too late.
static constexpr double ahead = 0.5;
/// What a core does not hide of the work beside its slowest part.
static constexpr double exposed = 0.1;
/// Instructions that a core looks ahead, bytes that it fetches ahead of each stream, of so many columns in all, and the bytes
/// ahead with which it waits for memory as long as it reads.
static constexpr double window = 320, fetchedAhead = 2048, besideEachOther = 128, halfway = 600;
/// Of reading one more stream of memory, each time there are twice as many.
static constexpr double perStream = 0.015;
/// Of an instruction of a loop's body, each time it stands there: fetching and decoding, in slots of instructions.
static constexpr double perCopy = 0.004;
/// At the end all threads but one wait for the last task: for half of it.
static constexpr double unevenTasks = 0.5;
/// What is not hidden of reading rows from the third cache, one tile after the other.
static constexpr double inOrder = 0.3;
/// Of what does not stay in the second cache, by its part.
static constexpr double rereading = 0.2;
/// Of products by AMX, by the part of their tiles that the first cache does not hold.
static constexpr double fromFar = 0.25;

/// Bound by the slowest; the rest is not hidden whole.
static double together(std::initializer_list<double> parts) {
  double most = 0, sum = 0;
  for (double part : parts)
    most = std::max(most, part), sum += part;
  return most + exposed * (sum - most);
}

int64_t Estimate::known(const char *fact, int64_t otherwise) const {
  auto found = facts.find(fact);
  return found == facts.end() || !found->second ? otherwise : found->second;
}

Estimate::Estimate(const Anchor &anchor) : family(anchor.family), facts(anchor.facts) {
  support::Machine assumed = support::assumedMachine();
  core.vector = double(known("vector", 4)), core.registers = double(known("registers", 16));
  core.threads = double(known("threads", assumed.threads));
  core.first = double(known("first", assumed.caches[0])), core.second = double(known("second", assumed.caches[1]));
  core.fused = facts.contains("fused") ? known("fused") : core.vector > 4;
  core.issued = issued;
  // Of AVX-512 some cores begin twice as many: of tiles of columns the order stays then, as loads count more.
  core.products = core.vector < 16 ? 2 : 1, core.operations = core.vector < 16 ? 3 : 2;
  if (family == "attention" && core.vector >= 16 && known("products") == 2)
    core.products = 2, core.issued = issued / 2; // two threads share such a core: instructions are then what is scarce
  formats = {double(known("bits", 32)), double(known("row_bits", 32)), double(known("levels")),
             double(known("bytes", 2)), double(known("scaled", support::codedGroup))};
  outer = double(known("outer", support::assumed::columns)), inner = double(known("inner", support::assumed::columns));
}

/// Of a step of the depth. Without fused instructions a product overwrites a factor, all but the last a copy of it, and a
/// number of a row is spread by a second one.
double Estimate::instructions(double rows, double vectors) const {
  double products = core.fused ? rows * vectors : rows * (3 * vectors - 1);
  return products + vectors + rows * (core.fused ? 1 : 2);
}

double Estimate::ofStep(double rows, double vectors) const {
  double feed =
      family == "dense" ? 0 : vectors * core.vector * 4 / fromSecond * ahead; // dense: by where a part's strip is
  double step = together(
      {rows * vectors / core.products, (rows + vectors) / loaded, feed, instructions(rows, vectors) / core.issued});
  return std::max(step, latency) / (rows * vectors);
}

/// A group of codes: products of integers, which beside pairs are added by an instruction of their own, then one product and
/// one sum for its scales. Sums of groups that have no registers beside the group's are loaded and stored, which nothing hides.
double Estimate::ofGroup(double rows, double vectors) const {
  const double sums = rows * vectors, steps = formats.scaled / formats.bytes,
               each = steps * (formats.bytes == 4 ? 1 : 2) + 2;
  const double spilled = std::max(0.0, std::min(sums, 2 * sums + vectors + 2 - core.registers));
  const double stored = spilled * (core.vector < 16 ? 1 : 2);
  const double feed = vectors * steps * core.vector * 4 / fromSecond; // no lines of these are asked for
  const double cycles = together({sums * each / core.products, ((rows + vectors) * steps + vectors) / loaded, feed,
                                  sums * (each + 1) / issued, steps * latency});
  return (cycles + stored) / (formats.scaled * sums);
}

bool Estimate::multipliesIntegers() const {
  return formats.rowBits < 16 && formats.bits <= 8;
}

/// What tiles that cover a length hold, beside the length.
static double covered(double length, double tile) {
  return std::ceil(length / tile) * tile / length;
}

double Estimate::ofRows(double rows, double vectors) const {
  double length = double(known("rows", support::assumed::rows));
  double empty = (rows - 1) / 2 / std::max(length, rows); // of the last tile, half on average
  if (family == "dense") // a gradient's rows are as many as parameters have, or a batch of whole eights
    empty = covered(length, rows) - 1;
  return (multipliesIntegers() ? ofGroup(rows, vectors) : ofStep(rows, vectors)) * core.products * (1 + empty);
}

/// A product of tiles takes 16 cycles, whatever it holds, and its sum is there after 52; its operands come by 16 loads each, of
/// which half a cycle is one.
/// Tiles of codes are then scaled in vectors, a group at a time: stored, loaded, multiplied by a scale, added; of integers
/// converted, and multiplied by the row's scale, too; with minimums one more product. Each group is a sum of its own, of one tile
/// beside pieces, else of up to 128.
double Estimate::ofTiles(double tiles, double vectors) const {
  const bool integers = formats.rowBits < 16, coded = formats.levels > 0;
  const double size = 16, terms = double(known("amx", 1)), ofTile = integers ? 64 : 32;
  const double depth = hasShortGroups() ? 16 : coded && terms == 1 ? std::min(formats.scaled, 128.0) : 32;
  const double products = terms * std::ceil(depth / ofTile);
  const double held = coded ? 1 : std::min(2.0, vectors), across = coded ? 1 : std::min(2.0, tiles);
  const double loads = size / loaded * (coded ? products * (1 + 1 / terms) : terms * (across + held) / (across * held));
  const double operations = (integers ? 3 : 1) + (formats.levels > 1 ? 1 : 0);
  const double scaled = coded ? size * (1 + operations / core.operations) : 0;
  const double spilled = coded && tiles > 1 ? size * 2 : 0; // sums of a tile fill half of the registers
  const double chained = coded ? 0 : terms * tileLatency / (across * held);
  const double cycles = together({products * size, loads, chained, scaled + spilled});
  const double length = double(known("rows", support::assumed::rows));
  return cycles / (size * depth) * core.products * covered(length, size * tiles);
}

double Estimate::ofTile(const PlanPart &part) const {
  if (family == "attention" || family == "gradient")
    return lanes(part);
  if (double amx = part.tiles())
    return ofTiles(amx, std::ceil(part["columns"] / core.vector));
  const double columns = part["columns"], held = family == "dense" ? covered(outer, columns) : 1;
  return ofRows(part["rows"], std::ceil(columns / core.vector)) * held;
}

double Estimate::ofPackedTile(int64_t columns) const {
  double least = std::numeric_limits<double>::infinity();
  for (int64_t rows = 1; rows <= addresses; ++rows)
    if (rows == 1 || fitsRegisters(rows, columns, facts))
      least = std::min(least, ofRows(double(rows), double(columns) / core.vector));
  return least;
}

/// Loops' own instructions against copies of the body.
double Estimate::ofUnrolling(const PlanPart &part, double rows, double vectors) const {
  auto unroll = part.numbers.find("unroll");
  if (unroll == part.numbers.end())
    return 0;
  double copies = double(unroll->second), slots = 2 / copies + perCopy * instructions(rows, vectors) * copies;
  return exposed * slots / issued * core.products / (rows * vectors);
}

/// Instructions that make a vector of numbers of what is stored, before their scale: shifts, masks, a conversion; of
/// super-blocks with high bits more.
double Estimate::decoding() const {
  if (formats.bits >= 32)
    return 0;
  if (formats.bits == 16)
    return 3;
  return formats.levels > 1 ? 2 * formats.bits - 4 : 4;
}

/// Of a vector of a strip in f32: decoded, scaled, stored.
double Estimate::unpacking() const {
  return formats.bits >= 32
             ? 0
             : (decoding() + (formats.bits < 16 ? 2 : 1)) / core.operations + core.vector * 4 / fromSecond;
}

/// The same where many rows share the strip: AMX's tiles take packed bf16 as it is, and three pieces of f32.
double Estimate::copying(const PlanPart &part) const {
  if (!multipliesWords(part))
    return unpacking();
  return formats.bits == 16 ? 0 : 4 / core.operations + core.vector * 6 / fromSecond;
}

bool Estimate::multipliesWords(const PlanPart &part) const {
  return part.tiles() && family == "contract" && !formats.levels;
}

/// Of packed numbers by AMX: rows, in f32 three pieces of bf16, do not stay in the second cache beside a strip of columns, so each task
/// reads them from the third; a strip should leave half of the second to what passes.
double Estimate::ofWords(const PlanPart &part, double depth, double length) const {
  constexpr double fromThirdAlone = 4;
  auto pieces = [](double bits) { return bits > 16 ? 6.0 : 2.0; }; // bytes
  const double size = pieces(formats.rowBits), columns = part["group"] * double(known("parts", 1)) * part["columns"];
  const double strip = columns * depth * pieces(formats.bits);
  const double rows = length * inner * size; // whatever a block and a part have: a task reads all of its own
  const double far = std::clamp((rows + strip) / core.second - 0.5, 0.0, 1.0);
  const double totals = depth < inner ? 40 / depth : 0; // read and written for each part
  return (far * size / fromThirdAlone / (columns / core.vector) + totals) * core.products +
         std::max(0.0, 2 * strip / core.second - 1);
}

/// Blocks of rows that share a strip of columns: the strip is fetched, and unpacked, for each; a block stays in the second
/// cache beside it, and blocks are tasks.
double Estimate::blocks(const PlanPart &part, double length) const {
  const double amx = part.tiles();
  double rows = amx ? 16 * amx : part["rows"], columns = part["columns"], vectors = std::ceil(columns / core.vector);
  double tiles = std::max(1.0, std::ceil(length / rows)), block = std::min<double>(part["row_block"], tiles);
  double products = family == "grouped" ? 8 : 1; // experts
  double tasks = std::max(1.0, products * tiles / block * std::ceil(outer / columns));
  double fetched = columns * formats.bits / 8 / fromThird * ahead;
  const bool pieces = amx && known("amx") > 1; // streams of tiles wait less
  double perBlock = (fetched + vectors * copying(part)) * core.products / (rows * block * vectors);
  double depth = family == "contract" ? std::min<double>(part["depth"], inner) : inner;
  if (multipliesWords(part)) {
    const double count = std::ceil(tiles / block),
                 longest = block * count / tiles; // blocks; of tasks, beside their mean
    return perBlock * longest + ofWords(part, depth, length) +
           ofTiles(amx, vectors) * unevenTasks * (core.threads - 1) * part["group"] * longest / tasks;
  }
  double totals = depth < inner ? 4 / depth * core.products : 0; // read and written for each part
  // As they are multiplied: in pairs, in codes; three pieces of f32.
  const bool pairs = formats.rowBits == 16 && formats.bits == 16;
  const double size = pieces ? 6 : amx || pairs || multipliesIntegers() ? formats.rowBits / 8 : 4;
  double held = (part["row_block"] * rows + columns) * depth * size;
  double beyond = std::max(0.0, held / core.second - 1);
  double share = amx ? ofTiles(amx, vectors) : 1; // of what the products take
  // Tiles of codes' rows and columns, where they come from the second cache.
  const double near = (rows * size + columns * 2) * depth;
  const double far = amx && formats.levels > 0 && formats.rowBits >= 16 ? std::max(0.0, 1 - core.first / near) : 0;
  return perBlock + totals +
         share *
             (fromFar * far + unevenTasks * (core.threads - 1) / tasks + (pieces ? rereading / 4 : rereading) * beyond);
}

/// A row or a few against a weight from memory: each by itself, or all in a tile. Of the time that reading takes.
double Estimate::fewRows(const PlanPart &part) const {
  double rows = part["rows"], vectors = std::ceil(part["columns"] / core.vector), side = part["side"];
  double bytes = core.vector * formats.bits / 8, reading = bytes / fromMemory;
  // What instructions do for a vector of the weight. Integers: an instruction sums several products, scales are a group's.
  const bool integers = multipliesIntegers();
  const double share = integers ? (formats.bytes == 4 ? 0.25 : 0.5) : 1;
  // Codes that stand in their words are a mask and a conversion; first high bits come to the low ones.
  const bool stand =
      formats.bits < 8 || (formats.bits == 8 && formats.levels == 1 && formats.scaled <= support::codedGroup);
  const double ofCode = stand ? formats.bits > 4 && formats.bits < 8 ? 3 : 2 : decoding();
  // Super-blocks have a group's sums and units of scales beside the sums: what has no register is written and read again.
  const double held = formats.levels > 1 ? 3 * side * vectors : 0;
  const double spilled = std::max(0.0, held - core.registers) / (side * vectors);
  double each = integers ? share * (formats.bits == 8 ? 1 : 1.5) + 1.4 : (core.fused ? 1 : 3) + ofCode + spilled;
  double aheadAlone =
      window * bytes / (each + 1 / (side * vectors)) + fetchedAhead * std::min(side, besideEachOther / part["columns"]);
  double step = together({each / core.operations, share / core.products}), chained = share * latency / (side * vectors);
  double waiting = reading * halfway / aheadAlone; // whatever the instructions take
  double alone = (together({reading, std::max(step, chained)}) + waiting) * (1 + perStream * std::log2(side));
  double again = std::max({step, chained, bytes / fromSecond});
  // In a tile, products of rows that are not there delay what is read next; codes are unpacked first, then multiplied.
  double products =
      rows * (ofStep(rows, vectors) * share * (integers ? 1.2 : 1) + (integers ? 0.1 / core.products : 0));
  double aheadTiled = window * vectors * bytes / instructions(rows, vectors);
  double tiled;
  const bool strip = formats.bits < 32 && !(integers && formats.bits == 8 && formats.bytes == 4);
  if (double amx = part.tiles(); amx && !integers)
    tiled = reading + 2 * copying(part) +
            16 * amx * ofTiles(amx, vectors); // codes become words of two, then all waits for them
  else if (amx)
    tiled = together({reading, unpacking() + 16 * amx * ofTiles(amx, vectors)});
  else
    tiled = !strip     ? together({reading * (1 + halfway / aheadTiled), products})
            : integers ? together({reading, each}) + 2 + products
                       : together({reading, unpacking()}) + products;
  // A few at a time by columns as they come, which are decoded once for these.
  const double atOnce = part["together"], ofFew = (core.fused ? 1 : 3) * atOnce + decoding();
  const double stepOfFew = together({ofFew / core.operations, atOnce / core.products});
  const double aheadFew = window * bytes / ofFew + fetchedAhead;
  const double firstFew = together({reading, stepOfFew}) + reading * halfway / aheadFew;
  auto several = [&](double count) {
    return firstFew + (std::ceil(count / atOnce) - 1) * std::max(stepOfFew, bytes / fromSecond);
  };
  double sum = 0;
  int64_t exact = known("rows"), most = exact ? std::min<int64_t>(exact, 8) : 8;
  for (int64_t count = exact ? most : 1; count <= most; ++count)
    sum += (count <= part["alone"] ? alone + double(count - 1) * again
            : count <= part["few"] ? several(double(count))
                                   : tiled) /
           reading / double(most);
  return sum;
}

double Estimate::packed(const PlanPart &part) const {
  double rows = part["rows"], vectors = std::ceil(part["columns"] / core.vector);
  double length = double(known("rows", support::assumed::rows * (multipliesWords(part) ? 2 : 1)));
  double many = ofTile(part) + (part.tiles() ? 0 : ofUnrolling(part, rows, vectors)) + blocks(part, length);
  bool steps = part.numbers.contains("alone");
  return many + (steps ? exposed * exposed * fewRows(part) : 0); // rows of tiles are chosen for many
}

/// With AMX few rows keep the loops of vectors, which are chosen as without.
double Estimate::grouped(const PlanPart &part) const {
  if (!part.tiles())
    return packed(part);
  PlanPart few = part, many = part;
  few.numbers["amx"] = 0, many.numbers["row_block"] = part["blocks"];
  return packed(many) + exposed * exposed * packed(few);
}

/// As many rows as a step of training has at least, and more: a strip is copied for each block, which with AMX takes longer than a
/// short block's products, so blocks are as long as the cache lets them be. Of vectors half of the second counts: it is to
/// decide on blocks, which fewer rows leave open, and of the rest little.
double Estimate::dense(const PlanPart &part) const {
  if (known("rows"))
    return dense(part, double(known("rows")));
  const double least = dense(part, support::assumed::rows);
  return known("amx") ? least + dense(part, 2 * support::assumed::rows)
                      : least + dense(part, 4 * support::assumed::rows) / 2;
}

/// A strip of some tiles of columns and a part of the depth is copied for each block of rows.
double Estimate::dense(const PlanPart &part, double length) const {
  // Bytes of what is copied; pieces of f32 are made on the way.
  const double amx = part.tiles(), size = !amx ? 4 : std::max(formats.bits, formats.rowBits) > 16 ? 6 : 2;
  double rows = amx ? 16 * amx : part["rows"], columns = part["columns"], vectors = std::ceil(columns / core.vector);
  double group = part["group"], depth = part["depth"];
  double tiles = std::max(1.0, std::ceil(length / rows)), block = std::min<double>(part["row_block"], tiles);
  double groups = std::max(1.0, std::ceil(std::ceil(outer / columns) / group));
  double whole = double(known("depth", 1 << 12)), parts = std::ceil(whole / depth);
  // A strip's lines are side by side as far as the group goes: the first of them is waited for.
  double line = group * columns * size, copied = (line / fromMemory + 20) / (group * vectors);
  // Transposed on the way, f32 by blocks in registers, else what is read and written of a vector of columns stays near or not.
  if ((amx || formats.bits < 32) && 2 * core.vector * std::min(depth, whole) * size > core.first)
    copied *= 2;
  double perBlock = copied / (rows * tiles) * std::ceil(tiles / block);
  const bool direct = parts <= part["shallow"];   // a strip of the whole depth, no totals
  double totals = direct ? 4 / whole : 8 / depth; // read and written for each part; without them results are, in one go
  const double each = direct ? whole : depth, blockRows = rows * part["row_block"], heldRows = blockRows * each * size;
  double held = group * columns * each * size + (direct ? 0 : blockRows * group * columns * 4);
  // A group of columns reads all rows, or, if they do not stay beside it, each tile of columns.
  const bool again = !amx && held + heldRows > core.second;
  double rowsAgain = size / fromThird / ((again ? 1 : group) * vectors) * (amx ? 1 : inOrder);
  double beyond = std::max(0.0, (held + (amx ? heldRows : 0)) / core.second - 1);
  const bool fromFirst = (columns + rows) * each * 4 <= core.first;
  // Whole blocks are the longest tasks, and end in rounds of all threads.
  double full = std::max(1.0, std::floor(tiles / block)) * groups, all = tiles * groups;
  double rounds = std::max(1.0, std::ceil(full / core.threads) * block * core.threads / all) - 1;
  double waits = rounds + unevenTasks / 4 * (core.threads - 1) / full;
  double fed = fromFirst ? 0 : exposed * core.vector * 4 / fromSecond * ahead / rows;
  const double products = ofTile(part) + (amx ? 0 : ofUnrolling(part, rows, vectors));
  const double copies = core.products * (perBlock + rowsAgain + totals + fed);
  return products + copies + (amx ? products + copies : 1) * (rereading * beyond + waits);
}

/// Attention and its gradient: rows in lanes, steps of keys or columns beside them. Rows of a tile see keys up to the last
/// one's.
double Estimate::lanes(const PlanPart &part) const {
  if (part.tiles())
    return lanesByTiles(part);
  bool gradient = family == "gradient";
  double vectors = part["rows"] / core.vector, step = part["step"];
  double queries = double(gradient ? support::assumed::gradientQueries : support::assumed::queries),
         depth = double(known("depth", 64)), values = double(known("values", 64));
  double tile =
      (ofStep(step, vectors) * core.products + ofUnrolling(part, step, vectors)) / double(known("pairs") ? 2 : 1);
  // Behind the columns of a row's sums stand its largest score and its total (AttentionBlocks.cpp).
  double sums = values + (gradient ? 0 : 2);
  double ragged = (std::ceil(depth / step) + std::ceil(sums / step)) * step / (depth + values);
  // A gradient's tile has the values of a score beside its sums: a third of the registers.
  double demand = step * vectors + vectors + 1;
  double spilled = gradient && demand > 0.7 * core.registers ? 1 : 0;
  double masked = part["rows"] / queries;
  // Scores and weights of the rows, keys and values of a part; in a gradient those of each sum. A quarter is the rest's.
  double held =
      part["keys"] * 4 * (gradient ? 6 * part["rows"] + 2 * (depth + values) : 2 * part["rows"] + depth + values);
  double beyond = std::max(0.0, held / (0.75 * core.second) - 1);
  double perPart = 2 * (values + 2) / (part["keys"] * (depth + values)) * core.products * latency;
  double block = part["block"];
  double copies = 25 / block + block / 2 / 1024; // shared by a block, which a mask leaves ragged as a whole
  return tile * ragged * (1 + masked) + spilled + beyond + perPart + copies;
}

/// The same by AMX: steps of 32 numbers of the depth and of keys, 16 columns. Scores and words of weights pass the first cache
/// several times, so few keys at a time are held; copies are in pieces, and values are turned.
double Estimate::lanesByTiles(const PlanPart &part) const {
  const double rows = 16 * part.tiles(), keys = part["keys"], block = part["block"];
  const double depth = double(known("depth", 64)), values = double(known("values", 64)),
               bytes = known("amx") > 3 ? 6 : 2;
  const double padded = (std::ceil(depth / 32) * 32 + std::ceil(values / 16) * 16) / (depth + values);
  const double masked = rows / double(support::assumed::queries);
  const double ofBlock = keys * rows * (4 + 8), held = ofBlock + keys * (depth + values) * bytes;
  const double beyondFirst = std::max(0.0, std::log2(ofBlock / core.first));
  const double beyond = std::max(0.0, held / (0.75 * core.second) - 1);
  const double perPart = 4 * (values + 2) / (keys * (depth + values)) * core.products * latency;
  const double copies = (bytes > 2 ? 100 : 50) / block + block / 2 / 1024; // of pieces they take twice as long
  return ofTiles(part.tiles(), 2) * padded * (1 + masked) + exposed / 4 * beyondFirst + beyond + perPart + copies;
}

double Estimate::operator()(const PlanPart &part) const {
  if (family == "contract")
    return packed(part);
  if (family == "grouped")
    return grouped(part);
  if (family == "dense")
    return dense(part);
  if (family == "experts")
    return ofTile(part);
  if (family == "attention" || family == "gradient")
    return lanes(part);
  return 1;
}

double estimate(const std::vector<PlanPart> &parts, const std::vector<Anchor> &anchors) {
  double product = 1;
  for (size_t i = 0; i < parts.size(); ++i)
    product *= Estimate(anchors[i])(parts[i]);
  return product;
}

} // namespace quern::codegen
