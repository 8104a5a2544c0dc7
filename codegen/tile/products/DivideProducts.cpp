// Takes: a kernel's graph and a plan's numbers. Gives: its tile program.
//
//   few rows          weights read once by dot products
//   some, on Hopper   as many, in narrower tiles and parts of the depth, until a large card has work for all its blocks
//   many, on Hopper   tensor cores of warp groups, fed by copies of whole boxes, where the factors' addresses allow it
//   many, aligned     tensor cores on what is stored in two bytes; all else is first written so ("staged")
//   any               the same, all of it staged
//
// Numbers that are no bf16 are three of them, each of what the ones before left: products of those are exact in f32, and
// what is left out is below f32's last bit. The depth is then so many times as long, with each number's pieces together. Codes
// beside numbers of bf16 may be rounded to one (`exact`).
#include "codegen/tile/products/Divider.h"
#include "codegen/tile/products/Together.h"

#include <algorithm>
#include <set>

namespace quern::codegen::tile {

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
  int buffer = p.scratch(Storage::BF16, dims);
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

bool Divider::asTensor(Operand &operand, const Numbered &own, const Numbered &length, int tile, Variant &variant) {
  std::optional<Tensor> tensor = tensorOf(p, operand, own, length, tile, asyncDepth, variant.adjacent);
  if (tensor)
    operand.tensor = *tensor;
  return tensor.has_value();
}

static Dim partsDim(int64_t parts) {
  return {"split", ir::Size(parts)};
}

/// Where a product leaves its sums; `split`: those of so many parts of its depth, 0 for whole ones.
int Divider::sumsOf(const Factors &f, int64_t split) {
  std::vector<Dim> dims = f.all();
  if (split)
    dims.insert(dims.begin(), partsDim(split));
  return sums[f.node] = p.scratch(Storage::F32, dims);
}

void Divider::product(const Factors &f, bool all, Variant &variant) {
  const Fusion *fused = fusion ? &*fusion : nullptr;
  bool async = variant.capability > 80;
  Cut cut = numbers.cut;
  if (async)
    cut = {groupRows * numbers.groups, wide, asyncDepth, numbers.ring, 4 * numbers.groups, 1};
  Stage stage{async ? Stage::Form::Async : Stage::Form::Product, {f.rows}, {f.columns}, {f.matrices}, {}, {}, {}, cut};
  places.forget();
  Place plain = placeOf(f, fused, 0, depth());
  int x = places.at(f.x, plain), w = places.at(f.w, plain);
  const bool rounded = !numbers.exact && isExact(p, x) && isCode(p, w);
  Pairs pairs = pairsOf(isExact(p, x), isExact(p, w) || rounded);
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
  if (const int64_t split = shares ? shares : fused && async ? partsOfDepth(*fused, cut) : 1; split > 1) {
    stage.split = int(split), stage.matrices = {{partsDim(split)}};
    if (fused)
      return sumParts(f, std::move(stage), variant);
  }
  if (!fused) {
    std::vector<int> at;
    if (shares)
      at.push_back(matrix());
    Place place = placeOf(f, nullptr, 0, depth());
    for (const Dim &dim : f.all())
      at.push_back(place.at(dim.name));
    stage.stores.push_back({sumsOf(f, shares), std::move(at), v.sum(0)});
  } else {
    fuse(*fused, stage, [&](int64_t part) { return v.sum(part); });
  }
  if (!all)
    pairUp(p, stage, variant);
  variant.stages.push_back(std::move(stage));
}

/// A product whose parts of the depth are blocks of their own, and a map that adds them up in their order.
void Divider::sumParts(const Factors &f, Stage stage, Variant &variant) {
  const int64_t split = stage.split;
  int buffer = p.scratch(Storage::F32, {partsDim(split),
                                        {"part", ir::Size(int64_t(stage.w.size()))},
                                        {"row", Axis{f.rows}.extent()},
                                        {"column", Axis{f.columns}.extent()}});
  for (int64_t part = 0; part < int64_t(stage.w.size()); ++part)
    stage.stores.push_back({buffer, {matrix(), v.number(part), row(), column()}, v.sum(part)});
  pairUp(p, stage, variant);
  variant.stages.push_back(std::move(stage));
  Stage map{Stage::Form::Map, {}, {}, {}, {}, {}, {}, {}};
  fuse(*fusion, map,
       [&](int64_t part) { return added(buffer, {v.number(0), v.number(part), row(), column()}, split); });
  pairUp(p, map, variant);
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
    stage.sums = sumsOf(f, stage.split);
  }
  variant.stages.push_back(std::move(stage));
}

bool Divider::variant(const std::string &name, int few, bool all, int capability, int some) {
  size_t before = p.buffers.size();
  Variant made{name, few + some, Axis{products[0].rows}.extent(), {}, capability, {}, {}};
  wide = numbers.wide, shares = some ? spread(products[0], wide) : 0;
  if (some && shares < 2 && wide == numbers.wide)
    return false; // what many rows have
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
    sumsFor(few ? numbers.split : shares);
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
  if (std::optional<Fusion> found = fusionOf(graph, products[0])) {
    fusion = found;
    products[0] = found->factors;
  }
  // Of two parts, the sums of more rows would not fit a thread's registers.
  const int most = fusion && fusion->parts.size() > 1 ? std::min(numbers.few, 4) : numbers.few;
  for (int few : std::set<int>{std::min(1, most), most})
    if (few)
      variant("rows" + std::to_string(few), few, false);
  if (numbers.groups && numbers.some && products.size() == 1)
    variant("some", 0, false, 90, numbers.some);
  if (numbers.groups)
    variant("groups", 0, false, 90);
  if (variant("direct", 0, false) || p.variants.empty() || p.variants.back().mostRows ||
      p.variants.back().capability > 80)
    variant("staged", 0, true);
}

void divideProducts(const KernelGraph &graph, const ProductNumbers &numbers, Program &program) {
  Divider(graph, numbers, program).run();
}

} // namespace quern::codegen::tile
