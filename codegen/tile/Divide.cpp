// Takes: a kernel's graph and a plan's numbers. Gives: its tile program.
//
//   few rows          weights read once by dot products; then a map makes the results of their sums
//   many, on Hopper   tensor cores of warp groups, fed by copies of whole boxes, where the factors' addresses allow it
//   many, aligned     tensor cores on what is stored in two bytes; all else is first written so ("staged")
//   any               the same, all of it staged
//
// Numbers that are no bf16 are three of them, each of what the ones before left: products of those are exact in f32, and
// what is left out is below f32's last bit. The depth is then so many times as long, with each number's pieces together.
#include "codegen/tile/Divide.h"

#include "codegen/tile/Operands.h"
#include "codegen/tile/Products.h"
#include "codegen/tile/Together.h"

#include <algorithm>
#include <set>

namespace quern::codegen::tile {

namespace {
class Divider {
public:
  Divider(const KernelGraph &graph, const Numbers &numbers, Program &program)
      : graph(graph), numbers(numbers), p(program), v(program.values), places(graph, program.values) {}
  void run();

private:
  const KernelGraph &graph;
  const Numbers &numbers;
  Program &p;
  Values &v;
  Places places;
  std::vector<Factors> products;
  std::optional<Fusion> fusion;
  std::map<int, int> sums, reduced; // of a node: the buffer of what it makes in the variant that is being made
  Variant *current = nullptr;

  int row() { return v.coordinate(Coordinate::Row); }
  int column() { return v.coordinate(Coordinate::Column); }
  int matrix() { return v.coordinate(Coordinate::Matrix); }
  int depth() { return v.coordinate(Coordinate::Depth); }

