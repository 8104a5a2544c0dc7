// Takes: a kernel with a scan. Gives: tasks, lanes, and the order in which a position is computed.
//
//   h' = exp(rate * step) * h + step * u * b; y = sum[N](h' * c)      h: [B, E, N]
//   tasks B and blocks of E, lanes E, inner N; one nest over N: next h, and y in passing
//
//   its gradient: besides, db = sum[E](dh * u * step)
//   tasks and lanes as before: what no state needs may be a sum over the lanes; parts of E have sums of their own
//
//   h1 = keep * h; r = sum[A](h1 * k); h' = h1 + k * (beta * (v - r)); y = sum[A](h' * q)      h: [B, L, A, U]
//   tasks B, L and blocks of U, lanes U; first r, a loop over A; then a nest over A: next h, and y in passing
#include "codegen/scan/ScanShape.h"

#include <algorithm>
#include <functional>

namespace quern::codegen::scan {

bool ScanShape::isTask(const std::string &dim) const {
  return std::any_of(tasks.begin(), tasks.end(), [&](const Dim &task) { return task.name == dim; });
}

std::vector<Dim> ScanShape::inner(const std::vector<Dim> &dims) const {
  std::vector<Dim> rest;
  for (const Dim &dim : dims)
    if (!isTask(dim.name) && (!lane || dim.name != lane->name))
      rest.push_back(dim);
  return rest;
}

bool ScanShape::hasLane(const std::vector<Dim> &dims) const {
  return lane && std::any_of(dims.begin(), dims.end(), [&](const Dim &dim) { return dim.name == lane->name; });
}

bool isReduction(const Node &node) {
  return node.op == Op::Reduce || node.op == Op::Contract;
}

std::vector<Dim> reducedDims(const std::vector<Node> &nodes, const Node &node) {
  std::vector<Dim> dims;
  for (const std::string &name : node.names)
    for (int operand : node.operands)
      if (int at = nodes[operand].find(name); at >= 0) {
        dims.push_back(nodes[operand].dims[at]);
        break;
      }
  return dims;
}

int64_t ScanShape::blocksOfPart() const {
  constexpr int64_t most = 16;
  return totals.empty() ? blocks() : (blocks() + most - 1) / most;
}

static bool isElementwise(Op op) {
  return op >= Op::Neg && op <= Op::Where && op != Op::Narrow && !widensStored(op);
}
static bool isLeaf(Op op) {
  return op == Op::Argument || op == Op::Const || op == Op::Size || op == Op::Index || op == Op::Values;
}
/// Dimensions pass through it by name.
static bool isPlain(Op op) {
  return isElementwise(op) || isLeaf(op) || op == Op::Expand || op == Op::Permute;
}
static bool isMove(Op op) {
  return op >= Op::Rename && op <= Op::Gather && op != Op::Permute;
}

static std::optional<std::string> refusal(const std::vector<Node> &nodes) {
  for (const Node &node : nodes) {
    if (!isPlain(node.op) && !isMove(node.op) && !isReduction(node) && node.op != Op::Scan)
      return "it has no loops for cumsum, argmax, top_k or attention within a recurrence";
    if (!isComputed(node.storage))
      return "it has no loops for numbers of few bytes";
  }
  return std::nullopt;
}

namespace {
class Divider {
public:
  Divider(const KernelGraph &graph, const CpuTarget &target, ScanShape &shape)
      : graph(graph), target(target), shape(shape), body(*shape.body), nodes(body.nodes) {}

  std::optional<std::string> run() {
    shape.tasks = tasksBut({});
    findTotals();
    chooseLane();
    std::vector<char> needed = reached(wanted());
    for (size_t i = 0; i < nodes.size(); ++i)
      if (needed[i])
        if (auto why = fits(nodes[i]))
          return why;
    makeNests(needed);
    return std::nullopt;
  }

private:
  const KernelGraph &graph;
  const CpuTarget &target;
  ScanShape &shape;
  const ScanBody &body;
  const std::vector<Node> &nodes;

