// Takes: a kernel's graph. Gives: its attentions, with the difference bounds that their masks imply.
// Why bounds: half of a causal mask's scores would be computed to be thrown away.
#include "codegen/AttentionPattern.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace quern::codegen {

namespace {
/// coefficients * positions + constant
struct Affine {
  std::map<std::string, int64_t> coefficients;
  ir::Size constant;
  std::optional<ir::Size> ring; ///< holds only from this key on: before lie old positions in another order
};
} // namespace

static std::optional<Affine> affine(const KernelGraph &graph, int i) {
  const Node &node = graph.nodes[i];
  auto operand = [&](size_t n) { return affine(graph, node.operands[n]); };
  auto combined = [](Affine a, const Affine &b, int64_t sign) {
    for (const auto &[name, c] : b.coefficients)
      a.coefficients[name] += sign * c;
    a.constant = a.constant + b.constant * ir::Size(sign);
    if (b.ring)
      a.ring = b.ring;
    return a;
  };
  switch (node.op) {
  case Op::Index:
    return Affine{{{node.dims[0].name, 1}}, {}, {}};
  case Op::Size:
    return Affine{{}, node.size, {}};
  case Op::Const:
    return node.kind == Kind::Int ? std::optional<Affine>(Affine{{}, ir::Size(node.integer), {}}) : std::nullopt;
  case Op::Add:
  case Op::Sub: {
    std::optional<Affine> a = operand(0), b = operand(1);
    return node.kind == Kind::Int && a && b ? std::optional<Affine>(combined(*a, *b, node.op == Op::Add ? 1 : -1))
                                            : std::nullopt;
  }
  case Op::Neg: {
    std::optional<Affine> a = operand(0);
    return node.kind == Kind::Int && a ? std::optional<Affine>(combined({}, *a, -1)) : std::nullopt;
  }
  case Op::Expand:
  case Op::Permute:
    return operand(0);
  case Op::Where: { // where(slot < filled, an old position, slot + ...): positions in a ring (passes/IncrementalWindows)
    const Node &condition = graph.nodes[node.operands[0]];
    if (condition.op != Op::Compare || condition.predicate != Predicate::Lt ||
        graph.nodes[condition.operands[0]].op != Op::Index || graph.nodes[condition.operands[1]].op != Op::Size)
      return std::nullopt;
    std::optional<Affine> fresh = operand(2);
    if (fresh)
      fresh->ring = graph.nodes[condition.operands[1]].size;
    return fresh;
  }
  default:
    return std::nullopt;
  }
}

/// What follows for key - query where `condition` holds.
static void boundsOf(const KernelGraph &graph, int condition, AttentionPattern &p) {
  const Node &node = graph.nodes[condition];
  if (node.op == Op::And || node.op == Op::Expand || node.op == Op::Permute) {
    for (int operand : node.operands)
      boundsOf(graph, operand, p);
    return;
  }
  if (node.op != Op::Compare || node.predicate == Predicate::Ne)
    return;
  std::optional<Affine> a = affine(graph, node.operands[0]), b = affine(graph, node.operands[1]);
  if (!a || !b)
    return;
  // a - b + slack <= 0
  auto note = [&](const Affine &x, const Affine &y, int64_t slack) {
    std::map<std::string, int64_t> d = x.coefficients;
    for (const auto &[name, c] : y.coefficients)
      d[name] -= c;
    std::erase_if(d, [](const auto &entry) { return entry.second == 0; });
    if (d.size() != 2 || !d.count(p.key.name) || !d.count(p.query.name))
      return;
    ir::Size constant = x.constant - y.constant + ir::Size(slack);
    if (std::optional<ir::Size> ring = x.ring ? x.ring : y.ring) {
      // All of the ring is looked at: an upper bound must let it through for every query, a lower one waits until there
      // is no ring.
      std::optional<int64_t> spare = (ir::Size(0) - constant - *ring).constant();
      if (d[p.key.name] == 1 && !(spare && *spare >= -1))
        return;
      p.ring = ring;
    }
    if (d[p.key.name] == 1 && d[p.query.name] == -1 && !p.upper)
      p.upper = ir::Size(0) - constant;
    if (d[p.key.name] == -1 && d[p.query.name] == 1 && !p.lower)
      p.lower = constant;
  };
  bool strict = node.predicate == Predicate::Lt || node.predicate == Predicate::Gt;
  if (node.predicate != Predicate::Gt && node.predicate != Predicate::Ge)
    note(*a, *b, strict);
  if (node.predicate != Predicate::Lt && node.predicate != Predicate::Le)
    note(*b, *a, strict);
}

