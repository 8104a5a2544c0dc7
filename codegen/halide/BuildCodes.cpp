// Takes: rows that are quantised inside of a kernel (`quern.quantize` of activations). Gives: their codes, scales and sums.
// Why stored apart: products of integers read codes alone and scale what they summed; all else reads the numbers that
// codes and scales stand for.
#include "codegen/halide/KernelBuilder.h"
#include "codegen/halide/Math.h"
#include "support/CodedGroups.h"

using namespace Halide;

namespace quern::codegen {

/// The nearest number that f16 has, halves to even, of 0 and what is between f16's smallest and largest. By its bits: not
/// every target has an instruction for it.
static Expr asHalf(const Expr &x) {
  Expr bits = reinterpret<uint32_t>(x), odd = (bits >> cast<uint32_t>(13)) & cast<uint32_t>(1);
  Expr normal = reinterpret<float>((bits + cast<uint32_t>(0xfff) + odd) & Internal::make_const(UInt(32), 0xffffe000));
  // Below 2^-14 f16's numbers are as far apart as those of f32 from 0.5 on.
  Expr small = math::sub(math::add(x, 0.5f), 0.5f);
  return math::choose(x < 0x1p-14f, small, normal);
}

/// To the nearest integer, halves away from zero: a half with the number's sign more, without what is behind the point.
static Expr roundAway(const Expr &x) {
  return cast<int32_t>(math::add(x, math::withSign(0.5f, x)));
}

/// As the op says; int8 and int8_g128 alone. What is beyond a row's end in its last group repeats the last number, and is 0 as a code:
/// columns may stand for other numbers than 0 there.
void KernelBuilder::defineQuantize(int i) {
  const Node &node = graph.nodes[i];
  const int x = node.operands[0], place = node.find(node.names[0]), group = support::groupOf(node.storage);
  const std::string depth = node.names[0], groupName = depth + "_group";
  const int64_t length = *node.dims[place].fixed(), groups = (length + group - 1) / group;
  CodedRows rows;
  rows.dims = rows.groups = node.dims;
  rows.group = group;
  const bool paired = node.integer;
  rows.ofPair = paired ? 128 : 2 * 127;
  rows.dims[place] = {depth, ir::Size(groups * group)};
  rows.groups[place] = {groupName, ir::Size(groups)};
  auto inGroup = [=](Index index) {
    index[depth] = index.at(groupName) * group + index.at(depth);
    return index;
  };
  auto number = [this, x, depth, last = static_cast<int>(length - 1), whole = length % group == 0](Index index) {
    if (!whole)
      index[depth] = min(index.at(depth), last);
    return real(x, index);
  };
  const int each = paired ? 2 : 1; // numbers whose magnitudes count together
  const std::vector<Dim> within = {{depth, ir::Size(group / each)}};
  auto magnitude = [&](const Index &index) {
    Expr sum;
    for (int neighbour = 0; neighbour < each; ++neighbour) {
      Index its = index;
      its[depth] = index.at(depth) * each + neighbour;
      its = inGroup(its);
      Expr alone = abs(number(its));
      if (paired && length % group) // the last may have no neighbour
        alone = select(its.at(depth) < static_cast<int>(length), alone, 0.0f);
      sum = sum.defined() ? math::add(sum, alone) : alone;
    }
    return sum;
  };
  Func largest = reduceOver("largest", i, rows.groups, within, Kind::Real, Reduction::Max, magnitude);
  Index vars = varsOf(rows.groups);
  Expr exact = math::div(largest(call(rows.groups, vars)), 127.0f);
  rows.scale = newFunc("scale", i);
  rows.scale(pureArgs(rows.groups)) = asHalf(exact);
  addStage({rows.scale, rows.groups, {}, false, {}, false});
  Func inverse = newFunc("inverse", i);
  inverse(pureArgs(rows.groups)) = math::choose(exact == 0.0f, 0.0f, math::div(1.0f, exact));
  addStage({inverse, rows.groups, {}, false, {}, false});

  auto ofGroup = [=](Index index) {
    index[groupName] = index.at(depth) / group;
    return index;
  };
  Index at = varsOf(rows.dims);
  rows.codes = newFunc("codes", i);
  Expr code = cast<int8_t>(roundAway(math::mul(number(at), inverse(call(rows.groups, ofGroup(at))))));
  rows.codes(pureArgs(rows.dims)) =
      length % group ? select(at.at(depth) < static_cast<int>(length), code, cast<int8_t>(0)) : code;
  addStage({rows.codes, rows.dims, {}, false, {}, false});
  isStage[i] = 1;
  values[i] = [=](const Index &index) {
    return cast<float>(rows.codes(call(rows.dims, index))) * rows.scale(call(rows.groups, ofGroup(index)));
  };
  coded.emplace(i, std::move(rows));
}

/// The codes that a node's numbers are dequantised from in this kernel; null if they are not.
const CodedRows *KernelBuilder::codedRows(int node) const {
  const Node &n = graph.nodes[node];
  auto found = n.op == Op::Dequantize ? coded.find(n.operands[0]) : coded.end();
  return found == coded.end() ? nullptr : &found->second;
}

/// The same in 16 bits.
Func KernelBuilder::wideCodes(int node) {
  const int quantize = graph.nodes[node].operands[0];
  CodedRows &rows = coded.at(quantize);
  if (!rows.wide.defined()) {
    rows.wide = newFunc("wide_codes", quantize);
    rows.wide(pureArgs(rows.dims)) = cast<int16_t>(rows.codes(call(rows.dims, varsOf(rows.dims))));
    addStage({rows.wide, rows.dims, {}, false, {}, false, quantize});
  }
  return rows.wide;
}

/// Over `rows.groups`, of which each has as many places as runs of `length` codes.
static std::vector<Dim> runsOf(const CodedRows &rows, int length) {
  std::vector<Dim> dims = rows.groups;
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i].name != rows.dims[i].name)
      dims[i].size = ir::Size(*rows.dims[i].fixed() / length);
  return dims;
}