  /// The nodes that are yielded for something.
  std::vector<int> wanted() const {
    std::vector<int> out(body.yields.begin(), body.yields.begin() + body.carried);
    for (auto [number, result] : shape.results)
      if (number >= body.carried)
        out.push_back(body.yields[number]);
    return out;
  }

  std::vector<char> reached(const std::vector<int> &from) const {
    std::vector<char> seen(nodes.size());
    std::vector<int> work = from;
    while (!work.empty()) {
      int node = work.back();
      work.pop_back();
      if (seen[node])
        continue;
      seen[node] = true;
      work.insert(work.end(), nodes[node].operands.begin(), nodes[node].operands.end());
    }
    return seen;
  }

  /// Dimensions that nothing but `sums` touches and everything but they has.
  std::vector<Dim> tasksBut(const std::set<int> &sums) const {
    std::set<std::string> touched;
    for (size_t i = 0; i < nodes.size(); ++i)
      if (!isPlain(nodes[i].op) && !sums.count(static_cast<int>(i))) {
        touched.insert(nodes[i].names.begin(), nodes[i].names.end());
        for (const Dim &dim : nodes[i].into)
          touched.insert(dim.name);
      }
    std::vector<Dim> tasks;
    for (const Dim &dim : nodes[0].dims) {
      bool everywhere = touched.count(dim.name) == 0;
      for (int node : wanted())
        everywhere = everywhere && (nodes[node].has(dim.name) || sums.count(node));
      if (everywhere)
        tasks.push_back(dim);
    }
    return tasks;
  }

  /// Where no task is wide enough for vectors: the last dimension that is one but for sums that are results and nothing
  /// else.
  void findTotals() {
    auto wide = [&](const Dim &dim) { return dim.fixed().value_or(0) >= target.vector; };
    if (!target.device.empty() || std::any_of(shape.tasks.begin(), shape.tasks.end(), wide))
      return;
    std::map<int, int> results; // nodes that are sums -> the only result that each is
    for (auto [number, result] : shape.results) {
      int node = number < body.carried ? -1 : body.yields[number];
      bool sum = node >= 0 && isReduction(nodes[node]) && nodes[node].kind() == Kind::Real &&
                 (nodes[node].op == Op::Contract || nodes[node].reduction == Reduction::Sum);
      bool read = std::any_of(nodes.begin(), nodes.end(), [&](const Node &other) {
        return std::count(other.operands.begin(), other.operands.end(), node) > 0;
      });
      if (sum && !read && std::count(body.yields.begin(), body.yields.end(), node) == 1)
        results[node] = number;
    }
    for (auto dim = nodes[0].dims.rbegin(); dim != nodes[0].dims.rend(); ++dim) {
      std::set<int> over;
      for (auto [node, number] : results)
        if (std::count(nodes[node].names.begin(), nodes[node].names.end(), dim->name))
          over.insert(node);
      std::vector<Dim> tasks = tasksBut(over);
      auto same = [&](const Dim &other) { return other.name == dim->name; };
      if (over.empty() || !wide(*dim) || std::none_of(tasks.begin(), tasks.end(), same))
        continue;
      shape.tasks.push_back(*dim);
      for (int node : over)
        shape.totals.insert(results[node]);
      return;
    }
  }
  bool isTotal(int node) const {
    return std::any_of(shape.totals.begin(), shape.totals.end(),
                       [&](int number) { return body.yields[number] == node; });
  }

