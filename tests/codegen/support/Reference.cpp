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

using Position = std::map<std::string, int64_t>;

namespace {
class Evaluator {
public:
  Evaluator(const KernelGraph &graph, const Lengths &lengths)
      : graph(graph), lengths(lengths), out(graph.nodes.size()) {}
  std::vector<DenseTensor> run(std::vector<DenseTensor> arguments);

private:
  double read(int node, const Position &at) const {
    int64_t offset = 0;
    for (size_t i = 0; i < graph.nodes[node].dims.size(); ++i)
      offset = offset * out[node].shape[i] + at.at(graph.nodes[node].dims[i].name);
    return out[node].data[offset];
  }
  DenseTensor scanned(const Node &node) const;
  int64_t length(const Dim &dim) const { return lengthOf(dim.size, lengths); }
  void forEach(const std::vector<Dim> &dims, Position at, const std::function<void(const Position &)> &visit,
               size_t i = 0) const {
    if (i == dims.size())
      return visit(at);
    for (int64_t p = 0; p < length(dims[i]); ++p) {
      at[dims[i].name] = p;
      forEach(dims, at, visit, i + 1);
    }
  }
  std::vector<Dim> named(const std::vector<int> &operands, const std::vector<std::string> &names) const {
    std::vector<Dim> dims;
    for (const std::string &name : names)
      for (int operand : operands)
        if (graph.nodes[operand].has(name)) {
          dims.push_back(graph.nodes[operand].dims[graph.nodes[operand].find(name)]);
          break;
        }
    return dims;
  }
  double element(int i, const Position &at) const;
  double elementwise(const Node &node, const std::vector<double> &v) const;
  double combined(const Node &node, const Position &at) const;
  double moved(const Node &node, const Position &at) const;

  const KernelGraph &graph;
  const Lengths &lengths;
  std::vector<DenseTensor> out;
};
} // namespace

