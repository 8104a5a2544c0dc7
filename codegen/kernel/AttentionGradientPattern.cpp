// Takes: a kernel's graph. Gives: of the sums of attention's gradient in it which dimensions are rows and heads, and what
// is computed along with them. The gradients of queries, keys and values are each a product of a matrix of keys x
// queries, made element by element from products, with a value; which of them it is makes no difference to the loops.
//
//   p = exp(score(contract(q, k)) - most) * share;   dp = contract(do, v);   ds = p * (dp - delta) ...
//   dq = sum of ds k over keys                       dv = sum of p do, dk = sum of ds q over queries, in one kernel
//   db = sum of ds along diagonals                   a kernel of its own
#include "codegen/kernel/AttentionGradient.h"

#include <algorithm>
#include <stdexcept>

namespace quern::codegen {

namespace {
class GradientReader {
public:
  explicit GradientReader(const KernelGraph &graph) : graph(graph) {}
  std::optional<GradientPattern> read();

private:
  void readSum(int node);
  void readDiagonals(int node);
  void readDots();
  void readDims();
  void readInside();

  const KernelGraph &graph;
  GradientPattern g;
  std::vector<int> products, region;
};
} // namespace

void GradientReader::readSum(int n) {
  const Node &node = graph.nodes[n];
  GradientSum sum{n, node.operands[0], node.operands[1], {}};
  const Node &weights = graph.nodes[sum.weights], &value = graph.nodes[sum.value];
  for (const Dim &dim : value.dims)
    if (!weights.has(dim.name))
      sum.column = dim;
  g.frame.key = weights.dims[weights.find(node.names[0])];
  g.sums.push_back(sum);
}

/// What is summed over is what products' other sides have.
void GradientReader::readDiagonals(int n) {
  const Node &node = graph.nodes[n];
  GradientSum sum{n, node.operands[0], -1, {}};
  const Node &weights = graph.nodes[sum.weights];
  bool rising = node.names[0] == node.names[2];
  const std::string &key = node.names[2], &query = node.names[rising ? 1 : 0];
  g.frame.key = weights.dims[weights.find(key)], g.frame.query = weights.dims[weights.find(query)];
  g.diagonals = {node.size, rising ? 1 : -1, node.into[0]};
  for (const Dim &dim : weights.dims)
    if (dim.name != key && dim.name != query)
      g.frame.heads.push_back(dim);
  g.sums.push_back(sum);
}

void GradientReader::readDots() {
  auto isProduct = [&](int n) { return graph.nodes[n].op == Op::Contract && graph.nodes[n].has(g.frame.key.name); };
  for (const GradientSum &sum : g.sums)
    collectProducts(graph, sum.weights, isProduct, products, region);
  std::sort(products.begin(), products.end());
  products.erase(std::unique(products.begin(), products.end()), products.end());
  for (int n : products) {
    const Node &node = graph.nodes[n];
    AttentionDot dot{n, node.operands[0], node.operands[1], {}};
    if (!graph.nodes[dot.k].has(g.frame.key.name))
      std::swap(dot.q, dot.k);
    const Node &k = graph.nodes[dot.k];
    for (const std::string &name : node.names)
      dot.depth.push_back(k.dims[k.find(name)]);
    g.frame.dots.push_back(dot);
  }
}

/// Rows: what is kept and what neither values nor the products' other sides have; the rest are heads.
void GradientReader::readDims() {
  const Node &weights = graph.nodes[g.sums[0].weights];
  auto summed = [&](const Dim &dim) { // has it something that is summed over?
    return std::any_of(g.sums.begin(), g.sums.end(),
                       [&](const GradientSum &sum) { return graph.nodes[sum.value].has(dim.name); }) ||
           std::any_of(g.frame.dots.begin(), g.frame.dots.end(),
                       [&](const AttentionDot &dot) { return graph.nodes[dot.k].has(dim.name); });
  };
  std::vector<Dim> own;
  for (const Dim &dim : weights.dims)
    if (dim.name != g.frame.key.name)
      (summed(dim) ? g.frame.heads : own).push_back(dim);
  auto longest = std::find_if(own.rbegin(), own.rend(), [](const Dim &dim) { return !dim.fixed(); });
  if (own.empty())
    throw std::logic_error("a gradient of attention without rows in " + graph.name);
  g.frame.query = longest == own.rend() ? own.front() : *longest;
  int64_t rows = 1;
  for (const Dim &dim : own) {
    if (dim.name == g.frame.query.name)
      continue;
    if (dim.fixed() && rows * *dim.fixed() <= 128) {
      g.frame.together.push_back(dim);
      rows *= *dim.fixed();
    } else {
      g.frame.heads.push_back(dim);
    }
  }
}

void GradientReader::readInside() {
  std::vector<char> inside(graph.nodes.size());
  for (int n : products)
    inside[n] = 1;
  std::sort(region.begin(), region.end());
  region.erase(std::unique(region.begin(), region.end()), region.end());
  for (int n : region)
    for (int operand : graph.nodes[n].operands)
      inside[n] |= inside[operand];
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!inside[n])
      continue;
    g.frame.inside.push_back(static_cast<int>(n));
    if (graph.nodes[n].op == Op::Contract)
      continue;
    for (int operand : graph.nodes[n].operands) {
      const Node &from = graph.nodes[operand];
      bool ofRows = from.has(g.frame.query.name) && !from.has(g.frame.key.name) && from.storage == Storage::F32;
      if (ofRows && !inside[operand] && !std::count(g.perRow.begin(), g.perRow.end(), operand))
        g.perRow.push_back(operand);
    }
  }
}

std::optional<GradientPattern> GradientReader::read() {
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    if (graph.nodes[n].op == Op::WeightedSum)
      readSum(static_cast<int>(n));
    else if (graph.nodes[n].op == Op::DistanceSum)
      readDiagonals(static_cast<int>(n));
  if (g.sums.empty())
    return std::nullopt;
  readDots();
  if (!g.diagonals)
    readDims();
  readInside();
  findGradientBounds(graph, g);
  return g;
}

std::optional<GradientPattern> readAttentionGradient(const KernelGraph &graph) {
  return GradientReader(graph).read();
}

} // namespace quern::codegen
