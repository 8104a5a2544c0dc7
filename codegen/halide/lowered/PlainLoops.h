// Loops of a stage as Halide has lowered them, for passes of our own that put other statements in their place.
#ifndef QUERN_CODEGEN_HALIDE_LOWERED_PLAINLOOPS_H
#define QUERN_CODEGEN_HALIDE_LOWERED_PLAINLOOPS_H

#include "codegen/halide/lowered/Lets.h"

#include <Halide.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace quern::codegen {

/// Serial loops within each other, with one store in them. Their names are those of the schedule.
class PlainLoops {
public:
  /// `prefix`: of the loops' names in what Halide lowered, `FUNC.s0.` or `FUNC.s1.` for its update.
  PlainLoops(const std::string &prefix, const Halide::Internal::For *outermost);

  const Halide::Internal::Store *store() const { return stored; }
  Halide::Expr extent(const std::string &loop) const; ///< 1 where there is no such loop: one of one iteration is none
  int extentOf(const std::string &loop) const;        ///< which must be known
  /// A value at the first iteration of all loops, but so many further of one.
  Halide::Expr at(Halide::Expr value, const std::string &further = "", int by = 0) const;
  Halide::Expr strideOf(const Halide::Expr &index, const std::string &loop, int by = 1) const;

private:
  std::map<std::string, const Halide::Internal::For *> loops;
  Lets lets;
  const Halide::Internal::Store *stored = nullptr;
};

/// Loops of a stage, by their names in the schedule, and what takes the place of the outermost of them.
struct MarkedLoops {
  std::string prefix; ///< as of PlainLoops
  std::vector<std::string> names;
  std::function<Halide::Internal::Stmt(const Halide::Internal::For *)> replace;
};

/// Replaces them in what the pipeline becomes.
void replaceLoops(Halide::Pipeline &pipeline, std::vector<MarkedLoops> marked);

} // namespace quern::codegen
#endif
