// Takes: a recurrence. Gives: stages that compute it with a work-item for each element of the dimensions that its body
// does not touch (ScanShape.h: tasks and lanes).
//
//   memory of a work-item:  carried values | the same, of the other half | sums | all parts of results, by position
//
//   for each position                              what is carried goes from one half to the other
//     for each element of each sum, its terms      sum = first ? term : sum + term
//     for each element of each next value, part    written from the present values and the sums
//
// Why one memory: Halide has no recurrence through several functions. All elements of a position are one loop, whose
// steps choose what they compute; so a step computes what every kind of element needs and keeps one of them.
#include "codegen/halide/gpu/GeneralScan.h"

#include "codegen/halide/Math.h"
#include "codegen/scan/ScanShape.h"

#include <algorithm>

using namespace Halide;

namespace quern::codegen {

static bool hasScan(const KernelGraph &graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node &node) { return node.op == Op::Scan; });
}

std::optional<std::string> refusesScan(const KernelGraph &graph, const CpuTarget &target) {
  if (!hasScan(graph))
    return std::nullopt;
  scan::ScanShape shape;
  if (auto why = scan::divide(graph, target, shape))
    return why;
  std::vector<Dim> dims; // of what a work-item keeps or goes through
  const std::vector<Node> &nodes = shape.body->nodes;
  for (const Node &node : nodes)
    if (scan::isReduction(node))
      for (const Dim &dim : scan::reducedDims(nodes, node))
        dims.push_back(dim);
  for (auto [number, result] : shape.results)
    for (const Dim &dim : shape.inner(nodes[shape.body->yields[number]].dims))
      dims.push_back(dim);
  for (const Dim &dim : dims)
    if (!dim.fixed())
      return "a device's work-item goes through " + dim.name +
             " positions within the recurrence, a number that only the run knows; compile with --target native";
  return std::nullopt;
}

KernelGraph withScanBody(const KernelGraph &graph, const CpuTarget &target) {
  KernelGraph out = graph;
  if (!hasScan(graph))
    return out;
  scan::ScanShape shape;
  if (auto why = scan::divide(graph, target, shape))
    throw std::logic_error(*why);
  std::vector<std::string> tasks;
  for (const Dim &dim : shape.tasks)
    tasks.push_back(dim.name);
  if (shape.lane)
    tasks.push_back(shape.lane->name);
  out.nodes.clear();
  std::vector<int> now; // where a node of the graph is
  bool met = false;
  for (const Node &node : graph.nodes) {
    if (node.op == Op::Scan && !met) {
      met = true;
      int base = static_cast<int>(out.nodes.size());
      for (Node inner : node.scan->nodes) {
        for (int &operand : inner.operands)
          operand += base;
        inner.scan = node.scan;
        out.nodes.push_back(std::move(inner));
      }
    }
    now.push_back(static_cast<int>(out.nodes.size()));
    Node copy = node;
    for (int &operand : copy.operands)
      operand = now[operand];
    if (copy.op == Op::Scan)
      copy.names = tasks;
    out.nodes.push_back(std::move(copy));
  }
  for (int &result : out.results)
    result = now[result];
  return out;
}

GeneralScan::GeneralScan(KernelBuilder &builder, int node)
    : b(builder), first(node), base(node - static_cast<int>(builder.graph.nodes[node].scan->nodes.size())),
      body(*builder.graph.nodes[node].scan) {
  const Node &scan = b.graph.nodes[node];
  for (const Dim &dim : b.graph.nodes[base].dims)
    if (std::find(scan.names.begin(), scan.names.end(), dim.name) != scan.names.end())
      tasks.push_back(dim);
}

GeneralScan::Place GeneralScan::take(int node) {
  Place place{node, {}, taken, 1};
  for (const Dim &dim : b.graph.nodes[node].dims)
    if (std::none_of(tasks.begin(), tasks.end(), [&](const Dim &task) { return task.name == dim.name; })) {
      place.dims.push_back(dim);
      place.count *= *dim.fixed();
    }
  taken += place.count;
  return place;
}

Index GeneralScan::indexOf(const std::vector<Dim> &dims, Expr i) const {
  Index index = KernelBuilder::varsOf(tasks);
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    int32_t length = static_cast<int32_t>(*dim->fixed());
    index[dim->name] = dim + 1 == dims.rend() ? i : i % length;
    i = i / length;
  }
  return index;
}

Expr GeneralScan::offsetOf(const Place &place, const Index &index) {
  Expr offset = 0;
  for (const Dim &dim : place.dims)
    offset = offset * static_cast<int32_t>(*dim.fixed()) + index.at(dim.name);
  return offset;
}

