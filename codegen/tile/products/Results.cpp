// Takes: sums of products. Gives: the results of a kernel, where the sums are or from what they left in memory.
#include "codegen/tile/products/Divider.h"

#include <algorithm>

namespace quern::codegen::tile {

/// The stores of all results, computed where the sums are.
void Divider::fuse(const Fusion &fused, Stage &stage, const std::function<int(int64_t part)> &sumOf) {
  auto axis = [&](const std::vector<Dim> &dims) {
    Axis made;
    for (const Dim &dim : dims)
      for (const Dim &part : fused.becomes.at(dim.name))
        made.dims.push_back(part);
    return made;
  };
  stage.rows = axis(fused.factors.rows), stage.columns = axis(fused.factors.columns),
  stage.matrices = axis(fused.factors.matrices);
  Place own = places.divided(stage.rows.dims, row());
  for (const auto &[dims, coordinate] :
       {std::pair(&stage.columns.dims, column()), std::pair(&stage.matrices.dims, matrix())})
    for (auto &[name, position] : places.divided(*dims, coordinate))
      own[name] = position;
  places.forget();
  places.product = [&](int, const Place &at) {
    std::vector<int64_t> part;
    for (const std::string &name : fused.partDims)
      part.push_back(*v.known(at.at(name)));
    return sumOf(std::find(fused.parts.begin(), fused.parts.end(), part) - fused.parts.begin());
  };
  for (size_t i = 0; i < graph.results.size(); ++i) {
    const Node &node = graph.nodes[graph.results[i]];
    std::vector<int> at;
    for (const Dim &dim : node.dims)
      at.push_back(own.at(dim.name));
    stage.stores.push_back({graph.argumentCount() + int(i), std::move(at), places.at(graph.results[i], own)});
  }
}

/// A number of a row that each block of few rows makes for itself, as a launch of its own would take longer; -1: it is no
/// number of the product's rows.
int Divider::statistic(int i, const Place &at, const Factors &f, Stage &stage, std::map<int, int> &made) {
  const Node &node = graph.nodes[i], &from = graph.nodes[node.operands[0]];
  if (!reducesReals(node, from) || node.dims.size() != f.rows.size())
    return -1;
  Place place = places.divided(f.rows, row());
  for (size_t d = 0; d < f.rows.size(); ++d)
    if (node.dims[d].name != f.rows[d].name || at.at(f.rows[d].name) != place.at(f.rows[d].name))
      return -1;
  if (!made.count(i)) {
    const Axis along = reducedAxis(node, from);
    for (auto &[name, position] : places.divided(along.dims, column()))
      place[name] = position;
    int value = places.at(node.operands[0], place); // which may have statistics before its own
    made[i] = v.statistic(int64_t(stage.statistics.size()));
    stage.statistics.push_back({value, node.reduction, along.extent()});
  }
  return made.at(i);
}

/// All parts of an element, in their order; the first of its positions is the part's.
int Divider::added(int buffer, std::vector<int> positions, int64_t parts) {
  int sum = v.load(buffer, Kind::Real, positions);
  for (int64_t part = 1; part < parts; ++part) {
    positions[0] = v.number(part);
    sum = v.apply(Op::Add, Kind::Real, {sum, v.load(buffer, Kind::Real, positions)});
  }
  return sum;
}

/// What a product left in memory.
int Divider::stored(int node, const Place &at, int split) {
  auto buffer = sums.find(node);
  if (buffer == sums.end())
    throw Refusal("a sum of what is still summed");
  const Factors &f =
      *std::find_if(products.begin(), products.end(), [&](const Factors &one) { return one.node == node; });
  std::vector<int> positions;
  for (const Dim &dim : f.all())
    positions.push_back(at.at(dim.name));
  if (!split)
    return v.load(buffer->second, Kind::Real, positions);
  positions.insert(positions.begin(), v.number(0));
  return added(buffer->second, std::move(positions), split);
}

/// A number for each row, made by a launch of its own before whoever reads it.
int Divider::reduction(int i, const Place &at, int split) {
  const Node &node = graph.nodes[i];
  if (!reduced.count(i)) {
    const Node &from = graph.nodes[node.operands[0]];
    if (!reducesReals(node, from))
      throw Refusal("it reduces real numbers alone");
    Stage stage{Stage::Form::Reduce, {node.dims}, reducedAxis(node, from), {}, {}, {}, {}, {}};
    stage.reduction = node.reduction;
    Place place = places.divided(stage.rows.dims, row());
    for (auto &[name, position] : places.divided(stage.columns.dims, column()))
      place[name] = position;
    auto outer = places.product;
    places.product = [this, split](int product, const Place &where) { return stored(product, where, split); };
    places.forget();
    int value = places.at(node.operands[0], place);
    places.forget();
    places.product = outer;
    int buffer = p.scratch(Storage::F32, {{"row", stage.rows.extent()}});
    stage.stores.push_back({buffer, {row()}, value});
    current->stages.push_back(std::move(stage));
    reduced[i] = buffer;
  }
  return v.load(reduced.at(i), Kind::Real, {places.flat(node.dims, at)});
}

/// Reads what products left.
void Divider::sumsFor(int split) {
  places.forget();
  places.product = [this, split](int node, const Place &at) { return stored(node, at, split); };
  places.reduction = [this, split](int node, const Place &at) { return reduction(node, at, split); };
}

/// Results whose last dimension is as long are one launch: the rows of one after those of another.
void Divider::results(bool all, Variant &variant) {
  std::vector<Stage> maps;
  for (size_t i = 0; i < graph.results.size(); ++i) {
    const Node &node = graph.nodes[graph.results[i]];
    Axis rows{node.dims}, columns;
    if (!node.dims.empty()) {
      columns.dims = {node.dims.back()};
      rows.dims.pop_back();
    }
    auto same = std::find_if(maps.begin(), maps.end(),
                             [&](const Stage &map) { return map.columns.extent() == columns.extent(); });
    if (same == maps.end())
      same = maps.insert(same, Stage{Stage::Form::Map, rows, columns, {}, {}, {}, {}, {}});
    Store store{graph.argumentCount() + int(i), {}, 0};
    int own = row();
    if (!same->stores.empty()) {
      if (!same->stores[0].to)
        same->stores[0].to = same->rows.extent();
      store.from = same->rows.extent();
      store.to = store.from + rows.extent();
      own = places.integer(Op::Sub, own, v.length(store.from));
      same->rows.dims = {{"row", *store.to}};
    }
    Place place = places.divided(rows.dims, own);
    for (auto &[name, position] : places.divided(columns.dims, column()))
      place[name] = position;
    for (const Dim &dim : node.dims)
      store.at.push_back(place.at(dim.name));
    store.value = places.at(graph.results[i], place);
    same->stores.push_back(std::move(store));
  }
  for (Stage &map : maps) {
    if (!all)
      pairUp(p, map, variant);
    variant.stages.push_back(std::move(map));
  }
}

} // namespace quern::codegen::tile
