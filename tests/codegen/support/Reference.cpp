// Takes: a graph, lengths, arguments. Gives: every node's value.
// Why apart from ir's interpreter: this one reads the plain graph, so a mistake in reading kernels shows too.
#include "tests/codegen/support/Reference.h"

#include "ir/reference/Codes.h"
#include "support/numbers/SmallFloats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace quern::codegen {

static int64_t lengthOf(const ir::Size &size, const Lengths &lengths) {
  return size.evaluate([&](const std::string &symbol) { return lengths.at(symbol); });
}

std::vector<int64_t> shapeOf(const Node &node, const Lengths &lengths) {
  std::vector<int64_t> shape;
  for (const Dim &dim : node.dims)
    shape.push_back(lengthOf(dim.size, lengths));
  return shape;
}

namespace {
/// Dimensions by number: a position is asked for in every innermost loop, where a name would be most of the work.
using Slots = std::map<std::string, int>;
using Position = std::vector<int64_t>; ///< by slot; -1: not a dimension of what is looked at
struct Loop {
  int slot;
  int64_t length;
};
using Loops = std::vector<Loop>;

class Evaluator {
public:
  Evaluator(const KernelGraph &graph, const Lengths &lengths, Slots &slots, const Rounding &rounding = {});
  std::vector<DenseTensor> run(std::vector<DenseTensor> arguments);

private:
  /// A node's dimensions, and its `names` and `into`, as slots.
  struct Indexed {
    Loops dims;
    std::vector<int> names, into;
  };
  int slot(const std::string &name) { return slots.try_emplace(name, static_cast<int>(slots.size())).first->second; }
  double read(int node, const Position &at) const {
    int64_t offset = 0;
    for (const Loop &dim : indexed[node].dims)
      offset = offset * dim.length + at[dim.slot];
    return out[node].data[offset];
  }
  DenseTensor scanned(int i);
  Position nowhere() const { return Position(slots.size(), -1); }
  template <class Visit> static void forEach(const Loops &loops, Position at, const Visit &visit) {
    walk(loops, 0, at, visit);
  }
  template <class Visit> static void walk(const Loops &loops, size_t i, Position &at, const Visit &visit) {
    if (i == loops.size())
      return visit(at);
    for (int64_t &p = at[loops[i].slot] = 0; p < loops[i].length; ++p)
      walk(loops, i + 1, at, visit);
  }
  /// The dimension of `slot` in the first operand that has it.
  void addLoop(Loops &loops, const std::vector<int> &operands, int slot) const {
    for (int operand : operands)
      for (const Loop &dim : indexed[operand].dims)
        if (dim.slot == slot)
          return loops.push_back(dim);
  }
  Loops named(const std::vector<int> &operands, const std::vector<int> &names) const {
    Loops loops;
    for (int name : names)
      addLoop(loops, operands, name);
    return loops;
  }
  int64_t lengthIn(int node, int slot) const { return named({node}, {slot})[0].length; }
  double element(int i, const Position &at) const;
  double elementwise(const Node &node, const double *v) const;
  double combined(int i, const Position &at) const;
  double weighted(int i, const Position &at) const;
  double attended(int i, const Position &at) const;
  double moved(int i, const Position &at) const;

  const KernelGraph &graph;
  const Lengths &lengths;
  Slots &slots;
  const Rounding rounding;
  std::vector<Indexed> indexed;
  std::vector<DenseTensor> out;
  mutable double slack = 0; ///< of the element that was computed last
};
} // namespace

Evaluator::Evaluator(const KernelGraph &graph, const Lengths &lengths, Slots &slots, const Rounding &rounding)
    : graph(graph), lengths(lengths), slots(slots), rounding(rounding), out(graph.nodes.size()) {
  for (const Node &node : graph.nodes) {
    Indexed &here = indexed.emplace_back();
    for (const Dim &dim : node.dims)
      here.dims.push_back({slot(dim.name), lengthOf(dim.size, lengths)});
    for (const std::string &name : node.names)
      here.names.push_back(slot(name));
    for (const Dim &dim : node.into)
      here.into.push_back(slot(dim.name));
  }
}