/// Memory is real: whole numbers and truth values are kept as bits.
Expr GeneralScan::stored(int node, const Index &index) const {
  Expr value = b.at(node, index);
  if (b.graph.nodes[node].kind() == Kind::Real)
    return value.type().is_float() ? value : cast<float>(value);
  return reinterpret<float>(cast<int32_t>(value));
}

Expr GeneralScan::read(const Expr &at, Kind kind) const {
  std::vector<Expr> args;
  for (auto task = tasks.rbegin(); task != tasks.rend(); ++task)
    args.push_back(KernelBuilder::var(task->name));
  args.push_back(at);
  Expr value = memory(args);
  return kind == Kind::Real  ? value
         : kind == Kind::Int ? reinterpret<int32_t>(value)
                             : reinterpret<int32_t>(value) != 0;
}

void GeneralScan::place() {
  const std::vector<Node> &nodes = b.graph.nodes;
  for (int n = first; n < static_cast<int>(nodes.size()); ++n)
    if (nodes[n].op == Op::Scan && nodes[n].integer >= body.carried)
      wanted.push_back(static_cast<int>(nodes[n].integer));
  std::vector<char> needed(nodes.size());
  for (int i = 0; i < body.carried; ++i)
    needed[base + body.yields[i]] = 1;
  for (int number : wanted)
    needed[base + body.yields[number]] = 1;
  for (int n = first - 1; n >= base; --n)
    for (int operand : nodes[n].operands)
      needed[operand] |= needed[n];
  for (int i = 0; i < body.carried; ++i)
    states.push_back(take(base + i));
  halfSize = taken, taken *= 2;
  for (int n = base; n < first; ++n)
    if (needed[n] && scan::isReduction(nodes[n]))
      sums.push_back(take(n));
  outputBegin = taken;
  for (int number : wanted)
    outputs.push_back(take(base + body.yields[number]));
  outputSize = taken - outputBegin;
}

/// Values of the body's nodes at a position.
void GeneralScan::defineBody() {
  const Node &scan = b.graph.nodes[first];
  for (int k = 0; k < body.carried + body.slices + body.inputs; ++k) {
    if (k < body.carried)
      b.values[base + k] = [this, &place = states[k]](const Index &index) {
        return read(step % 2 * static_cast<int32_t>(halfSize) + static_cast<int32_t>(place.at) + offsetOf(place, index),
                    b.graph.nodes[place.node].kind());
      };
    else
      b.values[base + k] = [this, operand = scan.operands[k], part = k < body.carried + body.slices](Index index) {
        if (part)
          index[body.dim.name] = position;
        return b.at(operand, index);
      };
  }
  for (const Place &sum : sums)
    b.values[sum.node] = [this, &sum](const Index &index) {
      Expr value = read(static_cast<int32_t>(sum.at) + offsetOf(sum, index), Kind::Real);
      const Node &node = b.graph.nodes[sum.node];
      if (node.op != Op::Reduce || node.reduction != Reduction::Mean)
        return value;
      float count = 1;
      for (const Dim &dim : scan::reducedDims(b.graph.nodes, node))
        count *= static_cast<float>(*dim.fixed());
      return math::div(value, count);
    };
  for (int n = base; n < first; ++n)
    if (!b.values[n])
      b.values[n] = [this, n](const Index &index) {
        const Node &node = b.graph.nodes[n];
        return node.op <= Op::Index       ? b.constants(n, index)
               : b.graph.isElementwise(n) ? b.elementwise(node, index)
                                          : b.shape(node, index);
      };
}

GeneralScan::Phase GeneralScan::sumOf(const Place &sum) const {
  const Node &node = b.graph.nodes[sum.node];
  std::vector<Dim> over = scan::reducedDims(b.graph.nodes, node), dims = sum.dims;
  dims.insert(dims.end(), over.begin(), over.end());
  int64_t terms = 1;
  for (const Dim &dim : over)
    terms *= *dim.fixed();
  return {sum.count * terms, [this, &sum, &node, dims, terms](const Expr &i) {
            Index index = indexOf(dims, i);
            Expr at = static_cast<int32_t>(sum.at) + i / static_cast<int32_t>(terms);
            Expr term = b.real(node.operands[0], index);
            if (node.op == Op::Contract)
              term = term * b.real(node.operands[1], index);
            Reduction reduction = node.op == Op::Contract ? Reduction::Sum : node.reduction;
            Expr known = math::choose(i % static_cast<int32_t>(terms) == 0,
                                      KernelBuilder::identity(reduction, Kind::Real), read(at, Kind::Real));
            return std::pair(at, KernelBuilder::combine(reduction, known, term));
          }};
}

