// Takes: nodes that are worth a Func of their own. Gives: stages, and index functions that read them.
// Why by cost: a value that is inlined is computed again for every element of what uses it; a cosine per position must
// not become one per position and head.
#include "codegen/halide/KernelBuilder.h"

#include <algorithm>

using namespace Halide;

namespace quern::codegen {

// Rough times of one vector operation. Above `expensive` a value is stored rather than computed repeatedly; above `huge` in
// any case, so that expressions stay small enough to compile.
static constexpr int expensive = 16, huge = 1500;

static int ownCost(Op op) {
  switch (op) {
  case Op::Exp:
  case Op::Expm1:
  case Op::Log:
  case Op::Log1p:
  case Op::Tanh:
  case Op::Sigmoid:
  case Op::Erf:
    return 20;
  case Op::Sin:
  case Op::Cos:
    return 40;
  case Op::Pow:
    return 100;
  case Op::Narrow:
  case Op::Div:
  case Op::Sqrt:
  case Op::FloorDiv:
  case Op::Mod:
    return 6;
  case Op::Gather:
  case Op::Merge:
    return 4;
  default:
    return 1;
  }
}

static bool combines(Op op) {
  return op == Op::Reduce || op == Op::Contract || op == Op::Softmax || op == Op::Attention ||
         op == Op::AttentionShift || op == Op::AttentionShare || op == Op::WeightedSum || op == Op::DistanceSum ||
         op == Op::Cumsum || op == Op::Quantize || op == Op::ScatterAdd || op == Op::Argmax || op == Op::TopK ||
         op == Op::TopKPositions || op == Op::Concat;
}

void KernelBuilder::computeCosts() {
  cost.resize(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node &node = graph.nodes[i];
    int64_t total = node.op <= Op::Index || combines(node.op) ? 1 : ownCost(node.op);
    if (!combines(node.op))
      for (int operand : node.operands)
        total += cost[operand];
    cost[i] = static_cast<int>(std::min<int64_t>(total, 1 << 20));
    if (wantsStage(static_cast<int>(i)))
      cost[i] = 1;
  }
}

/// A use computes an element again for every position along dimensions that the value lacks.
static bool repeatedBy(const KernelGraph &graph, int value, int user) {
  const Node &node = graph.nodes[value], &use = graph.nodes[user];
  if (use.op == Op::Gather && use.operands[0] == value)
    return false;
  auto lacks = [&](const std::vector<Dim> &dims) {
    return std::any_of(dims.begin(), dims.end(),
                       [&](const Dim &dim) { return !node.has(dim.name) && dim.fixed() != 1; });
  };
  bool renames = use.op >= Op::Rename && use.op <= Op::Squeeze && use.op != Op::Concat;
  if (renames)
    return false;
  if (lacks(use.dims))
    return true;
  for (int operand : use.operands)
    if (operand != value && lacks(graph.nodes[operand].dims))
      return true;
  return false;
}

bool KernelBuilder::wantsStage(int i) const {
  const Node &node = graph.nodes[i];
  if (node.op <= Op::Index || combines(node.op) || node.dims.empty() || users[i].empty() || inlineOnly[i] ||
      bitsOfCode(node.storage)) // what is gathered of codes
    return false;
  if (cost[i] > huge)
    return true;
  bool repeated = std::any_of(users[i].begin(), users[i].end(), [&](int user) { return repeatedBy(graph, i, user); });
  // Contractions, attention and softmax read an operand many times.
  bool reread = std::any_of(users[i].begin(), users[i].end(), [&](int user) {
    return graph.nodes[user].op == Op::Contract || graph.nodes[user].op == Op::Softmax ||
           graph.nodes[user].op == Op::Attention || graph.nodes[user].op == Op::WeightedSum ||
           graph.nodes[user].op == Op::TopK;
  });
  bool combined = users[i].size() > 1 && std::any_of(users[i].begin(), users[i].end(),
                                                     [&](int user) { return combines(graph.nodes[user].op); });
  return cost[i] >= expensive && (repeated || reread || combined);
}

Func KernelBuilder::newFunc(const std::string &what, int node) {
  return Func(what + "_" + std::to_string(node));
}

int KernelBuilder::addStage(Stage stage) {
  if (stage.node < 0)
    stage.node = current;
  stages.push_back(std::move(stage));
  return static_cast<int>(stages.size()) - 1;
}

void KernelBuilder::readFrom(int node, Func func, std::vector<Dim> dims) {
  isStage[node] = 1;
  values[node] = [this, node, func, dims = std::move(dims)](const Index &index) {
    Expr value = func(call(dims, index));
    return loaded(value, value.type() == UInt(8) ? Storage::U8 : graph.nodes[node].storage);
  };
}

void KernelBuilder::materialize(int i) {
  const Node &node = graph.nodes[i];
  Func func = newFunc("value", i);
  func(pureArgs(node.dims)) = stored(at(i, varsOf(node.dims)), node.storage);
  memo[i].clear();
  addStage({func, node.dims, {}, false, {}, false, i});
  readFrom(i, func);
}

/// One update per part, so that no element asks which part it is in.
void KernelBuilder::writeConcat(const Node &node, Stage &stage) {
  const Dim &into = node.into[0];
  stage.func(pureArgs(node.dims)) = undef(storedType(node.storage));
  Expr offset = 0;
  bool innermost = !node.dims.empty() && node.dims.back().name == into.name;
  for (size_t p = 0; p < node.operands.size(); ++p) {
    const Node &part = graph.nodes[node.operands[p]];
    Expr size = extent(part.dims[part.find(node.names[p])].size);
    RDom r(0, size);
    Index left = varsOf(node.dims), right = left;
    left[into.name] = r.x + offset;
    right[node.names[p]] = r.x;
    Expr value = node.storage == Storage::F32 ? real(node.operands[p], right) : at(node.operands[p], right);
    stage.func(call(node.dims, left)) = stored(value, node.storage);
    stage.over.push_back({r.x});
    offset = offset + size;
  }
  stage.vectorOver = innermost;
}

/// Whether a concatenation's parts go straight to where its result is. Halves of a short row that are computed do not: they read
/// the same operands (a rotation), which would come from memory once a part.
bool KernelBuilder::writtenByParts(int i) const {
  const Node &node = graph.nodes[i];
  if (node.op != Op::Concat || !users[i].empty() || std::count(graph.results.begin(), graph.results.end(), i) != 1)
    return false;
  constexpr int64_t largestRow = 512; // numbers that the first cache holds beside what they are made of
  const Dim &into = node.into[0];
  const bool shortRows = into.name == node.dims.back().name && into.fixed().value_or(largestRow + 1) <= largestRow;
  const bool computed =
      std::any_of(node.operands.begin(), node.operands.end(), [&](int part) { return graph.isElementwise(part); });
  return onDevice() || node.dims.size() < 2 || !shortRows || !computed;
}

void KernelBuilder::defineConcat(int i) {
  const Node &node = graph.nodes[i];
  if (writtenByParts(i))
    return;
  Func func = newFunc("concat", i);
  Stage stage{func, node.dims, {}, false, {}, false, i};
  writeConcat(node, stage);
  addStage(std::move(stage));
  readFrom(i, func);
}

} // namespace quern::codegen