double Evaluator::elementwise(const Node &node, const double *v) const {
  auto floorDiv = [](double a, double b) { return b == 0 ? 0 : std::floor(a / b); };
  switch (node.op) {
  case Op::Neg:
    return -v[0];
  case Op::Abs:
    return std::fabs(v[0]);
#define QUERN_REAL_FUNCTION(NAME, WORD, VALUE)                                                                         \
  case Op::NAME:                                                                                                       \
    return [](double x) -> double { return VALUE; }(v[0]);
    QUERN_REAL_FUNCTIONS(QUERN_REAL_FUNCTION)
  case Op::Floor:
    return std::floor(v[0]);
  case Op::Ceil:
    return std::ceil(v[0]);
  case Op::Round:
    return std::nearbyint(v[0]);
  case Op::ToInt:
    return std::trunc(v[0]);
  case Op::ToReal:
    return v[0];
  case Op::Rescale:
    return v[0] * v[1];
  case Op::Narrow:
    if (node.kind() == Kind::Int)
      return std::clamp(v[0], -128.0, 127.0);
    return support::bf16ToFloat(support::floatToBF16(static_cast<float>(v[0])));
  case Op::Widen:
  case Op::Dequantize:
    return v[0];
  case Op::Not:
    return v[0] == 0;
  case Op::Add:
    return v[0] + v[1];
  case Op::Sub:
    return v[0] - v[1];
  case Op::Mul:
    return v[0] * v[1];
  case Op::Div:
    return v[0] / v[1];
  case Op::FloorDiv:
    return floorDiv(v[0], v[1]);
  case Op::Mod:
    return v[0] - floorDiv(v[0], v[1]) * v[1];
  case Op::Pow:
    return std::pow(v[0], v[1]);
  case Op::Max:
    return std::max(v[0], v[1]);
  case Op::Min:
    return std::min(v[0], v[1]);
  case Op::And:
    return v[0] != 0 && v[1] != 0;
  case Op::Or:
    return v[0] != 0 || v[1] != 0;
  case Op::Where:
    return v[0] != 0 ? v[1] : v[2];
  case Op::Compare:
    switch (node.predicate) {
    case Predicate::Lt:
      return v[0] < v[1];
    case Predicate::Le:
      return v[0] <= v[1];
    case Predicate::Gt:
      return v[0] > v[1];
    case Predicate::Ge:
      return v[0] >= v[1];
    case Predicate::Eq:
      return v[0] == v[1];
    case Predicate::Ne:
      return v[0] != v[1];
    }
    [[fallthrough]];
  default:
    throw std::logic_error("not elementwise");
  }
}

double Evaluator::weighted(int i, const Position &at) const {
  const Node &node = graph.nodes[i];
  const int x = node.operands[0], y = node.operands[1];
  double sum = 0;
  forEach(named(node.operands, indexed[i].names), at, [&](const Position &p) {
    double weight = read(x, p), value = inPieces(read(y, p), rounding.pieces);
    sum += inPieces(weight, rounding.pieces) * value;
    if (node.op == Op::WeightedSum) // of a product both factors are data
      slack += undecided(weight, rounding.pieces) * std::fabs(value);
  });
  return sum;
}

double Evaluator::attended(int i, const Position &at) const {
  const Node &node = graph.nodes[i];
  const std::vector<int> &names = indexed[i].names;
  std::vector<double> scores, values, sinks;
  for (size_t n = 0; n < names.size(); ++n) {
    const int operand = node.operands[n ? n + 1 : 0];
    forEach(named({operand}, {names[n]}), at, [&](const Position &p) {
      (n ? sinks : scores).push_back(read(operand, p));
      if (!n)
        values.push_back(node.op == Op::Attention ? read(node.operands[1], p) : 0);
    });
  }
  const Rounding ofGraph{.pieces = 1, .keys = std::max<int64_t>(1, int64_t(scores.size())), .ofGraph = true};
  Attended made = attend(scores, values, sinks, node.integer ? ofGraph : rounding);
  slack += made.slack;
  return node.op == Op::Attention ? made.value : node.op == Op::AttentionShift ? made.shift : made.share;
}

