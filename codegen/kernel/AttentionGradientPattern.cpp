// Takes: a kernel's graph. Gives: its sums that belong to the gradient of an attention, if they are all that it is
// about. Why by shape alone: the gradients of queries, keys and values are each a product of a matrix of keys x
// queries, made element by element from products, with a value; which of them it is makes no difference to the loops.
//
//   p = exp(score(contract(q, k)) - most) * share;   dp = contract(do, v);   ds = p * (dp - delta) ...
//   dq = contract(ds, k) over keys                   dv = contract(p, do), dk = contract(ds, q) over queries, in one kernel
//   db = scatter_add(ds at key - query + n) over both: a sum along diagonals, a kernel of its own
#include "codegen/kernel/AttentionGradient.h"

#include <algorithm>
#include <map>

namespace quern::codegen {

namespace {
class GradientMatcher {
public:
  explicit GradientMatcher(const KernelGraph &graph) : graph(graph), users(graph.users()) {}
  std::optional<GradientPattern> match();

private:
  bool findProducts(int weights, const std::string &over);
  bool readSum(int node);
  bool readDiagonals(int node);
  std::optional<std::map<std::string, int>> steps(int node) const;
  bool readDots();
  bool readDims();
  bool readInside();

  const KernelGraph &graph;
  std::vector<std::vector<int>> users;
  GradientPattern g;
  std::vector<int> products, region;
};
} // namespace

/// Backwards from the weights to the products that they are made from.
bool GradientMatcher::findProducts(int weights, const std::string &over) {
  size_t before = products.size();
  auto isProduct = [&](int n) { return graph.nodes[n].op == Op::Contract && graph.nodes[n].has(over); };
  collectProducts(graph, weights, isProduct, products, region);
  return products.size() > before;
}

bool GradientMatcher::readSum(int n) {
  const Node &node = graph.nodes[n];
  if (node.op != Op::Contract || node.names.size() != 1 || !users[n].empty() ||
      std::count(graph.results.begin(), graph.results.end(), n) != 1)
    return false;
  const std::string &over = node.names[0];
  for (int side : {0, 1}) {
    GradientSum sum{n, node.operands[side], node.operands[1 - side], {}};
    const Node &weights = graph.nodes[sum.weights], &value = graph.nodes[sum.value];
    if (!isPointwise(graph, sum.weights) || !weights.has(over) || !value.has(over) || !findProducts(sum.weights, over))
      continue;
    int columns = 0;
    for (const Dim &dim : value.dims)
      if (!weights.has(dim.name))
        sum.column = dim, ++columns;
    if (columns != 1 || !sum.column.fixed())
      return false;
    g.frame.key = weights.dims[weights.find(over)];
    g.sums.push_back(sum);
    return true;
  }
  return false;
}

/// How far an int moves with a step along each dimension, if that is the same everywhere.
std::optional<std::map<std::string, int>> GradientMatcher::steps(int n) const {
  const Node &node = graph.nodes[n];
  switch (node.op) {
  case Op::Index:
    return std::map<std::string, int>{{node.dims[0].name, 1}};
  case Op::Size:
  case Op::Const:
    return std::map<std::string, int>{};
  case Op::Expand:
  case Op::Permute:
    return steps(node.operands[0]);
  case Op::Add:
  case Op::Sub: {
    auto a = steps(node.operands[0]), b = steps(node.operands[1]);
    if (!a || !b)
      return std::nullopt;
    for (auto [name, step] : *b)
      (*a)[name] += node.op == Op::Add ? step : -step;
    return a;
  }
  default:
    return std::nullopt;
  }
}

/// A scatter of weights to positions that go one up for a key and one down for a query, or the other way.
bool GradientMatcher::readDiagonals(int n) {
  const Node &node = graph.nodes[n];
  if (node.op != Op::ScatterAdd || node.names.size() != 2 || !users[n].empty())
    return false;
  GradientSum sum{n, node.operands[0], -1, {}};
  const Node &weights = graph.nodes[sum.weights];
  auto moves = steps(node.operands[1]);
  const std::string &query = node.names[0], &key = node.names[1];
  if (!moves || !isPointwise(graph, sum.weights) || !weights.has(key) || !weights.has(query) ||
      !findProducts(sum.weights, key))
    return false;
  int sign = (*moves)[key];
  if (std::abs(sign) != 1 || (*moves)[query] != -sign || moves->size() != 2 ||
      graph.nodes[node.operands[1]].dims.size() != 2)
    return false;
  g.frame.key = weights.dims[weights.find(key)], g.frame.query = weights.dims[weights.find(query)];
  g.diagonals = {node.operands[1], sign, node.into[0]};
  for (const Dim &dim : weights.dims)
    if (dim.name != key && dim.name != query)
      g.frame.heads.push_back(dim);
  g.sums.push_back(sum);
  return true;
}

bool GradientMatcher::readDots() {
  std::sort(products.begin(), products.end());
  products.erase(std::unique(products.begin(), products.end()), products.end());
  for (int n : products) {
    const Node &node = graph.nodes[n];
    AttentionDot dot{n, node.operands[0], node.operands[1], {}};
    if (!graph.nodes[dot.k].has(g.frame.key.name))
      std::swap(dot.q, dot.k);
    const Node &q = graph.nodes[dot.q], &k = graph.nodes[dot.k];
    if (q.has(g.frame.key.name) || !k.has(g.frame.key.name))
      return false;
    for (const std::string &name : node.names) {
      if (!q.has(name) || !k.has(name) || !k.dims[k.find(name)].fixed())
        return false;
      dot.depth.push_back(k.dims[k.find(name)]);
    }
    g.frame.dots.push_back(dot);
  }
  return true;
}

/// Rows: what is kept and what neither values nor the products' other sides have; the rest are heads.
bool GradientMatcher::readDims() {
  const Node &weights = graph.nodes[g.sums[0].weights];
  for (const GradientSum &sum : g.sums) {
    const Node &other = graph.nodes[sum.weights];
    bool same =
        other.dims.size() == weights.dims.size() && graph.nodes[sum.node].names[0] == g.frame.key.name &&
        std::all_of(other.dims.begin(), other.dims.end(), [&](const Dim &dim) { return weights.has(dim.name); });
    if (!same)
      return false;
  }
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
    return false;
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
  return true;
}

bool GradientMatcher::readInside() {
  std::vector<char> inside(graph.nodes.size());
  for (int n : products)
    inside[n] = 1;
  std::sort(region.begin(), region.end());
  region.erase(std::unique(region.begin(), region.end()), region.end());
  for (int n : region)
    for (int operand : graph.nodes[n].operands)
      inside[n] |= inside[operand];
  auto isSum = [&](int n) {
    return std::any_of(g.sums.begin(), g.sums.end(), [&](const GradientSum &sum) { return sum.node == n; });
  };
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!inside[n])
      continue;
    g.frame.inside.push_back(static_cast<int>(n));
    if (std::count(graph.results.begin(), graph.results.end(), static_cast<int>(n)))
      return false;
    for (int user : users[n])
      if (!inside[user] && !isSum(user))
        return false;
    if (graph.nodes[n].op == Op::Contract)
      continue;
    for (int operand : graph.nodes[n].operands) {
      const Node &from = graph.nodes[operand];
      bool ofRows = from.has(g.frame.query.name) && !from.has(g.frame.key.name) && from.kind == Kind::Real;
      if (ofRows && !inside[operand] && !std::count(g.perRow.begin(), g.perRow.end(), operand))
        g.perRow.push_back(operand);
    }
  }
  for (const GradientSum &sum : g.sums)
    if (!inside[sum.weights] || (sum.value >= 0 && inside[sum.value]))
      return false;
  return true;
}

std::optional<GradientPattern> GradientMatcher::match() {
  bool diagonals = graph.results.size() == 1 && readDiagonals(graph.results[0]);
  for (int result : graph.results)
    if (!diagonals && !readSum(result))
      return std::nullopt;
  if (g.sums.empty() || !readDots() || (!diagonals && !readDims()) || !readInside())
    return std::nullopt;
  findGradientBounds(graph, g);
  return g;
}

std::optional<GradientPattern> findAttentionGradient(const KernelGraph &graph) {
  return GradientMatcher(graph).match();
}

} // namespace quern::codegen
