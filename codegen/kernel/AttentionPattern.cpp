// Takes: a kernel's graph. Gives: for each attention in it which of its dimensions are rows and heads, and what is
// computed along with it. Why here: the operation says what is computed; what shares a block or a task is the families'
// concern.
#include "codegen/kernel/AttentionPattern.h"

#include "codegen/kernel/ContractionPattern.h"
#include "codegen/kernel/TileTerms.h"

#include <algorithm>
#include <stdexcept>

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

/// The products, and all that the score does to them.
static void readDots(const KernelGraph &graph, AttentionPattern &p) {
  std::vector<int> products, region;
  auto isProduct = [&](int n) {
    const Node &node = graph.nodes[n];
    return node.op == Op::Contract && node.has(p.key.name) &&
           graph.nodes[node.operands[0]].has(p.key.name) != graph.nodes[node.operands[1]].has(p.key.name);
  };
  collectProducts(graph, p.score, isProduct, products, region);
  std::sort(products.begin(), products.end());
  std::sort(region.begin(), region.end());
  std::vector<char> depends(graph.nodes.size());
  for (int n : products) {
    const Node &node = graph.nodes[n];
    AttentionDot dot{n, node.operands[0], node.operands[1], {}};
    if (!graph.nodes[dot.k].has(p.key.name))
      std::swap(dot.q, dot.k);
    for (const std::string &name : node.names)
      dot.depth.push_back(graph.nodes[dot.k].dims[graph.nodes[dot.k].find(name)]);
    p.dots.push_back(dot);
    p.inside.push_back(n);
    depends[n] = 1;
  }
  for (int n : region)
    for (int operand : graph.nodes[n].operands)
      if (depends[operand] && !depends[n]) {
        depends[n] = 1;
        p.inside.push_back(n);
      }
}

static void readDims(const KernelGraph &graph, AttentionPattern &p) {
  const Node &score = graph.nodes[p.score], &v = graph.nodes[p.v];
  for (const Dim &dim : v.dims)
    if (!score.has(dim.name))
      p.column = dim;
  auto shared = [&](const Dim &dim) { // by keys or values
    return v.has(dim.name) || std::any_of(p.dots.begin(), p.dots.end(),
                                          [&](const AttentionDot &dot) { return graph.nodes[dot.k].has(dim.name); });
  };
  bool any = false;
  for (const Dim &dim : score.dims) {
    if (shared(dim) || (any && dim.fixed() && !p.query.fixed()))
      continue;
    bool ofQueries = std::all_of(p.dots.begin(), p.dots.end(),
                                 [&](const AttentionDot &dot) { return graph.nodes[dot.q].has(dim.name); });
    if (ofQueries && (!any || p.query.fixed())) {
      p.query = dim;
      any = true;
    }
  }
  if (!any || p.dots.empty() || !p.column.fixed())
    throw std::logic_error("an attention without queries, products or columns in " + graph.name);
  int64_t rows = 1;
  for (const Dim &dim : score.dims) {
    if (dim.name == p.key.name || dim.name == p.query.name)
      continue;
    if (!shared(dim) && dim.fixed() && rows * *dim.fixed() <= 128) {
      p.together.push_back(dim);
      rows *= *dim.fixed();
    } else {
      p.heads.push_back(dim);
    }
  }
}

bool multipliesPairs(const KernelGraph &graph, const AttentionPattern &p, const CpuTarget &target) {
  return p.narrow && multipliesBF16(target) && isOfBF16(graph, p.v) &&
         std::all_of(p.dots.begin(), p.dots.end(), [&](const AttentionDot &dot) {
           return dot.depth.size() == 1 && *dot.depth[0].fixed() % 2 == 0 && isOfBF16(graph, dot.q) &&
                  isOfBF16(graph, dot.k);
         });
}

int piecesOfWeights(const AttentionPattern &p) {
  return p.narrow ? 1 : piecesOfF32;
}

std::vector<AttentionPattern> readAttentions(const KernelGraph &graph) {
  std::vector<AttentionPattern> found;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node &node = graph.nodes[i];
    if (node.op != Op::Attention)
      continue;
    AttentionPattern p;
    p.result = static_cast<int>(i), p.score = node.operands[0], p.v = node.operands[1];
    p.narrow = node.integer;
    const Node &score = graph.nodes[p.score];
    p.key = score.dims[score.find(node.names[0])];
    for (size_t n = 1; n < node.names.size(); ++n)
      p.sinks.emplace_back(node.operands[n + 1], node.names[n]);
    auto follows = [&](size_t n, Op op) {
      bool own = n < graph.nodes.size() && graph.nodes[n].op == op && graph.nodes[n].operands == node.operands;
      return own ? static_cast<int>(n) : -1;
    };
    p.shift = follows(i + 1, Op::AttentionShift), p.share = follows(i + 2, Op::AttentionShare);
    readDots(graph, p);
    readDims(graph, p);
    p.unbounded = findBounds(graph, p);
    p.inside.push_back(p.result);
    found.push_back(std::move(p));
  }
  return found;
}

} // namespace quern::codegen
