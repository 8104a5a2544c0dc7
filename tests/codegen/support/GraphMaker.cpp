// Takes: calls that name operations. Gives: the graph that reading a quern.kernel of the same operations would.
#include "tests/codegen/support/GraphMaker.h"

#include <algorithm>
#include <set>
#include <stdexcept>

namespace quern::codegen {

std::vector<std::optional<int64_t>> denseStrides(const std::vector<Dim> &dims) {
  std::vector<std::optional<int64_t>> strides(dims.size());
  std::optional<int64_t> stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride = stride && dims[i].fixed() ? std::optional<int64_t>(*stride * *dims[i].fixed()) : std::nullopt;
  }
  return strides;
}

int GraphMaker::add(Node node) {
  graph.nodes.push_back(std::move(node));
  return static_cast<int>(graph.nodes.size()) - 1;
}

/// The order in which C++ evaluates a call's operands is the compiler's, so an argument named among them may come late.
void GraphMaker::addLayout(Layout layout) {
  if (graph.argumentLayouts.size() != graph.nodes.size())
    throw std::logic_error("a kernel's arguments come first: name this one before what is computed");
  graph.argumentLayouts.push_back(std::move(layout));
}

int GraphMaker::argument(Storage storage, std::vector<Dim> dims, std::vector<std::optional<int64_t>> strides) {
  addLayout({false, strides.empty() ? denseStrides(dims) : strides, 0});
  return add({Op::Argument, storage, dims});
}

int GraphMaker::weight(std::vector<Dim> dims, int64_t tile, Storage storage) {
  const bool pairs = !ofDevices && storage == Storage::BF16 && *dims.back().fixed() % 2 == 0;
  addLayout({true, {}, tile, pairs ? 2 : 1});
  return add({Op::Argument, storage, dims});
}

int GraphMaker::leaf(Op op, Storage storage, std::vector<Dim> dims, std::vector<double> numbers, int64_t integer) {
  Node node{op, storage, dims};
  node.numbers = numbers;
  node.integer = integer;
  return add(node);
}

int GraphMaker::size(const ir::Size &size) {
  Node node{Op::Size, Storage::I32, {}};
  node.size = size;
  return add(node);
}

std::vector<Dim> GraphMaker::unionOf(const std::vector<int> &operands) const {
  size_t widest = 0;
  for (size_t i = 1; i < operands.size(); ++i)
    if (graph.nodes[operands[i]].dims.size() > graph.nodes[operands[widest]].dims.size())
      widest = i;
  std::vector<Dim> dims = graph.nodes[operands[widest]].dims;
  for (int operand : operands)
    for (const Dim &dim : graph.nodes[operand].dims)
      if (std::none_of(dims.begin(), dims.end(), [&](const Dim &known) { return known.name == dim.name; }))
        dims.push_back(dim);
  return dims;
}

int GraphMaker::elementwise(Op op, std::vector<int> operands) {
  auto wider = [&](size_t from) {
    Storage storage = graph.nodes[operands[from]].storage;
    for (size_t i = from; i < operands.size(); ++i)
      if (graph.nodes[operands[i]].storage == Storage::F32)
        storage = Storage::F32;
    return storage;
  };
  static const std::set<Op> keeps = {Op::Neg, Op::Abs, Op::Add, Op::Sub, Op::Mul, Op::Max, Op::Min};
  static const std::set<Op> integers = {Op::Floor, Op::Ceil, Op::Round, Op::ToInt, Op::FloorDiv, Op::Mod};
  static const std::set<Op> bools = {Op::Not, Op::And, Op::Or, Op::Compare};
  Storage storage = keeps.count(op)      ? wider(0)
                    : op == Op::Where    ? wider(1)
                    : integers.count(op) ? Storage::I32
                    : bools.count(op)    ? Storage::U8
                    : op == Op::Narrow   ? (wider(0) == Storage::I32 ? Storage::I8 : Storage::BF16)
                                         : Storage::F32;
  Node node{op, storage, unionOf(operands)};
  node.operands = operands;
  return add(node);
}

int GraphMaker::compare(Predicate predicate, int a, int b) {
  int node = elementwise(Op::Compare, {a, b});
  graph.nodes[node].predicate = predicate;
  return node;
}

static std::vector<Dim> without(const std::vector<Dim> &dims, const std::vector<std::string> &names) {
  std::vector<Dim> kept;
  for (const Dim &dim : dims)
    if (std::find(names.begin(), names.end(), dim.name) == names.end())
      kept.push_back(dim);
  return kept;
}

int GraphMaker::reduce(Reduction reduction, int x, std::vector<std::string> over) {
  Node node{Op::Reduce, reduction == Reduction::Mean ? Storage::F32 : graph.nodes[x].storage,
            without(graph.nodes[x].dims, over)};
  node.operands = {x};
  node.names = over;
  node.reduction = reduction;
  return add(node);
}