static bool isMinusInfinity(const Node &node) {
  return node.op == Op::Const && node.kind == Kind::Real && std::isinf(node.numbers[0]) && node.numbers[0] < 0;
}

static std::optional<AttentionPattern> matchAt(const KernelGraph &graph, const std::vector<std::vector<int>> &users, int i) {
  const Node &result = graph.nodes[i];
  if (result.op != Op::Contract || result.names.size() != 1)
    return std::nullopt;
  AttentionPattern p;
  p.result = i;
  int which = graph.nodes[result.operands[0]].op == Op::Softmax ? 0 : 1;
  p.softmax = result.operands[which];
  p.v = result.operands[1 - which];
  const Node &softmax = graph.nodes[p.softmax], &v = graph.nodes[p.v];
  if (softmax.op != Op::Softmax || softmax.names != result.names || !v.has(result.names[0]) ||
      users[p.softmax].size() != 1 || std::count(graph.results.begin(), graph.results.end(), p.softmax))
    return std::nullopt;
  p.key = softmax.dims[softmax.find(result.names[0])];

  // Backwards from the softmax through elementwise nodes: exactly one contraction has both queries and keys.
  std::vector<int> work = {softmax.operands[0]}, dots;
  std::vector<char> seen(graph.nodes.size());
  std::vector<int> region;
  while (!work.empty()) {
    int n = work.back();
    work.pop_back();
    if (seen[n])
      continue;
    seen[n] = 1;
    const Node &node = graph.nodes[n];
    if (node.op == Op::Contract && node.has(p.key.name)) {
      dots.push_back(n);
      continue;
    }
    region.push_back(n);
    if (graph.isElementwise(n) || node.op == Op::Expand || node.op == Op::Permute)
      work.insert(work.end(), node.operands.begin(), node.operands.end());
  }
  if (dots.size() != 1)
    return std::nullopt;
  p.dot = dots[0];
  // Between: what depends on the scores; nothing else may use it.
  std::vector<char> depends(graph.nodes.size());
  depends[p.dot] = 1;
  std::sort(region.begin(), region.end());
  for (int n : region)
    if (n > p.dot)
      for (int operand : graph.nodes[n].operands)
        if (depends[operand]) {
          depends[n] = 1;
          p.between.push_back(n);
          break;
        }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!depends[n])
      continue;
    if (std::count(graph.results.begin(), graph.results.end(), static_cast<int>(n)))
      return std::nullopt;
    for (int user : users[n])
      if (!depends[user] && user != p.softmax)
        return std::nullopt;
  }
  if (!depends[softmax.operands[0]])
    return std::nullopt;

  const Node &dot = graph.nodes[p.dot];
  p.q = dot.operands[0], p.k = dot.operands[1];
  if (!graph.nodes[p.k].has(p.key.name))
    std::swap(p.q, p.k);
  const Node &q = graph.nodes[p.q], &k = graph.nodes[p.k];
  if (!k.has(p.key.name) || q.has(p.key.name) || dot.dims.size() > softmax.dims.size())
    return std::nullopt;
  for (const std::string &name : dot.names) {
    if (!q.has(name) || !k.has(name))
      return std::nullopt;
    p.depth.push_back(k.dims[k.find(name)]);
  }
  int columns = 0, queries = 0;
  for (const Dim &dim : v.dims)
    if (!softmax.has(dim.name)) {
      p.column = dim;
      ++columns;
    }
  for (const Dim &dim : softmax.dims)
    if (q.has(dim.name) && !k.has(dim.name) && !v.has(dim.name) && (!queries || !dim.fixed())) {
      p.query = dim;
      ++queries;
    }
  if (columns != 1 || !queries)
    return std::nullopt;
  // Dimensions of the softmax that the scores lack would need scores of their own.
  for (const Dim &dim : softmax.dims)
    if (!dot.has(dim.name))
      return std::nullopt;
  int x = softmax.operands[0];
  while (graph.nodes[x].op == Op::Expand || graph.nodes[x].op == Op::Permute)
    x = graph.nodes[x].operands[0];
  if (graph.nodes[x].op == Op::Where && isMinusInfinity(graph.nodes[graph.nodes[x].operands[2]]))
    boundsOf(graph, graph.nodes[x].operands[0], p);
  return p;
}

std::vector<AttentionPattern> findAttention(const KernelGraph &graph) {
  std::vector<AttentionPattern> found;
  std::vector<std::vector<int>> users = graph.users();
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (std::optional<AttentionPattern> p = matchAt(graph, users, static_cast<int>(i)))
      found.push_back(*p);
  return found;
}

} // namespace quern::codegen
