// Takes: a kernel's graph, its plan, a target. Gives: a Halide pipeline with one output per result.
// Why in one walk: every node becomes an index function or a stage as soon as its operands are; families
// take over the nodes that were matched before (attention, contractions). Which families there are, only producers know.
#include "codegen/halide/KernelBuilder.h"

#include "codegen/halide/Codes.h"
#include "codegen/halide/lowered/AskFirst.h"
#include "codegen/halide/lowered/OwnPlaces.h"
#include "codegen/halide/lowered/StoreTogether.h"
#include "codegen/halide/lowered/SumsByHalves.h"
#include "codegen/halide/lowered/UnrollLast.h"
#include "codegen/halide/lowered/WholeWords.h"
#include "codegen/halide/words/PairProducts.h"

#include <algorithm>
#include <stdexcept>

using namespace Halide;

namespace quern::codegen {

KernelBuilder::KernelBuilder(const KernelGraph &graph, const KernelPlan &plan, const CpuTarget &target,
                             const KernelFamilies &families)
    : graph(graph), plan(plan), target(target), match(matchKernel(graph, target)), users(graph.users()),
      families(families) {
  taken.resize(graph.nodes.size());
  values.resize(graph.nodes.size());
  memo.resize(graph.nodes.size());
  isStage.resize(graph.nodes.size());
  inlineOnly.resize(graph.nodes.size());
  computeCosts();
}

void KernelBuilder::take(int node, std::function<void()> define, const std::vector<int> &inside) {
  taken[node] = std::move(define);
  for (int own : inside)
    inlineOnly[own] = 1;
}

const PlanPart &KernelBuilder::part(int node) const {
  for (size_t i = 0; i < match.anchors.size(); ++i)
    if (match.anchors[i].node == node)
      return plan.parts[i];
  throw std::logic_error("a node that stands for no part of a plan");
}

const PlanPart &KernelBuilder::part(const std::string &family) const {
  for (const PlanPart &part : plan.parts)
    if (part.family == family)
      return part;
  throw std::logic_error("a plan without a part '" + family + "'");
}

Expr KernelBuilder::extent(const ir::Size &size, bool wide) const {
  const Type type = Int(wide ? 64 : 32);
  Expr sum;
  for (const auto &[monomial, coefficient] : size.getTerms()) {
    Expr product;
    for (const std::string &symbol : monomial) {
      Expr factor = cast(type, symbols.at(symbol));
      product = product.defined() ? product * factor : factor;
    }
    Expr number = Internal::make_const(type, coefficient);
    Expr term = !product.defined() ? number : coefficient == 1 ? product : product * number;
    sum = sum.defined() ? sum + term : term;
  }
  return sum.defined() ? sum : Internal::make_zero(type);
}

Var KernelBuilder::var(const std::string &dim) {
  std::string name = dim;
  std::replace(name.begin(), name.end(), '.', '_'); // Halide uses dots for its own names
  return Var(name);
}

Index KernelBuilder::varsOf(const std::vector<Dim> &dims) {
  Index index;
  for (const Dim &dim : dims)
    index[dim.name] = var(dim.name);
  return index;
}

std::vector<Var> KernelBuilder::pureArgs(const std::vector<Dim> &dims) {
  std::vector<Var> args;
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim)
    args.push_back(var(dim->name));
  return args;
}

std::vector<Expr> KernelBuilder::call(const std::vector<Dim> &dims, const Index &index) {
  std::vector<Expr> args;
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim)
    args.push_back(index.at(dim->name));
  return args;
}

/// Equal questions give the identical expression, so that what is used twice stays one node of the graph of
/// expressions.
Expr KernelBuilder::at(int node, const Index &index) {
  std::vector<Expr> key;
  for (const Dim &dim : graph.nodes[node].dims)
    key.push_back(index.at(dim.name));
  for (const auto &[known, value] : memo[node])
    if (std::equal(key.begin(), key.end(), known.begin(), known.end(),
                   [](const Expr &a, const Expr &b) { return a.same_as(b) || Internal::graph_equal(a, b); }))
      return value;
  Index own;
  for (size_t i = 0; i < key.size(); ++i)
    own[graph.nodes[node].dims[i].name] = key[i];
  Expr value = values[node](own);
  memo[node].emplace_back(std::move(key), value);
  return value;
}