int GraphMaker::contract(int a, int b, std::vector<std::string> over) {
  Node node{Op::Contract, Storage::F32, without(unionOf({a, b}), over)};
  node.operands = {a, b};
  node.names = over;
  return add(node);
}

int GraphMaker::weightedSum(int weights, int value, std::string over) {
  Node node{Op::WeightedSum, Storage::F32, without(unionOf({value, weights}), {over})};
  node.operands = {weights, value};
  node.names = {std::move(over)};
  return add(node);
}

int GraphMaker::distanceSum(int weights, std::string plus, std::string minus, std::string over, const ir::Size &offset,
                            Dim into) {
  Node node{Op::DistanceSum, Storage::F32, without(graph.nodes[weights].dims, {plus, minus})};
  node.dims.insert(node.dims.begin(), into);
  node.operands = {weights};
  node.names = {std::move(plus), std::move(minus), std::move(over)};
  node.size = offset;
  node.into = {into};
  return add(node);
}

int GraphMaker::softmax(int x, std::vector<std::string> over) {
  Node node{Op::Softmax, Storage::F32, graph.nodes[x].dims};
  node.operands = {x};
  node.names = over;
  return add(node);
}

int GraphMaker::attention(int score, int values, std::string key, std::vector<std::pair<int, std::string>> sinks,
                          bool narrow) {
  Node node{Op::Attention, Storage::F32, without(unionOf({score, values}), {key})};
  node.operands = {score, values};
  node.names = {key};
  node.integer = narrow;
  for (auto &[sink, part] : sinks) {
    node.operands.push_back(sink);
    node.names.push_back(part);
  }
  return add(node);
}

std::pair<int, int> GraphMaker::statistics(int attention) {
  Node node = graph.nodes[attention];
  node.dims = without(graph.nodes[node.operands[0]].dims, {node.names[0]});
  node.op = Op::AttentionShift;
  int shift = add(node);
  node.op = Op::AttentionShare;
  return {shift, add(node)};
}

int GraphMaker::quantize(int x, std::string along, Storage storage, bool paired) {
  Node node{Op::Quantize, storage, graph.nodes[x].dims};
  node.operands = {x};
  node.names = {along};
  node.integer = paired;
  return add(node);
}

int GraphMaker::cumsum(int x, std::string along, bool reverse) {
  Node node{Op::Cumsum, graph.nodes[x].storage, graph.nodes[x].dims};
  node.operands = {x};
  node.names = {along};
  node.integer = reverse;
  return add(node);
}

int GraphMaker::scatterAdd(int x, int positions, std::vector<std::string> over, Dim into) {
  std::vector<Dim> all = graph.nodes[x].dims;
  for (const Dim &dim : graph.nodes[positions].dims)
    if (!graph.nodes[x].has(dim.name))
      all.push_back(dim);
  Node node{Op::ScatterAdd, Storage::F32, without(all, over)};
  node.dims.insert(node.dims.begin(), into);
  node.operands = {x, positions};
  node.names = std::move(over);
  node.into = {into};
  return add(node);
}

int GraphMaker::argmax(int x, std::string along) {
  Node node{Op::Argmax, Storage::I32, without(graph.nodes[x].dims, {along})};
  node.operands = {x};
  node.names = {along};
  return add(node);
}

std::pair<int, int> GraphMaker::topK(int x, std::string from, Dim into) {
  std::vector<Dim> dims = without(graph.nodes[x].dims, {from});
  dims.push_back(into);
  Node node{Op::TopK, graph.nodes[x].storage, dims};
  node.operands = {x};
  node.names = {from};
  node.into = {into};
  int values = add(node);
  node.op = Op::TopKPositions;
  node.storage = Storage::I32;
  return {values, add(node)};
}

static Node shapeNode(Op op, const Node &x, int operand) {
  Node node{op, x.storage, x.dims};
  node.operands = {operand};
  return node;
}

int GraphMaker::rename(int x, std::string from, Dim to) {
  Node node = shapeNode(Op::Rename, graph.nodes[x], x);
  node.dims[node.find(from)] = to;
  node.names = {from};
  node.into = {to};
  return add(node);
}

int GraphMaker::split(int x, std::string dim, std::vector<Dim> into) {
  Node node = shapeNode(Op::Split, graph.nodes[x], x);
  int at = node.find(dim);
  node.dims.erase(node.dims.begin() + at);
  node.dims.insert(node.dims.begin() + at, into.begin(), into.end());
  node.names = {dim};
  node.into = into;
  return add(node);
}