  /// Vectors run along the dimension that most of what is read and written has contiguous.
  void chooseLane() {
    int best = -1;
    double most = -1;
    for (size_t i = 0; i < shape.tasks.size(); ++i) {
      const Dim &dim = shape.tasks[i];
      if (!dim.fixed() || *dim.fixed() < 2 || (!shape.totals.empty() && i + 1 < shape.tasks.size()))
        continue; // totals are sums over the last one
      double score = std::min<double>(static_cast<double>(*dim.fixed()), 64) / 64;
      auto count = [&](const Node &node, const Layout &layout, double weight) {
        if (int at = node.find(dim.name); at >= 0 && layout.strides[at] == 1)
          score += weight;
      };
      for (size_t k = 0; k < shape.operands.size(); ++k) {
        int node = shape.operands[k];
        bool slice = static_cast<int>(k) >= body.carried && static_cast<int>(k) < body.carried + body.slices;
        if (node < graph.argumentCount())
          count(graph.nodes[node], graph.argumentLayouts[node], slice ? 4 : 1);
      }
      for (auto [number, result] : shape.results)
        count(graph.nodes[graph.results[result]], graph.resultLayouts[result], number >= body.carried ? 4 : 1);
      if (score > most)
        most = score, best = static_cast<int>(i);
    }
    if (best < 0)
      return;
    shape.lane = shape.tasks[best];
    shape.tasks.erase(shape.tasks.begin() + best);
    // Enough independent additions to hide their latency, but a state that stays in registers where it can.
    int64_t inner = 1;
    for (const Dim &dim : shape.inner(nodes[0].dims))
      inner *= dim.fixed().value_or(64);
    int64_t lanes = *shape.lane->fixed();
    int vectors = inner >= 8 && inner <= 32 ? 1 : 4;
    shape.width = target.vector;
    while (vectors > 1 && shape.width * 2 <= lanes) {
      shape.width *= 2;
      vectors /= 2;
    }
  }

  /// What the emitter can make of a node.
  std::optional<std::string> fits(const Node &node) const {
    if (isReduction(node) || node.op == Op::Argument)
      for (const Dim &dim : shape.inner(node.dims))
        if (!dim.fixed() && (isReduction(node) || &node < &nodes[body.carried]))
          return "the recurrence keeps " + dim.name + " positions, a number that only the run knows";
    if (node.op == Op::Gather && shape.hasLane(nodes[node.operands[1]].dims))
      return "the recurrence gathers positions that differ between neighbouring elements";
    return std::nullopt;
  }

  /// The carried values that a node is made of without a reduction between, and whether something moves positions
  /// on the way.
  void readsOf(int node, bool moved, std::map<int, bool> &out) const {
    if (node < body.carried) {
      out[node] |= moved;
      return;
    }
    if (isReduction(nodes[node]))
      return;
    for (int operand : nodes[node].operands)
      readsOf(operand, moved || isMove(nodes[node].op), out);
  }
  std::map<int, bool> readsOf(int node) const {
    std::map<int, bool> out;
    readsOf(node, false, out);
    return out;
  }

  static bool sameDims(const std::vector<Dim> &a, const std::vector<Dim> &b) {
    return a.size() == b.size() && std::all_of(a.begin(), a.end(), [&](const Dim &dim) {
             return std::any_of(b.begin(), b.end(), [&](const Dim &other) { return other.name == dim.name; });
           });
  }

  Nest &nestOver(std::vector<Nest> &nests, const std::vector<Dim> &dims) {
    for (Nest &nest : nests)
      if (sameDims(nest.dims, dims))
        return nest;
    nests.push_back({dims, {}, {}, {}, {}});
    return nests.back();
  }

  /// Reductions that only outputs need, over just what a nest of states runs over.
  std::map<int, size_t> inPassing(const std::vector<char> &needed, const std::vector<Nest> &states) const {
    std::map<int, size_t> late;
    std::vector<char> forStates = reached({body.yields.begin(), body.yields.begin() + body.carried});
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (!needed[i] || forStates[i] || !isReduction(nodes[i]) || !shape.inner(nodes[i].dims).empty() ||
          isTotal(static_cast<int>(i)))
        continue;
      if (nodes[i].op == Op::Reduce && nodes[i].reduction != Reduction::Sum)
        continue;
      bool read = false; // by another reduction
      for (size_t k = i + 1; k < nodes.size(); ++k)
        if (needed[k] && isReduction(nodes[k]))
          read |= reached({static_cast<int>(k)})[i] != 0;
      bool again = false; // by an output that reads a state besides
      for (auto [number, result] : shape.results)
        if (number >= body.carried && reached({body.yields[number]})[i])
          again |= !readsOf(body.yields[number]).empty();
      if (read || again)
        continue;
      for (size_t n = 0; n < states.size(); ++n)
        if (sameDims(states[n].dims, reducedDims(nodes, nodes[i])))
          late[static_cast<int>(i)] = n;
    }
    return late;
  }