Expr KernelBuilder::real(int node, const Index &index) {
  if (!isComputed(graph.nodes[node].storage))
    throw std::logic_error("numbers of few bytes or codes are computed with");
  Expr value = at(node, index);
  return value.type().is_float() ? value : cast<float>(value);
}

void KernelBuilder::declareArguments() {
  for (const std::string &symbol : graph.symbols)
    symbols.emplace(symbol, Param<int32_t>(lengthPrefix + symbol));
  for (int i = 0; i < graph.argumentCount(); ++i) {
    const Node &node = graph.nodes[i];
    const Layout &layout = graph.argumentLayouts[i];
    int rank = static_cast<int>(node.dims.size());
    ImageParam buffer(storedType(node.storage, layout), layout.packed ? rank + 1 : rank, "a" + std::to_string(i));
    std::vector<Expr> extents;
    std::vector<std::optional<int64_t>> strides;
    if (layout.packed) {
      std::vector<int64_t> shape;
      for (const Dim &dim : node.dims)
        shape.push_back(*dim.fixed());
      int64_t stride = 1;
      for (int64_t length : packedExtents(node.storage, layout, shape)) {
        extents.push_back(static_cast<int32_t>(length));
        strides.push_back(stride);
        stride *= length;
      }
    } else {
      for (int d = rank - 1; d >= 0; --d) {
        extents.push_back(extent(node.dims[d].size));
        strides.push_back(layout.strides[d]);
      }
    }
    for (size_t d = 0; d < extents.size(); ++d) {
      buffer.dim(d).set_min(0).set_extent(extents[d]);
      if (strides[d])
        buffer.dim(d).set_stride(static_cast<int32_t>(*strides[d]));
      else
        buffer.dim(d).set_stride(Expr()); // the buffer says
    }
    arguments.push_back(buffer);
    values[i] = [this, i](const Index &index) { return readArgument(i, index); };
  }
}

Expr KernelBuilder::packedNumber(int argument, std::vector<Expr> args) const {
  const int each = static_cast<int>(graph.argumentLayouts[argument].beside);
  if (each == 1)
    return loaded(arguments[argument](args), graph.nodes[argument].storage);
  Expr depth = args[1];
  args[1] = depth / each;
  return cast<uint16_t>(arguments[argument](args) >> cast<uint32_t>(depth % each * 16));
}

Expr KernelBuilder::readArgument(int i, const Index &index) {
  const Node &node = graph.nodes[i];
  const Layout &layout = graph.argumentLayouts[i];
  std::vector<Expr> args = call(node.dims, index);
  if (layout.packed) {
    Expr inner = args[0], row = args[1];
    int tile = static_cast<int>(layout.tile);
    args.erase(args.begin(), args.begin() + 2);
    args.insert(args.begin(), {row % tile, inner, row / tile});
    if (bitsOfCode(node.storage)) {
      CodePlace place = codePlace(node.storage, inner);
      // A sum masks lanes beyond the depth, but not a scale that all lanes of a vector share.
      if (const int group = groupOf(node.storage), depth = static_cast<int>(*node.dims.back().fixed()); depth % group)
        place.group = min(place.group, depth / group);
      return numberAt({arguments[i], node.storage, args, target}, place);
    }
    return packedNumber(i, args);
  }
  return loaded(arguments[i](args), node.storage);
}

