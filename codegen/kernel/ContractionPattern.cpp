// Takes: a contraction (or the gradient of routed weights) in a kernel's graph. Gives: its rows, columns and what it sums
// over. Why on the plain graph: a plan is chosen from it before anything is built.
#include "codegen/kernel/ContractionPattern.h"

#include <algorithm>

namespace quern::codegen {

static bool contains(const std::vector<std::string> &names, const std::string &name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

static bool has(const std::vector<Dim> &dims, const std::string &name) {
  return std::any_of(dims.begin(), dims.end(), [&](const Dim &dim) { return dim.name == name; });
}

int pickOf(const KernelGraph &graph, int operand) {
  const Node &node = graph.nodes[operand];
  bool widened = widensStored(node.op) && graph.nodes[node.operands[0]].op == Op::Gather;
  return widened ? node.operands[0] : operand;
}

Storage storedAs(const KernelGraph &graph, int operand) {
  const Node &node = graph.nodes[operand];
  return widensStored(node.op) && node.op != Op::Rescale ? graph.nodes[node.operands[0]].storage : node.storage;
}

int tableOf(const KernelGraph &graph, const ContractionPattern &pattern, int operand) {
  const Node &node = graph.nodes[pickOf(graph, operand)];
  if (widensStored(node.op) && node.operands[0] < graph.argumentCount() &&
      graph.argumentLayouts[node.operands[0]].packed)
    return node.operands[0];
  bool gathered = node.op == Op::Gather && node.operands[0] < graph.argumentCount() &&
                  (graph.argumentLayouts[node.operands[0]].packed || (pattern.isGrouped() && operand == pattern.w));
  return gathered ? node.operands[0] : operand;
}

namespace {
class ContractionMatcher {
public:
  ContractionMatcher(const KernelGraph &graph, int node, int vector) : graph(graph), vector(vector) { p.node = node; }
  ContractionPattern match();

private:
  void chooseOperands();
  void findPairs();
  void chooseDims();
  bool isTaps() const;

  const KernelGraph &graph;
  int vector;
  ContractionPattern p;
  std::string columnName; ///< the column that was chosen with the operands
};
} // namespace

/// The weight is what is packed; else the operand with the larger dimensions of its own.
void ContractionMatcher::chooseOperands() {
  const Node &c = graph.nodes[p.node];
  auto isPacked = [&](int operand) {
    operand = tableOf(graph, p, operand);
    return operand < graph.argumentCount() && graph.argumentLayouts[operand].packed;
  };
  auto columns = [&](int mine, int its) {
    int64_t count = 1;
    for (const Dim &dim : graph.nodes[mine].dims)
      if (!graph.nodes[its].has(dim.name) && !contains(c.names, dim.name))
        count *= dim.fixed().value_or(1 << 12);
    return count;
  };
  int &x = p.x = c.operands[0], &w = p.w = c.operands[1];
  // The innermost dimension of the result makes columns: then whole vectors are stored.
  const Node &result = graph.nodes[graph.results[0]];
  auto innermostOf = [&](const Node &node) { return node.dims.empty() ? Dim{"", ir::Size(0)} : node.dims.back(); };
  Dim last = innermostOf(result);
  if (!graph.nodes[x].has(last.name) && !graph.nodes[w].has(last.name))
    last = innermostOf(c); // the result has others: its parts, or dimensions that are split
  const std::string &innermost = last.name;
  bool inX = graph.nodes[x].has(innermost), inW = graph.nodes[w].has(innermost);
  bool wide = last.fixed().value_or(vector) >= vector;
  if (isPacked(x) && !isPacked(w))
    std::swap(x, w);
  else if (!isPacked(w) && wide && inX != inW && !contains(c.names, innermost)) {
    if (inX)
      std::swap(x, w);
    columnName = innermost;
  } else if (!isPacked(w) && columns(x, w) > columns(w, x))
    std::swap(x, w);
  p.packed = isPacked(w);
  auto picks = [&](int operand) {
    const Node &gather = graph.nodes[pickOf(graph, operand)];
    return gather.op == Op::Gather && gather.operands[0] < graph.argumentCount() &&
           graph.nodes[gather.operands[0]].dims.size() > 2;
  };
  if (!p.packed && picks(x) && !picks(w)) { // a weight for each row is never rows
    std::swap(x, w);
    columnName.clear();
  }
  if (p.packed) { // its tiles help only if it has columns of its own and nothing but its depth is summed
    const Node &weight = graph.nodes[tableOf(graph, p, w)];
    const std::string &outer = weight.dims[weight.dims.size() - 2].name, &inner = weight.dims.back().name;
    p.packed = c.names == std::vector<std::string>{inner} && !graph.nodes[x].has(outer);
  }
}

/// Whether the weight is routed row by row; the rows are then pairs. A table of one column a row (a dot product) is not
/// meant.
void ContractionMatcher::findPairs() {
  const Node &gather = graph.nodes[pickOf(graph, p.w)], &c = graph.nodes[p.node], &input = graph.nodes[p.x];
  if (gather.op != Op::Gather || gather.operands[0] >= graph.argumentCount())
    return;
  const Node &table = graph.nodes[gather.operands[0]], &positions = graph.nodes[gather.operands[1]];
  auto summed = [&](const std::string &name) { return contains(c.names, name); };
  bool hasColumn = std::any_of(table.dims.begin(), table.dims.end(), [&](const Dim &dim) {
    return dim.name != gather.names[0] && !input.has(dim.name) && !summed(dim.name);
  });
  // Rows that share a dimension with the table pick from different tables.
  bool apart = std::all_of(positions.dims.begin(), positions.dims.end(),
                           [&](const Dim &dim) { return !table.has(dim.name) && !summed(dim.name); });
  if (hasColumn && apart && !summed(gather.names[0]) && !input.has(gather.names[0]))
    p.pairs = positions.dims;
}

void ContractionMatcher::chooseDims() {
  const Node &c = graph.nodes[p.node], &input = graph.nodes[p.x], &weight = graph.nodes[p.w];
  const Node &table = graph.nodes[tableOf(graph, p, p.w)];
  for (const Node *operand : {&input, &weight})
    for (const Dim &dim : operand->dims)
      if (contains(c.names, dim.name) && !has(p.reduced, dim.name))
        p.reduced.push_back(dim);
  if (p.packed) {
    p.column = table.dims[table.dims.size() - 2];
  } else {
    for (const Dim &dim : table.dims)
      if (!contains(c.names, dim.name) && !input.has(dim.name) && !(p.column && p.column->name == columnName))
        p.column = dim;
  }
  for (const Dim &dim : input.dims)
    if (!p.isGrouped() && !contains(c.names, dim.name) && !weight.has(dim.name) &&
        (!p.row || !dim.fixed() || (p.row->fixed() && *p.row->fixed() <= *dim.fixed())))
      p.row = dim;
  for (const Dim &dim : c.dims)
    if (!(p.column && dim.name == p.column->name) && !(p.row && dim.name == p.row->name) && !has(p.pairs, dim.name))
      p.others.push_back(dim);
}

/// Whether one factor has all dimensions of the product and its sums are few, not along memory, and read once.
bool ContractionMatcher::isTaps() const {
  constexpr int64_t most = 16;
  int64_t terms = 1;
  for (const Dim &dim : p.reduced)
    terms *= dim.fixed().value_or(most + 1);
  const Node &c = graph.nodes[p.node];
  auto holds = [&](int operand, int other) {
    const Node &mine = graph.nodes[operand], &its = graph.nodes[other];
    return !mine.dims.empty() && !contains(c.names, mine.dims.back().name) &&
           std::all_of(its.dims.begin(), its.dims.end(), [&](const Dim &dim) { return mine.has(dim.name); });
  };
  if (p.packed || terms > most || !(holds(p.x, p.w) || holds(p.w, p.x)))
    return false;
  std::vector<int> users = graph.users()[p.node];
  return std::all_of(users.begin(), users.end(), [&](int user) {
    return graph.isElementwise(user) && graph.nodes[user].dims.size() == c.dims.size();
  });
}

ContractionPattern ContractionMatcher::match() {
  chooseOperands();
  findPairs();
  chooseDims();
  if (p.isGrouped())
    p.form = p.column ? ContractionForm::Grouped : ContractionForm::Dots;
  else if (isTaps())
    p.form = ContractionForm::Taps;
  else if (!p.column)
    p.form = ContractionForm::Dots;
  else if (p.packed)
    p.form = ContractionForm::Packed;
  else // without rows each number is read once, and a packed copy of an operand would be as large as that
    p.form = p.row ? ContractionForm::Dense : ContractionForm::Dots;
  const Node &weight = graph.nodes[p.w];
  auto fixed = [](const Dim &dim) { return dim.fixed().has_value(); };
  p.perHead = p.isDense() && !p.others.empty() && std::all_of(weight.dims.begin(), weight.dims.end(), fixed) &&
              std::all_of(p.others.begin(), p.others.end(), [&](const Dim &dim) { return weight.has(dim.name); });
  return std::move(p);
}

ContractionPattern matchContraction(const KernelGraph &graph, int node, int vector) {
  return ContractionMatcher(graph, node, vector).match();
}

/// Each factor of the product has a dimension of its own, and all that picks is summed (passes/weights/Weights.h says
/// the same).
bool sumsByExpert(const KernelGraph &graph, const std::vector<std::vector<int>> &users, int scatter) {
  const std::vector<Node> &nodes = graph.nodes;
  const Node &s = nodes[scatter];
  if (s.op != Op::ScatterAdd || nodes[s.operands[0]].op != Op::Mul || users[s.operands[0]].size() != 1 ||
      std::count(graph.results.begin(), graph.results.end(), s.operands[0]))
    return false;
  const Node &product = nodes[s.operands[0]], &positions = nodes[s.operands[1]];
  const Node &left = nodes[product.operands[0]], &right = nodes[product.operands[1]];
  auto hasOwn = [&](const Node &mine, const Node &its) {
    return std::any_of(mine.dims.begin(), mine.dims.end(),
                       [&](const Dim &dim) { return !its.has(dim.name) && !contains(s.names, dim.name); });
  };
  bool pairs = std::all_of(positions.dims.begin(), positions.dims.end(),
                           [&](const Dim &dim) { return contains(s.names, dim.name); });
  bool real = left.storage == Storage::F32 && right.storage == Storage::F32 && !product.has(s.into[0].name);
  return pairs && real && !positions.dims.empty() && hasOwn(left, right) && hasOwn(right, left);
}

/// Columns are innermost in the result; rows are the other factor's longest dimension.
ContractionPattern matchByExpert(const KernelGraph &graph, int scatter) {
  const Node &s = graph.nodes[scatter], &product = graph.nodes[s.operands[0]], &positions = graph.nodes[s.operands[1]];
  ContractionPattern p;
  p.form = ContractionForm::ByExpert;
  p.node = scatter;
  p.pairs = positions.dims;
  p.x = product.operands[0], p.w = product.operands[1];
  auto hasDim = [&](int factor, const Dim &dim) { return graph.nodes[factor].has(dim.name); };
  for (auto dim = s.dims.rbegin(); dim != s.dims.rend() && !p.column; ++dim)
    if (hasDim(p.x, *dim) != hasDim(p.w, *dim)) {
      p.column = *dim;
      if (hasDim(p.x, *dim))
        std::swap(p.x, p.w);
    }
  for (const Dim &dim : s.dims)
    if (hasDim(p.x, dim) && !hasDim(p.w, dim) &&
        (!p.row || !dim.fixed() || (p.row->fixed() && *p.row->fixed() <= *dim.fixed())))
      p.row = dim;
  for (const Dim &dim : s.dims)
    if (dim.name != p.column->name && dim.name != p.row->name)
      p.others.push_back(dim);
  for (const Dim &dim : product.dims)
    if (contains(s.names, dim.name) && !positions.has(dim.name))
      p.reduced.push_back(dim); // rows that share what was gathered for all of them
  return p;
}

bool hasCodes(const KernelGraph &graph, const ContractionPattern &p) {
  return p.form == ContractionForm::Packed && bitsOfCode(graph.nodes[tableOf(graph, p, p.w)].storage) &&
         graph.nodes[pickOf(graph, p.w)].op != Op::Gather;
}

/// Of a packed weight in codes that have integers: whether its rows are in codes, too.
static bool readsCodes(const KernelGraph &graph, const ContractionPattern &p) {
  const Node &rows = graph.nodes[p.x];
  const Storage weight = graph.nodes[tableOf(graph, p, p.w)].storage;
  return bitsOfCode(weight) && !support::floatCodesOf(weight) && rows.op == Op::Dequantize &&
         graph.nodes[rows.operands[0]].op == Op::Quantize;
}

bool hasCodesAlone(const KernelGraph &graph, const ContractionPattern &p) {
  return hasCodes(graph, p) && readsCodes(graph, p);
}

bool hasRoutedCodes(const KernelGraph &graph, const ContractionPattern &p) {
  return p.form == ContractionForm::Grouped && p.packed && readsCodes(graph, p);
}

/// A packed weight that is not gathered, along one known depth.
static bool hasOneDepth(const KernelGraph &graph, const ContractionPattern &p) {
  return p.form == ContractionForm::Packed && p.reduced.size() == 1 && p.reduced[0].fixed() &&
         graph.nodes[pickOf(graph, p.w)].op != Op::Gather;
}

bool hasPairs(const KernelGraph &graph, const ContractionPattern &p) {
  return hasOneDepth(graph, p) && graph.argumentLayouts[size_t(tableOf(graph, p, p.w))].beside == 2;
}

bool hasNumbers(const KernelGraph &graph, const ContractionPattern &p) {
  return hasOneDepth(graph, p) && graph.nodes[tableOf(graph, p, p.w)].storage == Storage::F32;
}

bool hasPairsAlone(const KernelGraph &graph, const ContractionPattern &p) {
  return hasPairs(graph, p) && graph.nodes[p.x].op == Op::Widen;
}

const Dim &longestDepth(const ContractionPattern &p) {
  auto length = [](const Dim &dim) { return dim.fixed().value_or(int64_t(1) << 40); };
  const Dim *longest = &p.reduced.front();
  for (const Dim &dim : p.reduced)
    if (length(dim) >= length(*longest))
      longest = &dim;
  return *longest;
}

/// Whether all numbers of an operand are such as bf16 has.
bool isOfBF16(const KernelGraph &graph, int operand) {
  const Node *node = &graph.nodes[operand];
  while ((node->op >= Op::Rename && node->op <= Op::Squeeze && node->op != Op::Concat) || node->op == Op::Expand ||
         node->op == Op::Permute)
    node = &graph.nodes[node->operands[0]];
  return node->op == Op::Widen && graph.nodes[node->operands[0]].storage == Storage::BF16;
}

int piecesOf(const KernelGraph &graph, int operand) {
  return isOfBF16(graph, operand) ? 1 : piecesOfF32;
}

bool hasRoutedWords(const KernelGraph &graph, const ContractionPattern &p) {
  return p.form == ContractionForm::Grouped && p.reduced.size() == 1 && p.reduced[0].fixed() && isOfBF16(graph, p.w);
}

bool hasRoutedFactors(const KernelGraph &graph, const ContractionPattern &p) {
  return p.form == ContractionForm::ByExpert && p.reduced.empty() && isOfBF16(graph, p.x) && isOfBF16(graph, p.w);
}

bool hasWords(const KernelGraph &graph, const ContractionPattern &p) {
  if (!p.isDense() || !p.row)
    return false;
  const std::string &last = graph.nodes[p.x].dims.back().name;
  return last == p.row->name || last == longestDepth(p).name;
}

bool hasStoredPairs(const KernelGraph &graph, const ContractionPattern &p) {
  return hasWords(graph, p) && isOfBF16(graph, p.x) && isOfBF16(graph, p.w);
}

bool liesAlongDepth(const KernelGraph &graph, const ContractionPattern &p) {
  const int stored = graph.nodes[p.x].operands[0];
  if (!p.row || p.reduced.size() != 1 || graph.nodes[stored].dims.back().name != p.reduced[0].name)
    return false;
  return graph.nodes[stored].op != Op::Argument || graph.argumentLayouts[stored].strides.back() == 1;
}

} // namespace quern::codegen
