// Takes: a number of a family. Gives: the values of it that the model weighs, or the one that follows from what is known.
#include "codegen/schedule/Estimate.h"

#include "support/Machine.h"

#include <algorithm>

namespace quern::codegen {

static std::vector<int64_t> twice(int64_t from, int64_t to) {
  std::vector<int64_t> values;
  for (int64_t value = from; value <= to; value *= 2)
    values.push_back(value);
  return values;
}

static std::vector<int64_t> multiples(int64_t of, int64_t most) {
  std::vector<int64_t> values;
  for (int64_t value = of; value <= most; value += of)
    values.push_back(value);
  return values;
}

/// Of packed f32 that AMX multiplies: rows that vectors multiply at a time, as many as registers hold; else 0.
int64_t Estimate::rowsTogether() const {
  int64_t rows = formats.bits == 32 && formats.rowBits >= 16 && known("amx") ? 6 : 0;
  while (rows && !fitsRegisters(rows, known("tile", int64_t(core.vector)), facts))
    --rows;
  return rows;
}

/// Whether a row's products take so many instructions for a byte of codes that requests for the next few iterations come too late
/// (measured: of f32 rows all integers in groups of 32, of int8 rows what has high bits; not q4_k).
bool Estimate::takesCodesApart() const {
  const bool integers = formats.levels > 0 && formats.scaled <= support::codedGroup;
  return integers && (formats.rowBits >= 16 || (formats.levels > 1 && formats.bits > 4));
}

std::vector<int64_t> Estimate::values(const Parameter &parameter) const {
  const std::string name(parameter.name);
  const int64_t vector = int64_t(core.vector), threads = int64_t(core.threads);
  const bool lanes = family == "attention" || family == "gradient";
  if (name == "rows" && lanes)
    return multiples(vector, 8 * vector);
  if (name == "rows")
    return multiples(1, known("rows") ? std::min(known("rows"), addresses) : addresses);
  if (name == "columns") // no wider than what there is
    return known("tile")                                ? std::vector<int64_t>{known("tile")}
           : known("outer") && known("outer") <= vector ? std::vector<int64_t>{vector}
           : family == "dense" ? multiples(vector, std::min<int64_t>(4 * vector, 2 * int64_t(outer) - 1))
                               : twice(vector, std::min<int64_t>(4 * vector, 2 * int64_t(outer) - 1));
  if (name == "unroll")
    return lanes ? std::vector<int64_t>{4} : twice(1, 8);
  if (name == "row_block" && family == "experts") // of few rows each
    return {16};
  if (name == "blocks") // a chunk of slots is an expert's at least
    return {4};
  if (name == "row_block") // an eighth more or less is the same
    return known("rows") || family != "dense"
               ? std::vector<int64_t>{1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64}
               : std::vector<int64_t>{1, 2, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128};
  if (name == "alone")
    return {0, 1, 2, 3, 4, 5, 6, 7, 8};
  if (name == "side")
    return {1, 2, 3, 4};
  if (name == "amx") // short groups leave too little to a tile between two scales
    return known("amx") && !hasShortGroups() ? std::vector<int64_t>{0, 1, 2} : std::vector<int64_t>{0};
  if (name == "group" && family == "dense")
    return twice(1, 8);
  if (name == "group" && family == "contract")
    return known("amx") && !formats.levels ? twice(1, 4) : std::vector<int64_t>{1};
  if (name == "depth" && family == "contract")
    return {256, 512, 1024, 2048, parameter.most};
  if (name == "depth")
    return twice(64, known("amx") ? 4096 : 1024);
  if (name == "step" && family == "attention" && known("pairs"))
    return multiples(2, 16);
  if (name == "step" && family == "attention")
    return {1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 16};
  if (name == "step")
    return twice(1, 16);
  if (name == "keys")
    return twice(64, 2048);
  if (name == "block" && family == "attention") // whole tiles of one, two, three or four vectors of 16
    return {96, 128, 192, 256, 384, 512};
  if (name == "block")
    return twice(96, 384);
  // What follows from one fact alone.
  if (name == "tiles" || name == "parts") // two tasks for a thread, at least
    return {std::clamp<int64_t>(2 * threads, 4, 256)};
  if (name == "lanes") // as many sums as hide a sum's latency
    return {int64_t(latency) * vector};
  if (name == "dot")
    return {int64_t(latency)};
  if (name == "ahead" && family == "contract") // what a core reads while a line is on its way, in four streams or fewer
    return {core.vector < 16 ? 512 : known("ahead") == 2 && takesCodesApart() ? 8192 : 2048};
  if (name == "ahead" && family != "tile") // in one; of short runs of keys less
    return {family != "attention" || known("ahead") != 2 ? 2048 : core.vector < 16 ? 1024 : 512};
  if (name == "few" && family == "grouped" && known("amx")) // measured: of codes one row is worth a tile
    return {formats.rowBits < 16 ? 0 : known("amx") > 1 ? 16 : 12};
  // Measured: a copy gains least where pairs of bytes are summed.
  if (name == "few" && family == "grouped" && multipliesIntegers())
    return {core.vector >= 16 ? 6 : formats.bits < 8 ? 32 : 16};
  if (name == "few" && family == "grouped")
    return {formats.levels > 1 ? 1 : 12};
  if (name == "few" && family == "contract" && rowsTogether()) // measured: a copy in pieces takes longer for fewer rows
    return {24};
  if (name == "few" && family == "contract") // in f32 a tile of rows has no copy either
    return formats.bits < 32 && formats.rowBits >= 16 ? std::vector<int64_t>{0, 8} : std::vector<int64_t>{0};
  if (name == "together" && rowsTogether())
    return {rowsTogether()};
  if (name == "together")
    return {4};
  if (name == "few") // weights of each head, in place
    return {known("heads") && known("rows") <= 8 ? 8 : 0};
  // What takes a task long enough that handing it over (about a microsecond) is a tenth of it.
  if (name == "work")
    return {family == "row" ? 16384 : 32768};
  if (name == "most")
    return {family == "row" ? 64 : 4096};
  if (name == "inside") // an expression's set-up in elements
    return {512};
  if (name == "split")
    return {8 * std::max<int64_t>(vector, 16)};
  if (name == "shallow")
    return {2};
  // Streams that a core reads side by side, as of weights. By measurement (docs/design/attention.md): keys of two bytes in one on AMD's.
  if (name == "runs")
    return {core.vector < 16 ? 4 : known("ahead") == 2 && known("key_bits", 32) < 32 ? 1 : 2};
  if (name == "beside" || name == "group") // of experts: groups share lines of memory
    return {family == "threads" ? 64 : 8};
  if (name == "wide")
    return {64};
  return {parameter.least}; // chunk: one position at a time gives the same sums on all machines
}

} // namespace quern::codegen
