// What a part of a kernel costs with given numbers, by a model of the machine: nothing is compiled, nothing is measured.
#ifndef QUERN_CODEGEN_SCHEDULE_ESTIMATE_H
#define QUERN_CODEGEN_SCHEDULE_ESTIMATE_H

#include "codegen/schedule/Space.h"

namespace quern::codegen {

/// A core, as what is known about a part says it. What no target says is a constant of Estimate.cpp, the same for all.
struct Core {
  double vector, registers, threads, first, second; ///< floats of a register, registers; bytes of the caches
  bool fused;                                       ///< products and sums in an instruction
  double products, operations;                      ///< of vectors that begin in a cycle: multiply-adds, all else
  double issued;                                    ///< instructions of a cycle
};

/// A weight and its rows as a step of a product reads them.
struct Formats {
  double bits, rowBits; ///< of a number
  double levels;        ///< of scales of the weight's codes; 0: none
  double bytes;         ///< products of bytes that an instruction sums
  double scaled;        ///< codes that a scale multiplies the sum of
};

class Estimate {
public:
  explicit Estimate(const Anchor &anchor);

  /// Of a point of the space, by the least that the part could take: 1 is the peak. Points of one part are compared, nothing
  /// else.
  double operator()(const PlanPart &part) const;
  /// Of the tile in registers alone, which does not depend on the loops around it.
  double ofTile(const PlanPart &part) const;
  /// The values of a number that are worth looking at, the most usual first: of what the model does not weigh, one.
  std::vector<int64_t> values(const Parameter &parameter) const;

  /// Of products with a weight that is packed in tiles of so many columns, with the best tile of rows.
  double ofPackedTile(int64_t columns) const;

private:
  /// Cycles until an instruction may add to what the one before it has summed.
  static constexpr double latency = 4;
  /// Rows are at addresses of their own, and of 16 general registers some count loops and hold columns.
  static constexpr int64_t addresses = 12;

  /// Of a step over a tile of so many rows and vectors of columns: cycles for each product of a vector.
  double ofStep(double rows, double vectors) const;
  /// The same of a step of rows in codes, a group's 32 of them taken together.
  double ofGroup(double rows, double vectors) const;
  bool multipliesIntegers() const; ///< rows and columns are codes
  /// The one that applies, by what products alone take, and with what tiles leave empty of the rows.
  double ofRows(double rows, double vectors) const;
  /// By AMX, of so many tiles of rows: cycles for each product of a vector, what is empty included.
  double ofTiles(double tiles, double vectors) const;
  bool hasShortGroups() const { return formats.levels > 1 && formats.bits == 6; } ///< of 16 codes, as q6_k's
  double packed(const PlanPart &part) const;
  double grouped(const PlanPart &part) const;
  double dense(const PlanPart &part) const;
  double dense(const PlanPart &part, double length) const;
  double lanes(const PlanPart &part) const;
  double lanesByTiles(const PlanPart &part) const;
  bool multipliesWords(const PlanPart &part) const;
  int64_t rowsTogether() const;
  bool takesCodesApart() const;
  double ofWords(const PlanPart &part, double depth, double length) const;
  double blocks(const PlanPart &part, double length) const;
  double fewRows(const PlanPart &part) const;
  double ofUnrolling(const PlanPart &part, double rows, double vectors) const;
  double instructions(double rows, double vectors) const;
  double decoding() const;
  double unpacking() const;
  double copying(const PlanPart &part) const;
  int64_t known(const char *fact, int64_t otherwise = 0) const;

  std::string family;
  Facts facts;
  Core core;
  Formats formats;
  double outer, inner; ///< columns and depth of a product; what only the run knows is taken to be usual
};

/// Of all parts together, by which plans of one kernel are ordered.
double estimate(const std::vector<PlanPart> &parts, const std::vector<Anchor> &anchors);

} // namespace quern::codegen
#endif