double Evaluator::elementwise(const Node &node, const std::vector<double> &v) const {
  auto floorDiv = [](double a, double b) { return b == 0 ? 0 : std::floor(a / b); };
  switch (node.op) {
  case Op::Neg:
    return -v[0];
  case Op::Abs:
    return std::fabs(v[0]);
  case Op::Exp:
    return std::exp(v[0]);
  case Op::Expm1:
    return std::expm1(v[0]);
  case Op::Log:
    return std::log(v[0]);
  case Op::Log1p:
    return std::log1p(v[0]);
  case Op::Sqrt:
    return std::sqrt(v[0]);
  case Op::Sin:
    return std::sin(v[0]);
  case Op::Cos:
    return std::cos(v[0]);
  case Op::Tanh:
    return std::tanh(v[0]);
  case Op::Sigmoid:
    return 1 / (1 + std::exp(-v[0]));
  case Op::Erf:
    return std::erf(v[0]);
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
  case Op::Narrow:
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

double Evaluator::combined(const Node &node, const Position &at) const {
  int x = node.operands[0];
  std::vector<Dim> over = named(node.operands, node.names);
  const double inf = std::numeric_limits<double>::infinity();
  if (node.op == Op::DistanceSum) {
    double sum = 0;
    forEach(named({x}, {node.names[0], node.names[1]}), at, [&](const Position &p) {
      int64_t apart = p.at(node.names[0]) - p.at(node.names[1]);
      sum += lengthOf(node.size, lengths) + apart == at.at(node.into[0].name) ? read(x, p) : 0;
    });
    return sum;
  }
  if (node.op == Op::Contract || node.op == Op::WeightedSum) {
    double sum = 0;
    forEach(over, at, [&](const Position &p) { sum += read(x, p) * read(node.operands[1], p); });
    return sum;
  }
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
  if (node.op == Op::Attention || node.op == Op::AttentionShift || node.op == Op::AttentionShare) {
    double most = -inf, total = 0, sum = 0;
    auto forEachScore = [&](const std::function<void(double)> &use) {
      for (size_t n = 0; n < node.names.size(); ++n)
        forEach(named({node.operands[n ? n + 1 : 0]}, {node.names[n]}), at,
                [&](const Position &p) { use(read(node.operands[n ? n + 1 : 0], p)); });
    };
    forEachScore([&](double score) { most = std::max(most, score); });
    if (most == -inf)
      return 0;
    forEachScore([&](double score) { total += std::exp(score - most); });
    if (node.op != Op::Attention)
      return node.op == Op::AttentionShift ? most : 1 / total;
    forEach(named({x}, {node.names[0]}), at,
            [&](const Position &p) { sum += std::exp(read(x, p) - most) / total * read(node.operands[1], p); });
    return sum;
  }
  if (node.op == Op::Cumsum) {
    double sum = 0;
    bool reverse = node.integer;
    forEach(over, at, [&](const Position &p) {
      int64_t here = p.at(node.names[0]), end = at.at(node.names[0]);
      sum += (reverse ? here >= end : here <= end) ? read(x, p) : 0;
    });
    return sum;
  }
  if (node.op == Op::Quantize) { // the number that the code stands for
    const std::string &along = node.names[0];
    const int64_t here = at.at(along), each = support::blockOf(node.storage), first = here / each * each,
                  end = std::min(first + each, length(node.dims[node.find(along)]));
    std::vector<float> numbers;
    Position p = at;
    for (p[along] = first; p[along] < end; ++p[along])
      numbers.push_back(static_cast<float>(read(x, p)));
    return ir::codedNumbers(node.storage, numbers)[here - first];
  }
  if (node.op == Op::ScatterAdd) {
    double sum = 0, last = static_cast<double>(length(node.into[0]) - 1);
    forEach(over, at, [&](const Position &p) {
      sum += std::clamp(read(node.operands[1], p), 0.0, last) == at.at(node.into[0].name) ? read(x, p) : 0;
    });
    return sum;
  }
  std::vector<std::pair<double, int64_t>> order;
  forEach(over, at, [&](const Position &p) { order.emplace_back(-read(x, p), p.at(node.names[0])); });
  std::stable_sort(order.begin(), order.end(), [](auto &a, auto &b) { return a.first < b.first; });
  if (node.op == Op::Argmax)
    return order[0].second;
  auto [value, position] = order[at.at(node.into[0].name)];
  return node.op == Op::TopK ? -value : position;
}

double Evaluator::moved(const Node &node, const Position &at) const {
  int x = node.operands[0];
  const Node &from = graph.nodes[x];
  Position p = at;
  switch (node.op) {
  case Op::Rename:
    for (size_t i = 0; i < node.names.size(); ++i)
      p[node.names[i]] = at.at(node.into[i].name);
    return read(x, p);
  case Op::Split: {
    int64_t position = 0;
    for (const Dim &part : node.into)
      position = position * length(part) + at.at(part.name);
    p[node.names[0]] = position;
    return read(x, p);
  }
  case Op::Merge: {
    int64_t position = at.at(node.into[0].name);
    for (size_t i = node.names.size(); i-- > 0;) {
      int64_t size = length(from.dims[from.find(node.names[i])]);
      p[node.names[i]] = position % size;
      position /= size;
    }
    return read(x, p);
  }
  case Op::Cut:
    p[node.names[0]] = at.at(node.into[0].name) + lengthOf(node.size, lengths);
    return read(x, p);
  case Op::Squeeze:
    p[node.names[0]] = 0;
    return read(x, p);
  case Op::Gather: {
    int64_t last = length(from.dims[from.find(node.names[0])]) - 1;
    p[node.names[0]] = std::clamp<int64_t>(static_cast<int64_t>(read(node.operands[1], at)), 0, last);
    return read(x, p);
  }
  case Op::Concat: {
    int64_t position = at.at(node.into[0].name);
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const Node &part = graph.nodes[node.operands[i]];
      int64_t size = length(part.dims[part.find(node.names[i])]);
      p[node.names[i]] = position;
      if (position < size)
        return read(node.operands[i], p);
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
    return static_cast<float>(node.numbers[at.at(node.dims[0].name)]);
  case Op::Size:
    return static_cast<double>(lengthOf(node.size, lengths));
  case Op::Index:
    return static_cast<double>(at.at(node.dims[0].name));
  default:
    break;
  }
  if (graph.isElementwise(i)) {
    std::vector<double> v;
    for (int operand : node.operands)
      v.push_back(read(operand, at));
    return elementwise(node, v);
  }
  return node.op <= Op::TopKPositions ? combined(node, at) : moved(node, at);
}

/// One result of a scan: all of its positions again, as tests are small.
DenseTensor Evaluator::scanned(const Node &node) const {
  const ScanBody &scan = *node.scan;
  KernelGraph body;
  body.nodes = scan.nodes;
  Evaluator inside(body, lengths);
  std::vector<DenseTensor> arguments;
  auto copy = [&](int operand, const std::vector<Dim> &dims, const Position &at) {
    DenseTensor tensor;
    for (const Dim &dim : dims)
      tensor.shape.push_back(length(dim));
    forEach(dims, at, [&](const Position &p) { tensor.data.push_back(read(operand, p)); });
    return tensor;
  };
  for (size_t i = 0; i < node.operands.size(); ++i)
    arguments.push_back(static_cast<int>(i) < scan.carried || static_cast<int>(i) >= scan.carried + scan.slices
                            ? copy(node.operands[i], body.nodes[i].dims, {})
                            : DenseTensor{});
  DenseTensor result{shapeOf(node, lengths), {}};
  result.data.resize(1);
  for (int64_t size : result.shape)
    result.data.resize(result.data.size() * size);
  auto write = [&](const Position &here) {
    int yielded = scan.yields[node.integer];
    forEach(node.dims, {}, [&](const Position &at) {
      if (auto t = at.find(scan.dim.name); t != at.end() && t->second != here.at(scan.dim.name))
        return;
      int64_t offset = 0;
      for (size_t i = 0; i < node.dims.size(); ++i)
        offset = offset * result.shape[i] + at.at(node.dims[i].name);
      result.data[offset] = inside.read(yielded, at);
    });
  };
  int64_t count = length(scan.dim);
  for (int64_t n = 0; n < count; ++n) {
    Position here{{scan.dim.name, scan.fromEnd ? count - 1 - n : n}};
    for (int i = scan.carried; i < scan.carried + scan.slices; ++i)
      arguments[i] = copy(node.operands[i], body.nodes[i].dims, here);
    inside.run(arguments);
    if (node.integer >= scan.carried || n == count - 1)
      write(here);
    for (int i = 0; i < scan.carried; ++i) { // in the order of the argument's dimensions
      DenseTensor next{arguments[i].shape, {}};
      forEach(body.nodes[i].dims, {},
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
      out[i] = scanned(graph.nodes[i]);
      continue;
    }
    DenseTensor tensor{shapeOf(graph.nodes[i], lengths), {}};
    forEach(graph.nodes[i].dims, {},
            [&](const Position &at) { tensor.data.push_back(element(static_cast<int>(i), at)); });
    out[i] = std::move(tensor);
  }
  return out;
}

std::vector<DenseTensor> evaluate(const KernelGraph &graph, const Lengths &lengths,
                                  std::vector<DenseTensor> arguments) {
  return Evaluator(graph, lengths).run(std::move(arguments));
}

} // namespace quern::codegen
