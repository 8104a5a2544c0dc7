// Takes: a small graph with capacities. Gives: which nodes are on the source's side of a least cut.
#include "passes/MinimumCut.h"

#include <algorithm>
#include <cassert>

using namespace quern::passes;

// Capacities are sizes and costs of at least a thousandth; what is left below this is rounding.
static constexpr double nothing = 1e-9;

void MinimumCut::addEdge(size_t from, size_t to, double capacity) {
  edgesOf[from].push_back(edges.size());
  edges.push_back({to, capacity});
  edgesOf[to].push_back(edges.size());
  edges.push_back({from, 0});
}

bool MinimumCut::findLevels(size_t source, size_t sink) {
  level.assign(edgesOf.size(), -1);
  level[source] = 0;
  std::vector<size_t> queue = {source};
  for (size_t i = 0; i < queue.size(); ++i)
    for (size_t e : edgesOf[queue[i]])
      if (edges[e].capacity > nothing && level[edges[e].to] < 0) {
        level[edges[e].to] = level[queue[i]] + 1;
        queue.push_back(edges[e].to);
      }
  return level[sink] >= 0;
}

double MinimumCut::push(size_t node, size_t sink, double flow) {
  if (node == sink)
    return flow;
  for (; next[node] < edgesOf[node].size(); ++next[node]) {
    size_t e = edgesOf[node][next[node]];
    if (edges[e].capacity <= nothing || level[edges[e].to] != level[node] + 1)
      continue;
    double pushed = push(edges[e].to, sink, std::min(flow, edges[e].capacity));
    if (pushed > nothing) {
      edges[e].capacity -= pushed;
      edges[e ^ 1].capacity += pushed;
      return pushed;
    }
  }
  return 0;
}

std::vector<bool> MinimumCut::sourceSide(size_t source, size_t sink) {
  while (findLevels(source, sink)) {
    next.assign(edgesOf.size(), 0);
    while (double flow = push(source, sink, unlimited)) {
      assert(flow < unlimited && "no cut is finite");
      (void)flow;
    }
  }
  std::vector<bool> side(edgesOf.size());
  for (size_t node = 0; node < side.size(); ++node)
    side[node] = level[node] >= 0;
  return side;
}