  int scratch(Storage storage, std::vector<Dim> dims) {
    Layout layout;
    layout.strides.resize(dims.size());
    p.buffers.push_back({Buffer::Role::Scratch, storage, layout, std::move(dims)});
    return int(p.buffers.size()) - 1;
  }
  Operand staged(int node, const std::vector<int> &pieces, const Axis &own, Coordinate ownIs, const Factors &f,
                 const Place &part, int plain, Variant &variant);
  Place partOf(const Fusion *fused, size_t part);
  Place placeOf(const Factors &f, const Fusion *fused, size_t part, int along);
  void fuse(const Fusion &fused, Stage &stage, const std::function<int(int64_t part)> &sumOf);
  void sumParts(const Factors &f, int64_t split, Stage stage, Variant &variant);
  void product(const Factors &f, bool all, Variant &variant);
  void dots(const Factors &f, int most, Variant &variant);
  void results(bool all, Variant &variant);
  void sumsFor(int split);
  int added(int buffer, std::vector<int> positions, int64_t parts);
  int stored(int node, const Place &at, int split);
  int statistic(int node, const Place &at, const Factors &f, Stage &stage, std::map<int, int> &made);
  int reduction(int node, const Place &at, int split);
  bool asTensor(Operand &operand, const Numbered &own, const Numbered &length, int tile, Variant &variant);
  bool variant(const std::string &name, int few, bool all, int capability = 80);
};
} // namespace

/// `own`: rows or columns of the product; `part`: positions that are fixed; `plain`: the factor, at those and the depth.
Operand Divider::staged(int node, const std::vector<int> &pieces, const Axis &own, Coordinate ownIs, const Factors &f,
                        const Place &part, int plain, Variant &variant) {
  int64_t count = int64_t(pieces.size());
  ir::Size length = Axis{f.depth}.extent();
  // Neighbouring threads read and write neighbouring numbers: a gradient's factors have their rows and columns side by side,
  // and warp groups multiply these as well.
  const bool across = variant.capability > 80 && count == 1 && runsAcross(p, plain, ownIs);
  const std::vector<Dim> &rows = across ? f.depth : own.dims, &columns = across ? own.dims : f.depth;
  Axis both{f.matrices};
  both.dims.insert(both.dims.end(), rows.begin(), rows.end());
  std::vector<Dim> dims = {
      {"matrix", Axis{f.matrices}.extent()}, {"own", own.extent()}, {"depth", length * ir::Size(count)}};
  if (across)
    std::swap(dims[1], dims[2]);
  int buffer = scratch(Storage::BF16, dims);
  Stage map{Stage::Form::Map, both, {columns}, {}, {}, {}, {}, {}};
  if (count > 1)
    map.columns.dims.push_back({"piece", ir::Size(count)});
  Place place = places.divided(both.dims, row());
  for (auto &[name, position] : places.divided(map.columns.dims, column()))
    place[name] = position;
  place.insert(part.begin(), part.end());
  int value = places.at(node, place), which = count > 1 ? place.at("piece") : v.number(0), result = -1;
  for (int64_t i = 0; i < count; ++i) {
    int piece = pieceOf(v, value, pieces[size_t(i)]);
    int here = v.apply(Op::Compare, Kind::Bool, {which, v.number(i)}, Predicate::Eq);
    result = result < 0 ? piece : v.apply(Op::Where, Kind::Real, {here, piece, result});
  }
  int extent = v.length(Axis{rows}.extent());
  map.stores.push_back({buffer,
                        {places.integer(Op::FloorDiv, row(), extent), places.integer(Op::Mod, row(), extent), column()},
                        result});
  pairUp(p, map, variant);
  variant.stages.push_back(std::move(map));
  std::vector<int> at = {f.matrices.empty() ? v.number(0) : matrix(), v.coordinate(ownIs), depth()};
  if (across)
    std::swap(at[1], at[2]);
  return {buffer, at, !across};
}

Place Divider::partOf(const Fusion *fused, size_t part) {
  Place place;
  for (size_t i = 0; fused && i < fused->partDims.size(); ++i)
    place[fused->partDims[i]] = v.number(fused->parts[part][i]);
  return place;
}

/// Where the factors of a product stand; `along`: the position of all of the depth.
Place Divider::placeOf(const Factors &f, const Fusion *fused, size_t part, int along) {
  Place place = places.divided(f.rows, row());
  auto add = [&](const Place &more) { place.insert(more.begin(), more.end()); };
  add(places.divided(f.columns, column()));
  add(places.divided(f.matrices, matrix()));
  add(places.divided(f.depth, along));
  add(partOf(fused, part));
  return place;
}

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

bool Divider::asTensor(Operand &operand, const Numbered &own, const Numbered &length, int tile, Variant &variant) {
  std::optional<Tensor> tensor = tensorOf(p, operand, own, length, tile, asyncDepth, variant.adjacent);
  if (tensor)
    operand.tensor = *tensor;
  return tensor.has_value();
}

void Divider::product(const Factors &f, bool all, Variant &variant) {
  const Fusion *fused = fusion ? &*fusion : nullptr;
  bool async = variant.capability > 80;
  Cut cut = numbers.cut;
  if (async)
    cut = {groupRows * numbers.groups, numbers.wide, asyncDepth, numbers.ring, 4 * numbers.groups, 1};
  Stage stage{async ? Stage::Form::Async : Stage::Form::Product, {f.rows}, {f.columns}, {f.matrices}, {}, {}, {}, cut};
  places.forget();
  Place plain = placeOf(f, fused, 0, depth());
  int x = places.at(f.x, plain), w = places.at(f.w, plain);
  Pairs pairs = pairsOf(isExact(p, x), isExact(p, w));
  int along = pairs.count() == 1 ? depth() : places.integer(Op::FloorDiv, depth(), v.number(pairs.count()));
  stage.depth = Axis{f.depth}.extent() * ir::Size(pairs.count());

  auto numbered = [](const std::vector<Dim> &dims, const Place &place) {
    Numbered made{dims, {}};
    for (const Dim &dim : dims)
      made.values.push_back(place.at(dim.name));
    return made;
  };
  // What is staged has one dimension for each coordinate.
  auto whole = [](const ir::Size &extent, int coordinate) { return Numbered{{{"all", extent}}, {coordinate}}; };
  std::optional<Operand> found;
  auto aligned = variant.aligned;
  if (!all && pairs.count() == 1)
    found = direct(p, x, Coordinate::Row, variant);
  if (found && async && !asTensor(*found, numbered(f.rows, plain), numbered(f.depth, plain), cut.rows, variant))
    found.reset(), variant.aligned = aligned;
  stage.x = found ? *found : staged(f.x, pairs.x, {f.rows}, Coordinate::Row, f, partOf(fused, 0), x, variant);
  if (!found && async)
    asTensor(stage.x, whole(Axis{f.rows}.extent(), row()), whole(stage.depth, depth()), cut.rows, variant);
  for (size_t part = 0; part < (fused ? fused->parts.size() : 1); ++part) {
    Place place = placeOf(f, fused, part, along);
    int value = places.at(f.w, place);
    found.reset();
    bool packed = v[value].form == Value::Form::Load && p.buffers[size_t(v[value].integer)].layout.packed;
    if (isExact(p, value) && (packed || !all))
      found = direct(p, value, Coordinate::Column, variant);
    if (found && async &&
        (pairs.count() > 1 ||
         !asTensor(*found, numbered(f.columns, place), numbered(f.depth, place), cut.columns, variant)))
      throw Refusal("a weight that no tensor of five dimensions is"); // to write it anew would cost more than it brings
    stage.w.push_back(
        found ? *found : staged(f.w, pairs.w, {f.columns}, Coordinate::Column, f, partOf(fused, part), value, variant));
    if (!found && async)
      asTensor(stage.w.back(), whole(Axis{f.columns}.extent(), column()), whole(stage.depth, depth()), cut.columns,
               variant);
  }
  if (!fused) {
    int buffer = scratch(Storage::F32, f.all());
    sums[f.node] = buffer;
    Place place = placeOf(f, nullptr, 0, depth());
    std::vector<int> at;
    for (const Dim &dim : f.all())
      at.push_back(place.at(dim.name));
    stage.stores.push_back({buffer, std::move(at), v.sum(0)});
  } else {
    if (int64_t split = async ? partsOfDepth(*fused, cut) : 1; split > 1)
      return sumParts(f, split, std::move(stage), variant);
    fuse(*fused, stage, [&](int64_t part) { return v.sum(part); });
  }
  if (!all)
    pairUp(p, stage, variant);
  variant.stages.push_back(std::move(stage));
}

/// A product whose parts of the depth are blocks of their own, and a map that adds them up in their order.
void Divider::sumParts(const Factors &f, int64_t split, Stage stage, Variant &variant) {
  Dim parts{"split", ir::Size(split)};
  int buffer = scratch(Storage::F32, {parts, {"row", Axis{f.rows}.extent()}, {"column", Axis{f.columns}.extent()}});
  stage.matrices = {{parts}}, stage.split = int(split);
  stage.stores.push_back({buffer, {matrix(), row(), column()}, v.sum(0)});
  variant.stages.push_back(std::move(stage));
  Stage map{Stage::Form::Map, {}, {}, {}, {}, {}, {}, {}};
  fuse(*fusion, map, [&](int64_t) { return added(buffer, {v.number(0), row(), column()}, split); });
  variant.stages.push_back(std::move(map));
}

/// Of few rows: how many blocks share a tile's depth is known, so that one of them can know that all are at work; and what they
/// leave for it, `each` sums a column, is not much.
static bool knowsBlocks(const Factors &f, int64_t each) {
  constexpr int64_t most = 1 << 23;
  return Axis{f.columns}.extent().constant().value_or(most) * each < most && Axis{f.matrices}.extent().constant() == 1;
}

void Divider::dots(const Factors &f, int most, Variant &variant) {
  const Fusion *fused = fusion ? &*fusion : nullptr;
  Stage stage{Stage::Form::Dots, {f.rows}, {f.columns}, {f.matrices}, Axis{f.depth}.extent(), {}, {}, numbers.cut};
  stage.most = most, stage.split = numbers.split, stage.ahead = numbers.ahead;
  places.forget();
  auto launched = places.reduction;
  std::map<int, int> statistics;
  places.reduction = [&](int node, const Place &at) {
    int made = statistic(node, at, f, stage, statistics);
    return made < 0 ? launched(node, at) : made;
  };
  for (size_t part = 0; part < (fused ? fused->parts.size() : 1); ++part) {
    Place place = placeOf(f, fused, part, depth());
    stage.xValue = places.at(f.x, place);
    const Value &value = v[places.at(f.w, place)];
    if (value.form != Value::Form::Load)
      throw Refusal("a weight that is computed");
    Operand w{int(value.integer), value.operands, false};
    const Buffer &buffer = p.buffers[size_t(w.buffer)];
    size_t last = w.at.size() - 1;
    if (!buffer.layout.packed || buffer.layout.tile % 8 || buffer.layout.tile > 128 || f.columns.size() != 1 ||
        f.depth.size() != 1 || w.at[last] != depth() || w.at[last - 1] != column())
      throw Refusal("a weight that is not packed, or not read in order");
    stage.slice = numbers.slice;
    while (buffer.layout.tile % stage.slice)
      stage.slice /= 2;
    stage.w.push_back(std::move(w));
  }
  places.reduction = launched;
  places.forget();
  std::optional<Together> joined;
  if (!fused && products.size() == 1 && knowsBlocks(f, int64_t(most) * stage.split))
    joined = storesTogether(graph, p, places, f, stage.slice);
  if (fused) {
    fuse(*fused, stage, [&](int64_t part) { return v.sum(part); });
  } else if (joined) {
    stage.stores = joined->stores, stage.together = int(joined->columns);
  } else {
    std::vector<Dim> dims = {{"split", ir::Size(stage.split)}};
    for (const Dim &dim : f.all())
      dims.push_back(dim);
    stage.sums = sums[f.node] = scratch(Storage::F32, dims);
  }
  variant.stages.push_back(std::move(stage));
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
    int buffer = scratch(Storage::F32, {{"row", stage.rows.extent()}});
    stage.stores.push_back({buffer, {row()}, value});
    current->stages.push_back(std::move(stage));
    reduced[i] = buffer;
  }
  int flat = v.number(0);
  for (const Dim &dim : node.dims)
    flat = places.integer(Op::Add, places.integer(Op::Mul, flat, v.length(dim.size)), at.at(dim.name));
  return v.load(reduced.at(i), Kind::Real, {flat});
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

bool Divider::variant(const std::string &name, int few, bool all, int capability) {
  size_t before = p.buffers.size();
  Variant made{name, few, Axis{products[0].rows}.extent(), {}, capability, {}, {}};
  sums.clear(), reduced.clear();
  current = &made;
  std::optional<Fusion> kept = fusion;
  std::vector<Factors> own = products;
  try {
    if (few && numbers.split > 1 && fusion &&
        !knowsBlocks(products[0], int64_t(few) * numbers.split)) { // parts of the depth come together in a map
      fusion.reset();
      products = {factorsOf(graph, products[0].node)};
    }
    sumsFor(few ? numbers.split : 0);
    for (const Factors &f : products) {
      if (few && !(Axis{f.rows}.extent() == made.rows))
        throw Refusal("products of several numbers of rows");
      if (few)
        dots(f, few, made);
      else
        product(f, all, made);
    }
    if (!fusion && (!few || made.stages.back().stores.empty()))
      results(all, made);
    fusion = kept, products = own;
  } catch (const Refusal &) {
    fusion = kept, products = own;
    p.buffers.resize(before);
    if (all)
      throw;
    return false;
  }
  bool guarded = !made.aligned.empty() || few;
  p.variants.push_back(std::move(made));
  return guarded;
}

void Divider::run() {
  declare(graph, p);
  for (int i = 0; i < int(graph.nodes.size()); ++i)
    if (graph.nodes[i].op == Op::Contract)
      products.push_back(factorsOf(graph, i));
  if (products.empty())
    throw Refusal("it makes products of matrices");
  if (products.size() == 1)
    if (std::optional<Fusion> found = fusionOf(graph, products[0])) {
      fusion = found;
      products[0] = found->factors;
    }
  // Of two parts, the sums of more rows would not fit a thread's registers.
  const int most = fusion && fusion->parts.size() > 1 ? std::min(numbers.few, 4) : numbers.few;
  for (int few : std::set<int>{std::min(1, most), most})
    if (few)
      variant("rows" + std::to_string(few), few, false);
  if (numbers.groups)
    variant("groups", 0, false, 90);
  if (variant("direct", 0, false) || p.variants.empty() || p.variants.back().mostRows ||
      p.variants.back().capability > 80)
    variant("staged", 0, true);
}

std::optional<std::string> divide(const KernelGraph &graph, const Numbers &numbers, Program &program) {
  try {
    if (holdsAttention(graph))
      divideAttention(graph, numbers.attend, program);
    else
      Divider(graph, numbers, program).run();
  } catch (const Refusal &refusal) {
    return refusal.what();
  }
  return verify(program);
}

} // namespace quern::codegen::tile
