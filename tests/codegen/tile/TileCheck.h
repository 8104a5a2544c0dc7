// What tests ask of tile programs: both lowerings against plain loops, and whether faults in a program's text show.
#ifndef QUERN_TESTS_CODEGEN_TILE_TILECHECK_H
#define QUERN_TESTS_CODEGEN_TILE_TILECHECK_H

#include "tests/codegen/support/Compare.h"
#include "tests/codegen/tile/TileRun.h"

#include <random>

namespace quern::codegen::tile {

struct Maker : GraphMaker {
  int widen(int x) { return elementwise(Op::Widen, {x}); }
  int narrow(int x) { return elementwise(Op::Narrow, {x}); }
  int stored(std::vector<Dim> dims) { return argument(Storage::BF16, std::move(dims)); }
  int packed(std::vector<Dim> dims, int64_t tile = 64) { return weight(std::move(dims), tile, Storage::BF16); }
};

/// Both lowerings of every variant that the numbers give. `what`: for messages.
void checkVariants(const KernelGraph &graph, const Numbers &numbers, const std::vector<Lengths> &lengths,
                   double tolerance, const std::string &what, std::mt19937 &random);

/// A variant whose text is changed: a fault must show in some order of its threads and copies.
class Faults {
public:
  Faults(const KernelGraph &graph, const Program &program, size_t variant, std::string ptx, Lengths lengths,
         double tolerance = 1e-3);
  bool isRight(const std::string &text) const;
  /// The text with the `number`th of `what` replaced; it must be there.
  std::string planted(const std::string &what, const std::string &with, int number = 0) const;
  /// Whether that fault shows.
  bool shows(const std::string &what, const std::string &with, int number = 0) const {
    return !isRight(planted(what, with, number));
  }

private:
  const KernelGraph &graph;
  const Program &program;
  size_t variant;
  std::string ptx;
  Lengths lengths;
  std::vector<DenseTensor> arguments;
  std::vector<double> want;
  double tolerance;
};

} // namespace quern::codegen::tile
#endif
