// Takes: a graph and one of its contractions. Gives: what its dimensions are, and whether what becomes of its sums can be
// computed where they are summed.
#include "codegen/tile/products/Products.h"

#include "codegen/kernel/ContractionPattern.h"

#include <algorithm>
#include <set>

namespace quern::codegen::tile {

std::vector<Dim> Factors::all() const {
  std::vector<Dim> dims = matrices;
  dims.insert(dims.end(), rows.begin(), rows.end());
  dims.insert(dims.end(), columns.begin(), columns.end());
  return dims;
}

Factors factorsOf(const KernelGraph &graph, int node) {
  constexpr int widest = 16; // floats of a vector on CPUs, whose patterns these are
  ContractionPattern pattern = matchContraction(graph, node, widest);
  if (pattern.form != ContractionForm::Packed && pattern.form != ContractionForm::Dense)
    throw Refusal("its contraction is no product of matrices");
  Factors f{node, pattern.x, pattern.w, {}, {}, {}, pattern.reduced};
  const Node &c = graph.nodes[node], &x = graph.nodes[f.x], &w = graph.nodes[f.w];
  for (const Dim &dim : c.dims)
    (x.has(dim.name) && w.has(dim.name) ? f.matrices : x.has(dim.name) ? f.rows : f.columns).push_back(dim);
  // Of a packed weight the tiles' rows are columns; what they are stacked along is not.
  for (size_t i = 0; pattern.packed && i < f.columns.size();)
    if (f.columns[i].name != pattern.column->name) {
      f.matrices.push_back(f.columns[i]);
      f.columns.erase(f.columns.begin() + ptrdiff_t(i));
    } else {
      ++i;
    }
  for (const Dim &dim : f.depth)
    if (!x.has(dim.name) || !w.has(dim.name))
      throw Refusal("it sums over what one factor lacks");
  if (f.columns.empty() || f.depth.empty())
    throw Refusal("its contraction is no product of matrices");
  return f;
}

/// The dimensions d1 .. dn of which the value is ((d1 * size2 + d2) ...): each is a coordinate of its own here.
static std::optional<std::vector<int>> flattened(const Values &v, int value, const std::vector<Dim> &dims) {
  constexpr int64_t own = 100;
  const Value &top = v[value];
  if (top.form == Value::Form::Coordinate && top.integer >= own)
    return std::vector<int>{int(top.integer - own)};
  if (top.form != Value::Form::Apply || top.op != Op::Add)
    return std::nullopt;
  const Value &last = v[top.operands[1]], &product = v[top.operands[0]];
  if (last.form != Value::Form::Coordinate || last.integer < own || product.form != Value::Form::Apply ||
      product.op != Op::Mul)
    return std::nullopt;
  const Dim &dim = dims[size_t(last.integer - own)];
  const Value &size = v[product.operands[1]];
  bool same = size.form == Value::Form::Number ? dim.fixed() == size.integer
                                               : size.form == Value::Form::Length && size.size == dim.size;
  std::optional<std::vector<int>> before = same ? flattened(v, product.operands[0], dims) : std::nullopt;
  if (before)
    before->push_back(int(last.integer - own));
  return before;
}

std::optional<Fusion> fusionOf(const KernelGraph &graph, const Factors &factors) {
  auto isProduct = [](const Node &node) { return node.op == Op::Contract; };
  if (std::count_if(graph.nodes.begin(), graph.nodes.end(), isProduct) > 1)
    return std::nullopt;
  const std::vector<Dim> &dims = graph.nodes[graph.results[0]].dims;
  for (int result : graph.results) {
    const Node &node = graph.nodes[result];
    bool same = node.dims.size() == dims.size();
    for (const Dim &dim : dims)
      same &= node.has(dim.name) && node.dims[node.find(dim.name)].size == dim.size;
    if (!same)
      return std::nullopt;
  }
  Values v;
  Places places(graph, v);
  std::vector<Place> seen;
  places.product = [&](int, const Place &at) {
    seen.push_back(at);
    return v.sum(int64_t(seen.size()));
  };
  std::vector<char> made(graph.nodes.size()); // of the product
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    made[i] = int(i) == factors.node || std::any_of(graph.nodes[i].operands.begin(), graph.nodes[i].operands.end(),
                                                    [&](int operand) { return made[size_t(operand)]; });
  bool summedAgain = false;
  places.reduction = [&](int node, const Place &) {
    summedAgain |= bool(made[size_t(node)]);
    return v.real(0.5); // any number: positions are what is asked for
  };
  Place own;
  for (size_t i = 0; i < dims.size(); ++i)
    own[dims[i].name] = v.coordinate(static_cast<Coordinate>(100 + i));
  for (int result : graph.results)
    places.at(result, own);
  if (seen.empty() || summedAgain)
    return std::nullopt;

  Fusion fusion{factors, {}, {}, {}};
  std::set<int> used;
  for (const Dim &dim : factors.all()) {
    int first = seen[0].at(dim.name);
    bool fixed = v.known(first).has_value();
    if (auto parts = fixed ? std::nullopt : flattened(v, first, dims)) {
      ir::Size size(1);
      for (int part : *parts) {
        size = size * dims[part].size;
        if (!used.insert(part).second)
          return std::nullopt;
        fusion.becomes[dim.name].push_back(dims[part]);
      }
      bool everywhere =
          std::all_of(seen.begin(), seen.end(), [&](const Place &at) { return at.at(dim.name) == first; });
      if (!(size == dim.size) || !everywhere)
        return std::nullopt;
    } else if (fixed) {
      for (const Place &at : seen)
        if (!v.known(at.at(dim.name)))
          return std::nullopt;
      fusion.partDims.push_back(dim.name);
    } else {
      return std::nullopt;
    }
  }
  if (used.size() != dims.size())
    return std::nullopt;
  for (const Place &at : seen) {
    std::vector<int64_t> part;
    for (const std::string &name : fusion.partDims)
      part.push_back(*v.known(at.at(name)));
    if (std::find(fusion.parts.begin(), fusion.parts.end(), part) == fusion.parts.end())
      fusion.parts.push_back(part);
  }
  auto gone = [&](std::vector<Dim> &list) {
    bool any = false;
    for (const std::string &name : fusion.partDims)
      any |= std::erase_if(list, [&](const Dim &dim) { return dim.name == name; }) > 0;
    return any;
  };
  gone(fusion.factors.matrices);
  // A fixed row or column of many is no tile.
  if (gone(fusion.factors.rows) || gone(fusion.factors.columns) || fusion.parts.size() > 2)
    return std::nullopt;
  return fusion;
}

static constexpr int64_t processors = 132; // of an H100

int spread(const Factors &f, int &wide) {
  constexpr int narrowest = 64, most = 8;
  constexpr int64_t shortest = 256; // steps of a part: copies have to be on their way for some time
  auto columns = Axis{f.columns}.extent().constant(), depth = Axis{f.depth}.extent().constant();
  auto rows = Axis{f.rows}.extent().constant();
  if (!columns || !depth || !f.matrices.empty() || rows)
    return 0;
  auto tiles = [&] { return (*columns + wide - 1) / wide; };
  while (wide > narrowest && tiles() < processors)
    wide /= 2;
  int parts = 1;
  while (2 * parts <= most && 2 * parts * tiles() <= processors && *depth / (2 * parts) >= shortest)
    parts *= 2;
  return parts > 1 ? parts : 0;
}

int64_t partsOfDepth(const Fusion &fusion, const Cut &cut) {
  constexpr int64_t most = 4; // more parts are more to write and read again
  const Factors &f = fusion.factors;
  auto rows = Axis{f.rows}.extent().constant(), columns = Axis{f.columns}.extent().constant();
  if (!rows || !columns || !f.matrices.empty() || Axis{f.depth}.extent().constant() || fusion.parts.size() > 1)
    return 1;
  int64_t tiles = (*rows + cut.rows - 1) / cut.rows * ((*columns + cut.columns - 1) / cut.columns), split = 1;
  while (2 * split <= most && 2 * split * tiles <= processors)
    split *= 2;
  return split;
}

bool reducesReals(const Node &node, const Node &from) {
  return node.kind() == Kind::Real && from.kind() == Kind::Real && node.reduction != Reduction::Any &&
         node.reduction != Reduction::All;
}

Axis reducedAxis(const Node &node, const Node &from) {
  Axis axis;
  for (const std::string &name : node.names)
    axis.dims.push_back(from.dims[from.find(name)]);
  return axis;
}

} // namespace quern::codegen::tile
