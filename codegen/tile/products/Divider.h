// From a kernel's products to tile programs: what DivideProducts.cpp and Results.cpp share.
#ifndef QUERN_CODEGEN_TILE_PRODUCTS_DIVIDER_H
#define QUERN_CODEGEN_TILE_PRODUCTS_DIVIDER_H

#include "codegen/tile/Operands.h"
#include "codegen/tile/products/DivideProducts.h"
#include "codegen/tile/products/Products.h"

namespace quern::codegen::tile {

/// Makes a kernel's variants one after the other; what it holds between two calls is that of the variant at hand.
class Divider {
public:
  Divider(const KernelGraph &graph, const ProductNumbers &numbers, Program &program)
      : graph(graph), numbers(numbers), p(program), v(program.values), places(graph, program.values) {}
  void run();

private:
  const KernelGraph &graph;
  const ProductNumbers &numbers;
  Program &p;
  Values &v;
  Places places;
  std::vector<Factors> products;
  std::optional<Fusion> fusion;
  std::map<int, int> sums, reduced; // of a node: the buffer of what it makes in the variant that is being made
  Variant *current = nullptr;
  int wide = 0, shares = 0; // of an asynchronous product in it: columns of a tile, parts of the depth (0: one)

  int row() { return v.coordinate(Coordinate::Row); }
  int column() { return v.coordinate(Coordinate::Column); }
  int matrix() { return v.coordinate(Coordinate::Matrix); }
  int depth() { return v.coordinate(Coordinate::Depth); }

  Operand staged(int node, const std::vector<int> &pieces, const Axis &own, Coordinate ownIs, const Factors &f,
                 const Place &part, int plain, Variant &variant);
  Place partOf(const Fusion *fused, size_t part);
  Place placeOf(const Factors &f, const Fusion *fused, size_t part, int along);
  void fuse(const Fusion &fused, Stage &stage, const std::function<int(int64_t part)> &sumOf);
  void sumParts(const Factors &f, Stage stage, Variant &variant);
  int sumsOf(const Factors &f, int64_t split);
  void product(const Factors &f, bool all, Variant &variant);
  void dots(const Factors &f, int most, Variant &variant);
  void results(bool all, Variant &variant);
  void sumsFor(int split);
  int added(int buffer, std::vector<int> positions, int64_t parts);
  int stored(int node, const Place &at, int split);
  int statistic(int node, const Place &at, const Factors &f, Stage &stage, std::map<int, int> &made);
  int reduction(int node, const Place &at, int split);
  bool asTensor(Operand &operand, const Numbered &own, const Numbered &length, int tile, Variant &variant);
  bool variant(const std::string &name, int few, bool all, int capability = 80, int some = 0);
};

} // namespace quern::codegen::tile
#endif