int GraphMaker::merge(int x, std::vector<std::string> dims, Dim into) {
  Node node = shapeNode(Op::Merge, graph.nodes[x], x);
  int at = node.find(dims[0]);
  node.dims[at] = into;
  node.dims = without(node.dims, dims);
  node.names = dims;
  node.into = {into};
  return add(node);
}

int GraphMaker::cut(int x, std::string dim, const ir::Size &offset, Dim into) {
  Node node = shapeNode(Op::Cut, graph.nodes[x], x);
  node.dims[node.find(dim)] = into;
  node.names = {dim};
  node.into = {into};
  node.size = offset;
  return add(node);
}

int GraphMaker::concat(std::vector<int> xs, std::vector<std::string> parts, Dim into) {
  Node node{Op::Concat, graph.nodes[xs[0]].storage, {}};
  size_t widest = 0;
  for (size_t i = 0; i < xs.size(); ++i) {
    if (graph.nodes[xs[i]].storage == Storage::F32)
      node.storage = Storage::F32;
    if (graph.nodes[xs[i]].dims.size() > graph.nodes[xs[widest]].dims.size())
      widest = i;
  }
  node.dims = graph.nodes[xs[widest]].dims;
  node.dims[node.find(parts[widest])] = into;
  for (size_t i = 0; i < xs.size(); ++i)
    for (const Dim &dim : graph.nodes[xs[i]].dims)
      if (dim.name != parts[i] && !node.has(dim.name))
        node.dims.push_back(dim);
  node.operands = xs;
  node.names = parts;
  node.into = {into};
  return add(node);
}

int GraphMaker::unit(int x, Dim into) {
  Node node = shapeNode(Op::Unit, graph.nodes[x], x);
  node.dims.push_back(into);
  node.into = {into};
  return add(node);
}

int GraphMaker::squeeze(int x, std::string dim) {
  Node node = shapeNode(Op::Squeeze, graph.nodes[x], x);
  node.dims = without(node.dims, {dim});
  node.names = {dim};
  return add(node);
}

int GraphMaker::gather(int x, int positions, std::string dim) {
  Node node = shapeNode(Op::Gather, graph.nodes[x], x);
  node.dims.clear();
  const Node &at = graph.nodes[positions];
  for (const Dim &own : graph.nodes[x].dims) {
    if (own.name == dim)
      node.dims.insert(node.dims.end(), at.dims.begin(), at.dims.end());
    else if (!at.has(own.name))
      node.dims.push_back(own);
  }
  node.operands = {x, positions};
  node.names = {dim};
  return add(node);
}

int GraphMaker::expand(int x, std::vector<Dim> dims) {
  Node node = shapeNode(Op::Expand, graph.nodes[x], x);
  node.dims = dims;
  return add(node);
}

int GraphMaker::permute(int x, std::vector<std::string> order) {
  Node node = shapeNode(Op::Permute, graph.nodes[x], x);
  node.dims.clear();
  for (const std::string &name : order)
    node.dims.push_back(graph.nodes[x].dims[graph.nodes[x].find(name)]);
  return add(node);
}

std::vector<int> GraphMaker::scan(const Dim &dim, bool fromEnd, const GraphMaker &body,
                                  const std::vector<int> &operands, int carried, int slices,
                                  const std::vector<int> &yields) {
  auto scan = std::make_shared<ScanBody>();
  scan->dim = dim;
  scan->fromEnd = fromEnd;
  scan->carried = carried;
  scan->slices = slices;
  scan->inputs = static_cast<int>(operands.size()) - carried - slices;
  scan->nodes = body.graph.nodes;
  scan->yields = yields;
  std::vector<int> results;
  for (int i = 0; i < static_cast<int>(yields.size()); ++i) {
    const Node &made = scan->nodes[yields[i]];
    Node node{Op::Scan, made.storage, i < carried ? graph.nodes[operands[i]].dims : made.dims};
    if (i >= carried)
      node.dims.insert(node.dims.begin(), dim);
    node.operands = operands;
    node.integer = i;
    node.scan = scan;
    results.push_back(add(node));
  }
  return results;
}

void GraphMaker::yield(int node, std::vector<std::optional<int64_t>> strides) {
  graph.results.push_back(node);
  graph.resultLayouts.push_back({false, strides.empty() ? denseStrides(graph.nodes[node].dims) : strides, 0});
}

KernelGraph &GraphMaker::finish(const std::string &name) {
  std::set<std::string> symbols;
  auto collect = [&](const ir::Size &size) {
    for (const std::string &symbol : size.symbols())
      symbols.insert(symbol);
  };
  for (const Node &node : graph.nodes) {
    for (const Dim &dim : node.dims)
      collect(dim.size);
    collect(node.size);
  }
  graph.name = name;
  graph.text = name;
  graph.symbols.assign(symbols.begin(), symbols.end());
  return graph;
}

} // namespace quern::codegen
