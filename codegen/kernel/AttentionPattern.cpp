// Takes: a kernel's graph. Gives: its attentions, and why what nearly is one is not.
// Why from the end: the weighted sum names the keys; whatever leads from there back to products of queries and keys is
// the score, in any spelling.
//
//   result = contract(cut(softmax(concat(score, sink))), v)      cut and concat only where there are sinks
//   score  = any elementwise expression of contract(q, k) ...
#include "codegen/kernel/AttentionPattern.h"

#include <algorithm>
#include <cmath>

namespace quern::codegen {

bool isPointwise(const KernelGraph &graph, int node) {
  return graph.isElementwise(node) || graph.nodes[node].op == Op::Expand || graph.nodes[node].op == Op::Permute;
}

void collectProducts(const KernelGraph &graph, int from, const std::function<bool(int)> &isProduct,
                     std::vector<int> &products, std::vector<int> &region) {
  std::vector<int> work = {from};
  std::vector<char> seen(graph.nodes.size());
  while (!work.empty()) {
    int n = work.back();
    work.pop_back();
    if (seen[n])
      continue;
    seen[n] = 1;
    if (isProduct(n)) {
      products.push_back(n);
    } else if (isPointwise(graph, n)) {
      region.push_back(n);
      work.insert(work.end(), graph.nodes[n].operands.begin(), graph.nodes[n].operands.end());
    }
  }
}

namespace {
/// Thrown and caught here: what does not fit.
struct Miss {
  std::string reason;
};

class Matcher {
public:
  Matcher(const KernelGraph &graph, const std::vector<std::vector<int>> &users, int result)
      : graph(graph), users(users) {
    p.result = result;
  }
  /// The softmax that flows into operand `which` of the result, or -1.
  int softmaxBehind(int which);
  /// A softmax over what the result sums over that is changed on the way to it, or -1.
  int changedSoftmax() const;
  AttentionPattern match();

private:
  void readSinks();
  void findScores();
  void readDots();
  void readDims();
  void readStatistics();
  void checkAlone();
  bool isShape(int n) const { return graph.nodes[n].op == Op::Expand || graph.nodes[n].op == Op::Permute; }

