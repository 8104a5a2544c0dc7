// A graph's node at a place, as values of a tile program.
#ifndef QUERN_CODEGEN_TILE_PLACES_H
#define QUERN_CODEGEN_TILE_PLACES_H

#include "codegen/tile/Program.h"

#include <functional>
#include <stdexcept>

namespace quern::codegen::tile {

/// Why a kernel is none of the tile producer's.
struct Refusal : std::runtime_error {
  using runtime_error::runtime_error;
};

/// Positions by the names of dimensions.
using Place = std::map<std::string, int>;

class Places {
public:
  Places(const KernelGraph &graph, Values &values) : graph(graph), v(values) {}

  /// What stands at the place of a contraction, and of a reduction.
  std::function<int(int node, const Place &at)> product, reduction;

  /// Throws Refusal for what no tile program computes.
  int at(int node, const Place &place);
  /// The position of each dimension where `coordinate` numbers them all.
  Place divided(const std::vector<Dim> &dims, int coordinate);
  /// The other way: the position in all of them together.
  int flat(const std::vector<Dim> &dims, const Place &place);
  int integer(Op op, int a, int b) { return v.apply(op, Kind::Int, {a, b}); }
  /// What the node makes of its operands' values.
  int elementwise(const Node &node, std::vector<int> operands);
  /// To be forgotten where another product is meant.
  void forget() { made.clear(); }

private:
  const KernelGraph &graph;
  Values &v;
  std::map<std::pair<int, std::vector<int>>, int> made;

  int make(int node, const Place &place);
  int joined(const Node &node, const Place &place);
  Place moved(const Node &node, const Place &place);
  int clamped(int position, int size);
  int asReal(int value);
};

/// The program's name, lengths and buffers. Throws Refusal for results that no tile program writes.
void declare(const KernelGraph &graph, Program &program);

} // namespace quern::codegen::tile
#endif