double Evaluator::combined(int i, const Position &at) const {
  const Node &node = graph.nodes[i];
  const auto &[dims, names, into] = indexed[i];
  const int x = node.operands[0];
  const Loops over = named(node.operands, names);
  const double inf = std::numeric_limits<double>::infinity();
  if (node.op == Op::DistanceSum) {
    double sum = 0;
    forEach(named({x}, {names[0], names[1]}), at, [&](const Position &p) {
      int64_t apart = p[names[0]] - p[names[1]];
      sum += lengthOf(node.size, lengths) + apart == at[into[0]] ? read(x, p) : 0;
    });
    return sum;
  }
  if (node.op == Op::Contract || node.op == Op::WeightedSum)
    return weighted(i, at);
  if (node.op == Op::Reduce) {
    double sum = 0, most = -inf, least = inf, count = 0;
    forEach(over, at, [&](const Position &p) {
      double v = read(x, p);
      sum += v, most = std::max(most, v), least = std::min(least, v), ++count;
    });
    switch (node.reduction) {
    case Reduction::Sum:
      return sum;
    case Reduction::Mean:
      return sum / count;
    case Reduction::Max:
      return most;
    case Reduction::Min:
      return least;
    case Reduction::Any:
      return sum > 0;
    case Reduction::All:
      return sum == count;
    }
  }
  if (node.op == Op::Softmax) {
    double most = -inf, sum = 0;
    forEach(over, at, [&](const Position &p) { most = std::max(most, read(x, p)); });
    if (most == -inf)
      return 0;
    forEach(over, at, [&](const Position &p) { sum += std::exp(read(x, p) - most); });
    return std::exp(read(x, at) - most) / sum;
  }
  if (node.op == Op::Attention || node.op == Op::AttentionShift || node.op == Op::AttentionShare)
    return attended(i, at);
  if (node.op == Op::Cumsum) {
    double sum = 0;
    bool reverse = node.integer;
    forEach(over, at, [&](const Position &p) {
      int64_t here = p[names[0]], end = at[names[0]];
      sum += (reverse ? here >= end : here <= end) ? read(x, p) : 0;
    });
    return sum;
  }
  if (node.op == Op::Quantize) { // the number that the code stands for
    const int along = names[0];
    const int64_t here = at[along], each = support::blockOf(node.storage), first = here / each * each,
                  end = std::min(first + each, lengthIn(i, along));
    std::vector<float> numbers;
    Position p = at;
    for (p[along] = first; p[along] < end; ++p[along])
      numbers.push_back(static_cast<float>(read(x, p)));
    return ir::codedNumbers(node.storage, numbers, node.integer)[here - first];
  }
  if (node.op == Op::ScatterAdd) {
    double sum = 0, last = static_cast<double>(lengthOf(node.into[0].size, lengths) - 1);
    forEach(over, at, [&](const Position &p) {
      sum += std::clamp(read(node.operands[1], p), 0.0, last) == at[into[0]] ? read(x, p) : 0;
    });
    return sum;
  }
  std::vector<std::pair<double, int64_t>> order;
  forEach(over, at, [&](const Position &p) { order.emplace_back(-read(x, p), p[names[0]]); });
  std::stable_sort(order.begin(), order.end(), [](auto &a, auto &b) { return a.first < b.first; });
  if (node.op == Op::Argmax)
    return order[0].second;
  auto [value, position] = order[at[into[0]]];
  return node.op == Op::TopK ? -value : position;
}

double Evaluator::moved(int i, const Position &at) const {
  const Node &node = graph.nodes[i];
  const auto &[dims, names, into] = indexed[i];
  const int x = node.operands[0];
  Position p = at;
  switch (node.op) {
  case Op::Rename:
    for (size_t n = 0; n < names.size(); ++n)
      p[names[n]] = at[into[n]];
    return read(x, p);
  case Op::Split: {
    int64_t position = 0;
    for (size_t n = 0; n < into.size(); ++n)
      position = position * lengthOf(node.into[n].size, lengths) + at[into[n]];
    p[names[0]] = position;
    return read(x, p);
  }
  case Op::Merge: {
    int64_t position = at[into[0]];
    for (size_t n = names.size(); n-- > 0;) {
      int64_t size = lengthIn(x, names[n]);
      p[names[n]] = position % size;
      position /= size;
    }
    return read(x, p);
  }
  case Op::Cut:
    p[names[0]] = at[into[0]] + lengthOf(node.size, lengths);
    return read(x, p);
  case Op::Squeeze:
    p[names[0]] = 0;
    return read(x, p);
  case Op::Gather: {
    int64_t last = lengthIn(x, names[0]) - 1;
    p[names[0]] = std::clamp<int64_t>(static_cast<int64_t>(read(node.operands[1], at)), 0, last);
    return read(x, p);
  }
  case Op::Concat: {
    int64_t position = at[into[0]];
    for (size_t n = 0; n < node.operands.size(); ++n) {
      int64_t size = lengthIn(node.operands[n], names[n]);
      p[names[n]] = position;
      if (position < size)
        return read(node.operands[n], p);
      position -= size;
    }
    throw std::logic_error("concat is shorter than its dimension");
  }
  default:
    return read(x, p);
  }
}