void KernelBuilder::define(int i) {
  const Node &node = graph.nodes[i];
  if (auto parts = scatteredInto.find(i); parts != scatteredInto.end()) {
    values[i] = [this, first = parts->second.first](const Index &index) {
      return first < 0 ? Expr(0.0f) : real(first, index);
    };
    return;
  }
  switch (node.op) {
  case Op::Argument:
    return;
  case Op::Const:
  case Op::Values:
  case Op::Size:
  case Op::Index:
    values[i] = [this, i](const Index &index) { return constants(i, index); };
    return;
  case Op::Reduce:
    return defineReduce(i);
  case Op::Softmax:
    return defineSoftmax(i);
  case Op::Argmax:
    return defineArgmax(i);
  case Op::TopK:
  case Op::TopKPositions:
    return defineTopK(i);
  case Op::Cumsum:
    return defineCumsum(i);
  case Op::Quantize:
    return defineQuantize(i);
  case Op::ScatterAdd:
    return defineScatterAdd(i);
  case Op::Concat:
    return defineConcat(i);
  case Op::Contract:
  case Op::Attention:
  case Op::AttentionShift:
  case Op::WeightedSum:
  case Op::DistanceSum:
  case Op::AttentionShare:
  case Op::Scan:
    throw std::logic_error("no family takes node " + std::to_string(i));
  default:
    break;
  }
  if (graph.isElementwise(i))
    values[i] = [this, i](const Index &index) { return elementwise(graph.nodes[i], index); };
  else
    values[i] = [this, i](const Index &index) { return shape(graph.nodes[i], index); };
  if (wantsStage(i))
    materialize(i);
}

void KernelBuilder::output(size_t result) {
  int i = graph.results[result];
  const Node &node = graph.nodes[i];
  Stage stage{Func("out" + std::to_string(result)), node.dims, {}, false, {}, false, i};
  auto scattered = scatteredInto.find(i);
  if (auto family = written.find(static_cast<int>(result)); family != written.end())
    family->second(stage);
  else if (writtenByParts(i))
    writeConcat(node, stage);
  else if (scattered != scatteredInto.end() && graph.inPlace == scattered->second.first)
    stage.func(pureArgs(node.dims)) = undef<float>(); // it is there
  else
    stage.func(pureArgs(node.dims)) = stored(at(i, varsOf(node.dims)), node.storage);
  if (scattered != scatteredInto.end()) {
    stage.over.push_back(scatterInto(stage.func, scattered->second.second));
    stage.scattered = true;
  }
  describe(stage.func.output_buffer(), result);
  outputs.push_back(std::move(stage));
}

/// Where a result is. `besides`: another value of a Func whose first says how large it is.
void KernelBuilder::describe(OutputImageParam buffer, size_t result, bool besides) const {
  const Node &node = graph.nodes[graph.results[result]];
  int rank = static_cast<int>(node.dims.size());
  for (int d = 0; d < rank; ++d) {
    const Dim &dim = node.dims[rank - 1 - d];
    std::optional<int64_t> stride = graph.resultLayouts[result].strides[rank - 1 - d];
    if (!besides)
      buffer.dim(d).set_min(0).set_extent(extent(dim.size));
    buffer.dim(d).set_stride(stride ? Expr(static_cast<int32_t>(*stride)) : Expr());
  }
}

/// Whether the kernel is one loop that gives several results: all of equal shape, element by element.
bool KernelBuilder::storesTogether() const {
  const std::vector<Dim> &dims = graph.nodes[graph.results[0]].dims;
  return graph.results.size() > 1 && stages.empty() && !dims.empty() &&
         std::all_of(graph.results.begin(), graph.results.end(), [&](int i) {
           const std::vector<Dim> &own = graph.nodes[i].dims;
           return graph.isElementwise(i) && std::equal(own.begin(), own.end(), dims.begin(), dims.end(),
                                                       [](const Dim &a, const Dim &b) { return a.name == b.name; });
         });
}

void KernelBuilder::outputTogether() {
  const std::vector<Dim> &dims = graph.nodes[graph.results[0]].dims;
  std::vector<Expr> values;
  for (int i : graph.results)
    values.push_back(stored(at(i, varsOf(dims)), graph.nodes[i].storage));
  Func all("out");
  all(pureArgs(dims)) = Tuple(values);
  std::vector<OutputImageParam> buffers = all.output_buffers();
  for (size_t result = 0; result < graph.results.size(); ++result)
    describe(buffers[result], result, result > 0);
  outputs.push_back({all, dims, {}, false, {}, false});
}