static const Dim &depthOf(const CodedRows &rows) {
  size_t i = 0;
  while (rows.groups[i].name == rows.dims[i].name)
    ++i;
  return rows.dims[i];
}

Func KernelBuilder::sumsOfCodes(int node, int length) {
  const int quantize = graph.nodes[node].operands[0], before = current;
  CodedRows &rows = coded.at(quantize);
  Func &sums = rows.sums[length];
  if (!sums.defined()) {
    const std::string depth = depthOf(rows).name;
    current = quantize;
    sums = reduceOver("sum", quantize, runsOf(rows, length), {{depth, ir::Size(length)}}, Kind::Int, Reduction::Sum,
                      [&](Index index) {
                        index[depth] = index.at(depth + "_group") * length + index.at(depth);
                        return cast<int32_t>(rows.codes(call(rows.dims, index)));
                      });
    current = before;
  }
  return sums;
}

/// Of something that is made of sums of codes, at a place among the runs of `length`.
Func KernelBuilder::ofSums(const char *name, int node, int length,
                           const std::function<Expr(const Expr &, const Index &)> &value) {
  const int quantize = graph.nodes[node].operands[0];
  Func sums = sumsOfCodes(node, length), out = newFunc(name, quantize);
  std::vector<Dim> dims = runsOf(coded.at(quantize), length);
  Index at = varsOf(dims);
  out(pureArgs(dims)) = value(sums(call(dims, at)), at);
  addStage({out, dims, {}, false, {}, false, quantize});
  return out;
}

Func KernelBuilder::sharesOfRows(int node, int length) {
  CodedRows &rows = coded.at(graph.nodes[node].operands[0]);
  Func &shares = rows.shares[length];
  if (!shares.defined())
    shares = ofSums("share", node, length, [&](const Expr &sum, Index at) {
      const std::string group = depthOf(rows).name + "_group";
      at[group] = at.at(group) / (rows.group / length);
      return cast<float>(sum) * rows.scale(call(rows.groups, at));
    });
  return shares;
}

/// In f32, so that what multiplies them converts nothing.
Func KernelBuilder::countsOfRows(int node, int length) {
  Func &counts = coded.at(graph.nodes[node].operands[0]).counts[length];
  if (!counts.defined())
    counts = ofSums("count", node, length, [](const Expr &sum, const Index &) { return cast<float>(sum); });
  return counts;
}

/// Kept as products: made where a tile reads them they would take four instructions for each row and run.
Func KernelBuilder::startsOfSums(int node, int length, int added) {
  Func &starts = coded.at(graph.nodes[node].operands[0]).starts[{length, added}];
  if (!starts.defined())
    starts = ofSums("start", node, length, [&](const Expr &sum, const Index &) { return -added * sum; });
  return starts;
}

/// Whether a contraction reads codes alone, of rows and of columns.
bool KernelBuilder::multipliesIntegers(const ContractionPattern &p) const {
  return (hasCodesAlone(graph, p) || hasRoutedCodes(graph, p)) && byteProducts(target) != ByteProducts::None;
}

/// Whether a contraction reads bf16 alone, of rows and of columns, and the target multiplies these in pairs.
bool KernelBuilder::multipliesPairs(const ContractionPattern &p) const {
  return hasPairsAlone(graph, p) && multipliesBF16(target);
}

} // namespace quern::codegen
