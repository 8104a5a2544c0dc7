// Takes: an attention's scores, values and sinks, or the weights of its gradient. Gives: its value, one of its statistics
// or a sum of its gradient, through stages.
//
//   top = the largest of a row's scores and sinks, 0 where all are -inf
//   weights = e^(score - top), total = their sum and the sinks' e^(sink - top)
//   result = sum over keys of weights times values, divided by total
//
//   gradient: sum over keys (or queries) of weights times values;   along distances: sum over keys of the weights at
//   the one query at that distance from a key
//
// Why scores and weights are stored: a work-item for each of them, and then for each column of the result, reads them; to
// keep them in a group's own memory is the work of a family.
#include "codegen/halide/gpu/GeneralAttention.h"

#include "codegen/halide/Math.h"

using namespace Halide;

namespace quern::codegen {

GeneralAttention::GeneralAttention(KernelBuilder &builder, int node)
    : b(builder), i(node), node(builder.graph.nodes[node]), score(this->node.operands[0]) {}

/// The sinks of a row beside what its keys gave: a few learned scores of which each has a dimension of its own.
Expr GeneralAttention::withSinks(const Expr &first, const Index &at,
                                 const std::function<Expr(const Expr &, const Expr &)> &add) const {
  Expr all = first;
  for (size_t n = 1; n < node.names.size(); ++n) {
    int sink = node.operands[n + 1];
    const Dim &own = b.graph.nodes[sink].dims[b.graph.nodes[sink].find(node.names[n])];
    Index index = at;
    for (int64_t u = 0; u < *own.fixed(); ++u) {
      index[own.name] = static_cast<int32_t>(u);
      all = add(all, b.real(sink, index));
    }
  }
  return all;
}

void GeneralAttention::storeScores() {
  if (!b.isStage[score] && b.graph.nodes[score].op != Op::Argument)
    b.materialize(score);
}

void GeneralAttention::defineWeightedSum() {
  storeScores();
  const std::vector<Dim> &weighted = b.graph.nodes[score].dims;
  const Dim &key = weighted[b.graph.nodes[score].find(node.names[0])];
  b.readFrom(i, b.reduceOver("weighted", i, node.dims, {key}, Kind::Real, Reduction::Sum, [&](const Index &index) {
    return b.real(score, index) * b.real(node.operands[1], index);
  }));
}

/// What is stored at plus, minus goes to offset + plus - minus: a work-item goes along the keys, each of which has one query.
void GeneralAttention::defineDistanceSum() {
  storeScores();
  const Node &weights = b.graph.nodes[score];
  const std::string &plus = node.names[0], &minus = node.names[1];
  const Dim &key = weights.dims[weights.find(node.names[2])],
            &query = weights.dims[weights.find(key.name == plus ? minus : plus)];
  Func sums = b.reduceOver("diagonals", i, node.dims, {key}, Kind::Real, Reduction::Sum, [&](Index index) {
    Expr apart = index.at(node.into[0].name) - b.extent(node.size), last = b.extent(query.size) - 1;
    Expr at = key.name == plus ? index.at(key.name) - apart : index.at(key.name) + apart;
    index[query.name] = clamp(at, 0, last);
    return math::choose(at >= 0 && at <= last, b.real(score, index), 0.0f);
  });
  b.readFrom(i, sums);
}

void GeneralAttention::define() {
  if (node.op == Op::WeightedSum)
    return defineWeightedSum();
  if (node.op == Op::DistanceSum)
    return defineDistanceSum();
  const std::vector<Dim> &scoreDims = b.graph.nodes[score].dims;
  const Dim &key = scoreDims[b.graph.nodes[score].find(node.names[0])];
  std::vector<Dim> kept;
  for (const Dim &dim : scoreDims)
    if (dim.name != key.name)
      kept.push_back(dim);
  storeScores();

  Func most = b.reduceOver("most", i, kept, {key}, Kind::Real, Reduction::Max,
                           [&](const Index &index) { return b.real(score, index); });
  auto shift = [self = *this, most, kept](const Index &at) { // outlives this
    Expr top = self.withSinks(most(KernelBuilder::call(kept, at)), at,
                              [](const Expr &a, const Expr &s) { return math::max(a, s); });
    top = self.node.integer ? math::roundUpToLn2(top) : top;
    return math::choose(math::isNegativeInfinity(top), 0.0f, top);
  };
  b.isStage[i] = 1;
  if (node.op == Op::AttentionShift) {
    b.values[i] = shift;
    return;
  }
  Func weights = b.newFunc("weights", i);
  Index vars = KernelBuilder::varsOf(scoreDims);
  Expr weight = math::exp(math::sub(b.real(score, vars), shift(vars)));
  weights(KernelBuilder::pureArgs(scoreDims)) = node.integer ? math::inBF16(weight, b.target) : weight;
  b.addStage({weights, scoreDims, {}, false, {}, false});
  Func ofKeys = b.reduceOver("total", i, kept, {key}, Kind::Real, Reduction::Sum,
                             [&](const Index &index) { return Expr(weights(KernelBuilder::call(scoreDims, index))); });
  // One number for each row, read by all of its columns.
  Func total = b.newFunc("all", i);
  Index row = KernelBuilder::varsOf(kept);
  Expr top = shift(row);
  total(KernelBuilder::pureArgs(kept)) =
      withSinks(ofKeys(KernelBuilder::call(kept, row)), row,
                [&](const Expr &a, const Expr &s) { return math::add(a, math::exp(math::sub(s, top))); });
  b.addStage({total, kept, {}, false, {}, false});
  if (node.op == Op::AttentionShare) {
    b.values[i] = [total, kept](const Index &at) {
      Expr all = total(KernelBuilder::call(kept, at));
      return math::choose(math::equal(all, 0.0f), 0.0f, math::div(1.0f, all));
    };
    return;
  }
  int values = node.operands[1];
  Func sums = b.reduceOver("attended", i, node.dims, {key}, Kind::Real, Reduction::Sum, [&](const Index &index) {
    return weights(KernelBuilder::call(scoreDims, index)) * b.real(values, index);
  });
  b.values[i] = [sums, total, kept, dims = node.dims](const Index &at) {
    Expr all = total(KernelBuilder::call(kept, at)), sum = sums(KernelBuilder::call(dims, at));
    return math::choose(math::equal(all, 0.0f), 0.0f, math::div(sum, all));
  };
}

void takeGeneralAttention(KernelBuilder &b) {
  for (int i = 0; i < static_cast<int>(b.graph.nodes.size()); ++i)
    switch (b.graph.nodes[i].op) {
    case Op::Attention:
    case Op::AttentionShift:
    case Op::AttentionShare:
    case Op::WeightedSum:
    case Op::DistanceSum:
      b.take(i, [&b, i] { GeneralAttention(b, i).define(); });
      break;
    default:
      break;
    }
}

} // namespace quern::codegen