  void makeNests(const std::vector<char> &needed) {
    std::vector<Nest> states, before, after;
    for (int i = 0; i < body.carried; ++i)
      nestOver(states, shape.inner(nodes[i].dims)).carried.push_back(i);
    std::map<int, size_t> late = inPassing(needed, states);
    for (auto [node, nest] : late)
      states[nest].sums.push_back(node);
    for (size_t i = 0; i < nodes.size(); ++i)
      if (needed[i] && isReduction(nodes[i]) && !late.count(static_cast<int>(i)) && !isTotal(static_cast<int>(i)))
        shape.reductions.push_back(static_cast<int>(i));
    for (auto [number, result] : shape.results) {
      if (number < body.carried)
        continue;
      int node = body.yields[number];
      if (shape.totals.count(number)) {
        std::vector<Dim> over = shape.inner(nodes[node].dims);
        for (const Dim &dim : shape.inner(reducedDims(nodes, nodes[node])))
          over.push_back(dim);
        nestOver(states, over).totals.push_back(number);
        continue;
      }
      std::vector<char> from = reached({node});
      bool waits = std::any_of(late.begin(), late.end(), [&](const auto &sum) { return from[sum.first] != 0; });
      std::vector<Dim> dims = shape.inner(nodes[node].dims);
      bool withState = !waits && std::any_of(states.begin(), states.end(),
                                             [&](const Nest &nest) { return sameDims(nest.dims, dims); });
      nestOver(withState ? states : waits ? after : before, dims).outputs.push_back(number);
    }
    shape.nests = before;
    shape.nests.insert(shape.nests.end(), states.begin(), states.end());
    shape.nests.insert(shape.nests.end(), after.begin(), after.end());
    // A state that a later nest reads, or that its own reads at another position, keeps its value to the end.
    std::set<int> known;
    for (const Nest &nest : shape.nests) {
      std::vector<int> made = nest.sums;
      for (int i : nest.carried)
        made.push_back(body.yields[i]);
      for (int number : nest.outputs)
        made.push_back(body.yields[number]);
      for (int number : nest.totals)
        made.push_back(body.yields[number]);
      for (int node : made) {
        std::map<int, bool> reads;
        if (isReduction(nodes[node]) && (std::count(nest.sums.begin(), nest.sums.end(), node) || isTotal(node)))
          for (int operand : nodes[node].operands)
            readsOf(operand, false, reads);
        else
          readsOf(node, false, reads);
        for (auto [state, moved] : reads)
          if (moved || known.count(state))
            shape.shadowed.insert(state);
      }
      known.insert(nest.carried.begin(), nest.carried.end());
    }
  }
};
} // namespace

std::optional<std::string> divide(const KernelGraph &graph, const CpuTarget &target, ScanShape &shape) {
  for (const std::vector<Node> *nodes : {&graph.nodes}) {
    if (auto why = refusal(*nodes))
      return why;
    for (const Node &node : *nodes)
      if (isReduction(node))
        return "it has no loops for sums beside a recurrence";
  }
  for (size_t r = 0; r < graph.results.size(); ++r) {
    const Node &node = graph.nodes[graph.results[r]];
    if (node.op != Op::Scan)
      return "it makes recurrences, and a result of the kernel is none";
    if (shape.body && shape.body != node.scan.get())
      return "it makes one recurrence in a kernel";
    shape.body = node.scan.get();
    shape.operands = node.operands;
    shape.results[static_cast<int>(node.integer)] = static_cast<int>(r);
  }
  if (!shape.body)
    return "it makes nothing but recurrences";
  for (const Layout &layout : graph.argumentLayouts)
    if (layout.packed)
      return "it reads no packed weights";
  if (auto why = refusal(shape.body->nodes))
    return why;
  for (const Node &node : shape.body->nodes)
    if (node.op == Op::Scan)
      return "it has no loops for a recurrence inside of another";
  return Divider(graph, target, shape).run();
}

} // namespace quern::codegen::scan