/// What a node is a view of.
int KernelBuilder::sourceOf(int node) const {
  while (node >= graph.argumentCount() && !graph.nodes[node].operands.empty())
    node = graph.nodes[node].operands[0];
  return node;
}

void KernelBuilder::fetchAhead(const Func &func, int node, int bytes) {
  if (int from = sourceOf(node); bytes && from < graph.argumentCount())
    fetchedAhead.push_back({func.name() + ".s1.", arguments[from].name(), bytes, cacheAhead(target)});
}

void KernelBuilder::fetchAhead(const Func &func, const Func &copy, int bytes) {
  if (bytes)
    fetchedAhead.push_back({func.name() + ".s1.", copy.name(), bytes, cacheAhead(target)});
}

void KernelBuilder::fetchRowsAhead(const Func &func, const Var &row, int node, int each) {
  constexpr int64_t underWay = 2048; // bytes that a core copies while a line comes from the third cache
  const int from = sourceOf(node);
  const std::vector<Dim> &dims = graph.nodes[from].dims;
  if (from >= graph.argumentCount() || dims.empty() || !dims.back().fixed())
    return;
  const int64_t bytes =
      std::max<int64_t>(1, *dims.back().fixed() * support::formOf(graph.nodes[from].storage).bits / 8);
  const int rows = static_cast<int>(std::clamp<int64_t>(underWay / bytes, 2, 16));
  const std::string loops = func.name() + ".s0.";
  fetchedAhead.push_back(
      {loops, arguments[from].name(), 0, cacheAhead(target), loops + row.name(), std::max(1, rows / each)});
}

void KernelBuilder::fetchNext(FetchedNext strip, int node) {
  if (int from = sourceOf(node); from < graph.argumentCount()) {
    strip.buffer = arguments[from].name();
    fetchedNext.push_back(std::move(strip));
  }
}

void KernelBuilder::askBesideSums(const Func &sums, int node) {
  if (int from = sourceOf(node); asksBesideSums(target) && from < graph.argumentCount())
    besideSums.push_back({sums.name(), arguments[from].name(), target.machine.threads});
}

BuiltKernel KernelBuilder::build() {
  declareArguments();
  for (KernelFamily family : families.list)
    family(*this);
  findScatteredResults();
  std::vector<char> elsewhere = match.inside; // what a family or a result defines
  for (const auto &[result, parts] : scatteredInto)
    elsewhere[parts.second] = parts.second != result;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    current = static_cast<int>(i);
    if (taken[i])
      taken[i]();
    else if (!elsewhere[i])
      define(current);
  }
  const bool together = storesTogether();
  if (together)
    outputTogether();
  for (size_t result = 0; !together && result < graph.results.size(); ++result)
    output(result);
  families.schedule(*this);

  BuiltKernel built;
  built.halide = integers ? halideOfProducts(target) : target.halide;
  std::vector<Func> funcs;
  for (const Stage &stage : outputs)
    funcs.push_back(stage.func);
  built.pipeline = Pipeline(funcs);
  if (together)
    storeTogether(built.pipeline, outputs[0].func);
  if (routes || !tileSums.empty() || !turnedWords.empty()) // loops that are replaced then have no conditions
    askFirst(built.pipeline);
  useTiles(built.pipeline, tileSums);
  turnWords(built.pipeline, turnedWords);
  codegen::unrollLast(built.pipeline, unrolledLast);
  readWholeWords(built.pipeline);
  multiplyPairs(built.pipeline);
  codegen::fetchAhead(built.pipeline, fetchedAhead);
  codegen::fetchNext(built.pipeline, fetchedNext);
  codegen::askBesideSums(built.pipeline, besideSums);
  if (!onDevice()) {
    sumByHalves(built.pipeline);
    giveOwnPlaces(built.pipeline);
  }
  for (const std::string &symbol : graph.symbols)
    built.arguments.push_back(symbols.at(symbol));
  for (const ImageParam &buffer : arguments)
    built.arguments.push_back(buffer);
  return built;
}

} // namespace quern::codegen