GeneralScan::Phase GeneralScan::copyOf(int node, const Place &to, std::function<Expr()> begin) const {
  return {to.count, [this, node, &to, begin = std::move(begin)](const Expr &i) {
            return std::pair(begin() + static_cast<int32_t>(to.at) + i, stored(node, indexOf(to.dims, i)));
          }};
}

void GeneralScan::define() {
  const Node &scan = b.graph.nodes[first];
  place();
  // Results' parts are a position apart.
  ir::Size all = ir::Size(outputBegin) + body.dim.size * ir::Size(outputSize);
  std::vector<Dim> dims = {{"memory of a work-item", all}};
  dims.insert(dims.end(), tasks.begin(), tasks.end());
  memory = b.newFunc("recurrence", first);
  std::vector<Var> args = KernelBuilder::pureArgs(dims);
  Expr at = args.back(), begin = 0.0f;
  for (const Place &state : states) {
    int32_t from = static_cast<int32_t>(state.at), count = static_cast<int32_t>(state.count);
    Index index = indexOf(state.dims, clamp(at - from, 0, count - 1));
    begin = math::choose(at >= from && at < from + count, stored(scan.operands[state.node - base], index), begin);
  }
  memory(args) = begin;

  std::vector<Phase> phases;
  for (const Place &sum : sums)
    phases.push_back(sumOf(sum));
  for (const Place &state : states)
    phases.push_back(copyOf(base + body.yields[state.node - base], state,
                            [this] { return (1 - step % 2) * static_cast<int32_t>(halfSize); }));
  for (const Place &output : outputs)
    phases.push_back(copyOf(output.node, output, [this] { return step * static_cast<int32_t>(outputSize); }));
  int64_t elements = 0;
  for (const Phase &phase : phases)
    elements += phase.count;
  Expr length = b.extent(body.dim.size);
  RDom r(0, static_cast<int32_t>(elements), 0, length);
  step = r.y, position = body.fromEnd ? length - 1 - r.y : step;
  defineBody();
  Expr where, what;
  int32_t from = 0;
  for (const Phase &phase : phases) {
    auto [place, value] = phase.element(clamp(r.x - from, 0, static_cast<int32_t>(phase.count) - 1));
    where = from ? select(r.x < from, where, place) : place;
    what = from ? math::choose(r.x < from, what, value) : value;
    from += static_cast<int32_t>(phase.count);
  }
  std::vector<Expr> to(args.begin(), args.end());
  to.back() = clamp(where, 0, b.extent(all) - 1);
  memory(to) = what;
  b.addStage({memory, dims, {{r.x, r.y}}, false, {}, false});

  for (int n = first; n < static_cast<int>(b.graph.nodes.size()); ++n) {
    const Node &node = b.graph.nodes[n];
    if (node.op != Op::Scan)
      continue;
    bool carried = node.integer < body.carried;
    size_t number = carried ? size_t(node.integer)
                            : size_t(std::find(wanted.begin(), wanted.end(), int(node.integer)) - wanted.begin());
    b.isStage[n] = 1;
    b.values[n] = [func = memory, place = carried ? states[number] : outputs[number], tasks = tasks, carried, length,
                   halfSize = int32_t(halfSize), outputSize = int32_t(outputSize), fromEnd = body.fromEnd,
                   dim = body.dim.name, kind = node.kind()](const Index &index) {
      Expr offset = offsetOf(place, index) + static_cast<int32_t>(place.at);
      if (carried)
        offset = offset + length % 2 * halfSize;
      else
        offset = offset + (fromEnd ? length - 1 - index.at(dim) : index.at(dim)) * outputSize;
      std::vector<Expr> call;
      for (auto task = tasks.rbegin(); task != tasks.rend(); ++task)
        call.push_back(index.at(task->name));
      call.push_back(offset);
      Expr value = func(call);
      return kind == Kind::Real  ? value
             : kind == Kind::Int ? reinterpret<int32_t>(value)
                                 : reinterpret<int32_t>(value) != 0;
    };
  }
}

void takeScans(KernelBuilder &b) {
  for (int i = 0; i < static_cast<int>(b.graph.nodes.size()); ++i)
    if (b.graph.nodes[i].op == Op::Scan)
      b.take(i, [&b, i] {
        if (!b.values[i]) // the first of its results defines all
          GeneralScan(b, i).define();
      });
}

} // namespace quern::codegen
