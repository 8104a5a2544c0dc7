// Least cuts of small graphs.
#ifndef QUERN_PASSES_MINIMUMCUT_H
#define QUERN_PASSES_MINIMUMCUT_H

#include <limits>
#include <vector>

namespace quern::passes {

/// The least cut between two nodes by Dinic's algorithm ("Algorithm for solution of a problem of maximum flow in
/// networks with power estimation", 1970). Capacities are real numbers; `unlimited` edges are never cut.
class MinimumCut {
public:
  static constexpr double unlimited = std::numeric_limits<double>::infinity();

  explicit MinimumCut(size_t nodes) : edgesOf(nodes) {}
  void addEdge(size_t from, size_t to, double capacity);
  /// For each node whether it is on the source's side, of the cut nearest to the source. Some cut must be finite.
  std::vector<bool> sourceSide(size_t source, size_t sink);

private:
  struct Edge {
    size_t to;
    double capacity; // what is left of it; edge e ^ 1 goes back
  };
  std::vector<Edge> edges;
  std::vector<std::vector<size_t>> edgesOf;
  std::vector<int> level;
  std::vector<size_t> next;

  bool findLevels(size_t source, size_t sink);
  double push(size_t node, size_t sink, double flow);
};

} // namespace quern::passes
#endif