double Evaluator::element(int i, const Position &at) const {
  const Node &node = graph.nodes[i];
  switch (node.op) {
  case Op::Const:
    return node.storage == Storage::F32 ? static_cast<float>(node.numbers[0]) : static_cast<double>(node.integer);
  case Op::Values:
    return static_cast<float>(node.numbers[at[indexed[i].dims[0].slot]]);
  case Op::Size:
    return static_cast<double>(lengthOf(node.size, lengths));
  case Op::Index:
    return static_cast<double>(at[indexed[i].dims[0].slot]);
  default:
    break;
  }
  if (graph.isElementwise(i)) {
    double v[3];
    for (size_t n = 0; n < node.operands.size(); ++n)
      v[n] = read(node.operands[n], at);
    return elementwise(node, v);
  }
  return node.op <= Op::TopKPositions ? combined(i, at) : moved(i, at);
}

/// One result of a scan: all of its positions again, as tests are small.
DenseTensor Evaluator::scanned(int index) {
  const Node &node = graph.nodes[index];
  const ScanBody &scan = *node.scan;
  KernelGraph body;
  body.nodes = scan.nodes;
  Evaluator inside(body, lengths, slots, rounding);
  const int along = slot(scan.dim.name);
  std::vector<DenseTensor> arguments;
  auto copy = [&](int operand, int argument, const Position &at) {
    DenseTensor tensor{shapeOf(body.nodes[argument], lengths), {}};
    forEach(inside.indexed[argument].dims, at, [&](const Position &p) { tensor.data.push_back(read(operand, p)); });
    return tensor;
  };
  for (size_t i = 0; i < node.operands.size(); ++i)
    arguments.push_back(static_cast<int>(i) < scan.carried || static_cast<int>(i) >= scan.carried + scan.slices
                            ? copy(node.operands[i], static_cast<int>(i), nowhere())
                            : DenseTensor{});
  DenseTensor result{shapeOf(node, lengths), {}};
  result.data.resize(1);
  for (int64_t size : result.shape)
    result.data.resize(result.data.size() * size);
  auto write = [&](const Position &here) {
    int yielded = scan.yields[node.integer];
    forEach(indexed[index].dims, nowhere(), [&](const Position &at) {
      if (at[along] >= 0 && at[along] != here[along])
        return;
      int64_t offset = 0;
      for (const Loop &dim : indexed[index].dims)
        offset = offset * dim.length + at[dim.slot];
      result.data[offset] = inside.read(yielded, at);
    });
  };
  int64_t count = lengthOf(scan.dim.size, lengths);
  for (int64_t n = 0; n < count; ++n) {
    Position here = nowhere();
    here[along] = scan.fromEnd ? count - 1 - n : n;
    for (int i = scan.carried; i < scan.carried + scan.slices; ++i)
      arguments[i] = copy(node.operands[i], i, here);
    inside.run(arguments);
    if (node.integer >= scan.carried || n == count - 1)
      write(here);
    for (int i = 0; i < scan.carried; ++i) { // in the order of the argument's dimensions
      DenseTensor next{arguments[i].shape, {}};
      forEach(inside.indexed[i].dims, nowhere(),
              [&](const Position &at) { next.data.push_back(inside.read(scan.yields[i], at)); });
      arguments[i] = next;
    }
  }
  return result;
}

std::vector<DenseTensor> Evaluator::run(std::vector<DenseTensor> arguments) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op == Op::Argument) {
      out[i] = arguments[i];
      continue;
    }
    if (graph.nodes[i].op == Op::Scan) {
      out[i] = scanned(static_cast<int>(i));
      continue;
    }
    DenseTensor tensor{shapeOf(graph.nodes[i], lengths), {}};
    forEach(indexed[i].dims, nowhere(), [&](const Position &at) {
      slack = 0;
      tensor.data.push_back(element(static_cast<int>(i), at));
      tensor.slack.push_back(slack);
    });
    out[i] = std::move(tensor);
  }
  return out;
}

std::vector<DenseTensor> evaluate(const KernelGraph &graph, const Lengths &lengths, std::vector<DenseTensor> arguments,
                                  const Rounding &rounding) {
  Slots slots;
  return Evaluator(graph, lengths, slots, rounding).run(std::move(arguments));
}

} // namespace quern::codegen