  const KernelGraph &graph;
  const std::vector<std::vector<int>> &users;
  AttentionPattern p;
  int weights = 0;
  ir::Size offset; ///< of the scores among what the softmax is over
  std::vector<int> products;
};
} // namespace

int Matcher::softmaxBehind(int which) {
  int n = weights = graph.nodes[p.result].operands[which];
  p.v = graph.nodes[p.result].operands[1 - which];
  while (isShape(n) || graph.nodes[n].op == Op::Cut || graph.nodes[n].op == Op::Rename)
    n = graph.nodes[n].operands[0];
  return p.softmax = graph.nodes[n].op == Op::Softmax ? n : -1;
}

int Matcher::changedSoftmax() const {
  const Node &result = graph.nodes[p.result];
  for (int operand : result.operands) {
    std::vector<int> work = {operand};
    for (size_t i = 0; i < work.size() && work.size() < 64; ++i) {
      const Node &node = graph.nodes[work[i]];
      if (node.op == Op::Softmax && node.names == result.names)
        return work[i];
      if (graph.isElementwise(work[i]) || isShape(work[i]))
        work.insert(work.end(), node.operands.begin(), node.operands.end());
    }
  }
  return -1;
}

/// From the weights back to the softmax, and through its concatenation to the scores.
void Matcher::readSinks() {
  const Node &result = graph.nodes[p.result], &softmax = graph.nodes[p.softmax];
  if (result.names.size() != 1 || softmax.names.size() != 1)
    throw Miss{"it sums over several dimensions; one of keys is needed"};
  std::string name = result.names[0]; // of the keys, on the way back
  p.key = graph.nodes[weights].dims[graph.nodes[weights].find(name)];
  bool cut = false;
  for (int n = weights; n != p.softmax; n = graph.nodes[n].operands[0]) {
    const Node &node = graph.nodes[n];
    p.inside.push_back(n);
    for (size_t i = 0; i < node.names.size(); ++i)
      if (node.into[i].name == name) {
        if (node.op == Op::Cut)
          offset = offset + node.size, cut = true;
        name = node.names[i];
      } else {
        throw Miss{"its weights are cut or renamed along another dimension than that of the keys"};
      }
  }
  if (name != softmax.names[0])
    throw Miss{"its weights are summed over another dimension than their softmax"};
  int x = softmax.operands[0];
  while (isShape(x)) {
    p.inside.push_back(x);
    x = graph.nodes[x].operands[0];
  }
  p.score = x;
  const Node &concat = graph.nodes[x];
  if (concat.op != Op::Concat || concat.into[0].name != name) {
    if (cut)
      throw Miss{"only some of its weights have values"};
    p.key = softmax.dims[softmax.find(name)];
    return;
  }
  p.inside.push_back(x);
  ir::Size position;
  bool found = false;
  for (size_t i = 0; i < concat.operands.size(); ++i) {
    const Node &part = graph.nodes[concat.operands[i]];
    const Dim &dim = part.dims[part.find(concat.names[i])];
    if (!found && position == offset && dim.size == p.key.size) {
      found = true;
      p.score = concat.operands[i];
      p.key = dim;
    } else if (dim.fixed() && *dim.fixed() <= 16) {
      p.sinks.emplace_back(concat.operands[i], dim.name);
    } else {
      throw Miss{"a part of its scores has no values"};
    }
    position = position + dim.size;
  }
  if (!found)
    throw Miss{"its values belong to no whole part of the concatenated scores"};
}

/// Backwards from the scores through elementwise nodes to the products.
void Matcher::findScores() {
  std::vector<int> region;
  auto isProduct = [&](int n) {
    const Node &node = graph.nodes[n];
    return node.op == Op::Contract && node.has(p.key.name) &&
           graph.nodes[node.operands[0]].has(p.key.name) != graph.nodes[node.operands[1]].has(p.key.name);
  };
  collectProducts(graph, p.score, isProduct, products, region);
  if (products.empty())
    throw Miss{"no product of queries and keys reaches it element by element"};
  std::sort(products.begin(), products.end());
  std::sort(region.begin(), region.end());
  std::vector<char> depends(graph.nodes.size());
  for (int n : products)
    depends[n] = 1;
  for (int n : region)
    for (int operand : graph.nodes[n].operands)
      if (depends[operand] && !depends[n]) {
        depends[n] = 1;
        p.inside.push_back(n);
      }
  for (auto &[node, dim] : p.sinks)
    if (depends[node])
      throw Miss{"a score without a value is made from products too"};
}

void Matcher::readDots() {
  for (int n : products) {
    const Node &node = graph.nodes[n];
    AttentionDot dot{n, node.operands[0], node.operands[1], {}};
    if (!graph.nodes[dot.k].has(p.key.name))
      std::swap(dot.q, dot.k);
    for (const std::string &name : node.names) {
      const Node &q = graph.nodes[dot.q], &k = graph.nodes[dot.k];
      if (!q.has(name) || !k.has(name))
        throw Miss{"a product sums over a dimension that only queries or only keys have"};
      dot.depth.push_back(k.dims[k.find(name)]);
      if (!dot.depth.back().fixed())
        throw Miss{"a product sums over a dimension whose size only the run knows"};
    }
    p.dots.push_back(dot);
    p.inside.push_back(n);
  }
}

void Matcher::readDims() {
  const Node &softmax = graph.nodes[p.softmax], &v = graph.nodes[p.v];
  const std::string &over = softmax.names[0];
  int columns = 0;
  if (!v.has(graph.nodes[p.result].names[0]))
    throw Miss{"its values lack the dimension of the keys"};
  for (const Dim &dim : v.dims)
    if (dim.name != graph.nodes[p.result].names[0] && !softmax.has(dim.name)) {
      p.column = dim;
      ++columns;
    }
  if (columns != 1 || !p.column.fixed())
    throw Miss{"its values have " + (columns ? std::to_string(columns) : std::string("no")) +
               " dimensions of their own; one of fixed size is needed"};
  auto shared = [&](const Dim &dim) { // by keys or values
    return v.has(dim.name) || std::any_of(p.dots.begin(), p.dots.end(),
                                          [&](const AttentionDot &dot) { return graph.nodes[dot.k].has(dim.name); });
  };
  bool any = false;
  for (const Dim &dim : softmax.dims) {
    if (dim.name == over || shared(dim) || (any && dim.fixed() && !p.query.fixed()))
      continue;
    bool ofQueries = std::all_of(p.dots.begin(), p.dots.end(),
                                 [&](const AttentionDot &dot) { return graph.nodes[dot.q].has(dim.name); });
    if (ofQueries && (!any || p.query.fixed())) {
      p.query = dim;
      any = true;
    }
  }
  if (!any)
    throw Miss{"no dimension belongs to the queries alone"};
  int64_t rows = 1;
  for (const Dim &dim : softmax.dims) {
    if (dim.name == over || dim.name == p.query.name)
      continue;
    if (!shared(dim) && dim.fixed() && rows * *dim.fixed() <= 128) {
      p.together.push_back(dim);
      rows *= *dim.fixed();
    } else {
      p.heads.push_back(dim);
    }
  }
}

/// max(x) and sum(e^(x - where(max(x) == -inf, 0, max(x)))), where x is what the softmax is of.
void Matcher::readStatistics() {
  const Node &softmax = graph.nodes[p.softmax];
  int x = softmax.operands[0];
  auto isConst = [&](int n, double value) {
    const Node &node = graph.nodes[n];
    return node.op == Op::Const && node.kind == Kind::Real && node.numbers[0] == value;
  };
  auto reduced = [&](int n, Reduction reduction) {
    const Node &node = graph.nodes[n];
    return node.op == Op::Reduce && node.reduction == reduction && node.names == softmax.names;
  };
  int most = -1;
  for (int user : users[x])
    if (reduced(user, Reduction::Max))
      most = user;
  for (int user : users[x]) {
    const Node &difference = graph.nodes[user];
    if (most < 0 || difference.op != Op::Sub || difference.operands[0] != x || users[user].size() != 1)
      continue;
    const Node &shift = graph.nodes[difference.operands[1]];
    int power = users[user][0];
    if (shift.op != Op::Where || shift.operands[2] != most || !isConst(shift.operands[1], 0) ||
        graph.nodes[power].op != Op::Exp || users[power].size() != 1 || !reduced(users[power][0], Reduction::Sum))
      continue;
    const Node &none = graph.nodes[shift.operands[0]];
    if (none.op != Op::Compare || none.predicate != Predicate::Eq || none.operands[0] != most ||
        !isConst(none.operands[1], -INFINITY))
      continue;
    p.most = most, p.total = users[power][0];
    p.inside.insert(p.inside.end(), {user, power});
    return;
  }
}

/// What lies between the products and the result is not computed for anyone else.
void Matcher::checkAlone() {
  p.inside.push_back(p.softmax);
  auto inside = [&](int n) { return std::find(p.inside.begin(), p.inside.end(), n) != p.inside.end(); };
  for (int n : p.inside) {
    if (std::find(graph.results.begin(), graph.results.end(), n) != graph.results.end())
      throw Miss{"its scores or weights are a result of their own"};
    for (int user : users[n])
      if (user != p.result && user != p.most && user != p.total && !inside(user))
        throw Miss{"its scores or weights are used elsewhere too"};
  }
}

AttentionPattern Matcher::match() {
  readSinks();
  findScores();
  readDots();
  readDims();
  readStatistics();
  checkAlone();
  p.inside.push_back(p.result);
  return p;
}

std::vector<AttentionPattern> findAttention(const KernelGraph &graph, std::vector<AttentionMiss> *misses) {
  std::vector<AttentionPattern> found;
  std::vector<std::vector<int>> users = graph.users();
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op != Op::Contract)
      continue;
    Matcher matcher(graph, users, static_cast<int>(i));
    int softmax = matcher.softmaxBehind(0);
    if (softmax < 0)
      softmax = matcher.softmaxBehind(1);
    if (softmax < 0) {
      if (int changed = matcher.changedSoftmax(); changed >= 0 && misses)
        misses->push_back({changed, "not computed as attention: its weights are changed before they are summed"});
      continue;
    }
    try {
      AttentionPattern pattern = matcher.match();
      std::optional<std::string> unbounded = findBounds(graph, pattern);
      if (unbounded && misses)
        misses->push_back({softmax, *unbounded});
      found.push_back(std::move(pattern));
    } catch (const Miss &miss) {
      if (misses)
        misses->push_back({softmax, "not computed as attention: " + miss.reason});
    }
  }
  return found;
}

} // namespace quern::codegen
