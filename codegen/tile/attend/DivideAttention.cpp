// Takes: a kernel of attention, or of its gradient, and a plan's numbers. Gives: its tile program.
//
//   few rows       keys divided among blocks; a map adds their parts, in one order
//   many, on Hopper  keys and values by copies of whole boxes, warp groups; one product and one total, in one piece
//   many, aligned  keys and values are copied as they are in memory, in bf16, 16 bytes at a time
//   any            threads compute them: other numbers, other addresses
//
// Numbers that are no bf16 are some of them, as in products (Divide.cpp), made where they are put in shared memory and, of
// weights, in registers. The expression of a score is evaluated where the sums of its products are.
#include "codegen/tile/attend/DivideAttention.h"

#include "codegen/tile/Operands.h"
#include "codegen/tile/attend/AttentionForm.h"
#include "codegen/tile/attend/Onward.h"
#include "codegen/tile/attend/Score.h"

#include <algorithm>
#include <limits>

namespace quern::codegen::tile {

namespace {
class AttentionDivider {
public:
  AttentionDivider(const KernelGraph &graph, const AttendNumbers &numbers, Program &program)
      : graph(graph), numbers(numbers), p(program), v(program.values), places(graph, program.values),
        form(formOf(graph)) {
    places.reduction = [](int, const Place &) -> int { throw Refusal("a sum within attention"); };
  }
  void run();
  std::map<std::string, int64_t> facts();

private:
  const KernelGraph &graph;
  const AttendNumbers &numbers;
  Program &p;
  Values &v;
  Places places;
  AttentionForm form;
  Attend made; ///< what all variants have

  int at(Coordinate which) { return v.coordinate(which); }
  Place placeOf(int row, int matrix);
  Factor factor(int node, Place place, const std::vector<Dim> &inner, Coordinate along, int pieces);
  int real(int value);
  std::vector<int> sinksAt(const Place &place);
  int bound(const Position &position, bool isLower);
  void expressions();
  void stores(Stage &stage, const Place &place, const std::vector<int> &totals, int shift, int share, bool ofRows);
  int inFew(const std::vector<int> &buffers, int matrix, int row, int &shift, int &share);
  Stage stage(Variant &variant, bool copies);
  Place placeOfKeys(Coordinate keys);
  bool asTensors(Variant &variant, Attend &attend);
  void many(const std::string &name, bool copies, int groups = 0);
  void few(bool copies);
  bool canCopy(Variant &variant, Stage *into);
};
} // namespace

Place AttentionDivider::placeOf(int row, int matrix) {
  Place place = places.divided(form.rows, row);
  place.merge(places.divided(form.frame.heads, matrix));
  return place;
}

Place AttentionDivider::placeOfKeys(Coordinate keys) {
  Place place = places.divided(form.frame.heads, at(Coordinate::Matrix));
  place[form.frame.key.name] = at(keys);
  return place;
}

/// `along`: the coordinate that numbers `inner`.
Factor AttentionDivider::factor(int node, Place place, const std::vector<Dim> &inner, Coordinate along, int pieces) {
  place.merge(places.divided(inner, at(along)));
  places.forget();
  places.product = [](int, const Place &) -> int { throw Refusal("a product within attention's factors"); };
  Factor factor{places.at(node, place), *Axis{inner}.extent().constant(), 1};
  if (v[factor.value].kind != Kind::Real)
    throw Refusal("attention of integers");
  if (!isExact(p, factor.value))
    factor.pieces = pieces;
  return factor;
}

/// The first or last key of a row.
int AttentionDivider::bound(const Position &position, bool isLower) {
  Place place = placeOf(at(Coordinate::Row), at(Coordinate::Matrix));
  places.forget();
  int key = places.integer(Op::Add, place.at(form.frame.query.name), v.length(position.size));
  for (auto [node, times] : position.terms)
    key = places.integer(Op::Add, key, places.integer(Op::Mul, places.at(node, place), v.number(times)));
  if (!isLower || !form.frame.ring)
    return key;
  int old = v.apply(Op::Compare, Kind::Bool, {v.length(*form.frame.ring), v.number(0)}, Predicate::Gt);
  return v.apply(Op::Where, Kind::Int, {old, v.number(0), key}); // any slot of a ring may be seen
}

int AttentionDivider::real(int value) {
  return v[value].kind == Kind::Real ? value : v.apply(Op::ToReal, Kind::Real, {value});
}

/// Of a row and a head.
std::vector<int> AttentionDivider::sinksAt(const Place &place) {
  std::vector<int> sinks;
  for (const auto &[node, dim] : form.frame.sinks) {
    Place own = place;
    for (int64_t i = 0, count = graph.nodes[node].dims[size_t(graph.nodes[node].find(dim))].fixed().value_or(0);
         i < count; ++i) {
      own[dim] = v.number(i);
      sinks.push_back(real(places.at(node, own)));
    }
  }
  return sinks;
}

void AttentionDivider::expressions() {
  const AttentionPattern &frame = form.frame;
  const int row = at(Coordinate::Row), column = at(Coordinate::Column), matrix = at(Coordinate::Matrix);
  made.keys = {{frame.key}};
  Place ofRow = placeOf(row, matrix), ofKey = placeOfKeys(Coordinate::Column), ofValue = placeOfKeys(Coordinate::Depth);
  for (const AttentionDot &dot : frame.dots) {
    Attend::Dot one{factor(dot.q, ofRow, dot.depth, Coordinate::Depth, numbers.pieces),
                    factor(dot.k, ofKey, dot.depth, Coordinate::Depth, numbers.pieces)};
    if (depends(p, one.q.value, Coordinate::Column) || depends(p, one.k.value, Coordinate::Row))
      throw Refusal("a product of more than rows and keys");
    made.dots.push_back(std::move(one));
  }
  for (const GradientSum &sum : form.sums) {
    made.totals.push_back(
        {-1, -1, numbers.pieces, factor(sum.value, ofValue, {sum.column}, Coordinate::Column, numbers.pieces)});
    if (depends(p, made.totals.back().v.value, Coordinate::Row))
      throw Refusal("values of more than keys");
  }

  Place both = ofRow;
  both[frame.key.name] = column;
  places.forget();
  places.product = [&](int node, const Place &place) {
    for (size_t i = 0; i < frame.dots.size(); ++i) {
      bool same = frame.dots[i].node == node;
      for (const Dim &dim : graph.nodes[node].dims)
        same = same && place.at(dim.name) == both.at(dim.name);
      if (same)
        return v.sum(int64_t(i));
    }
    throw Refusal("a score of another row or key");
  };
  int score = -1;
  if (form.softmax) {
    score = real(places.at(frame.score, both));
    made.sinks = sinksAt(ofRow);
  } else {
    for (size_t i = 0; i < form.sums.size(); ++i)
      made.totals[i].weights = real(places.at(form.sums[i].weights, both));
  }
  places.product = [](int, const Place &) -> int { throw Refusal("a bound that is made of scores"); };
  if (frame.lower)
    made.from = bound(*frame.lower, true);
  if (frame.upper)
    made.to = bound(*frame.upper, false);
  setScore(v, score, made);
}

/// Where the totals are known; `ofRows`: of results that are one number for each row, else of the others.
void AttentionDivider::stores(Stage &stage, const Place &place, const std::vector<int> &totals, int shift, int share,
                              bool ofRows) {
  places.forget();
  places.product = [](int, const Place &) -> int { throw Refusal("a product of the scores outside of attention"); };
  std::vector<int> times(graph.results.size());
  for (size_t t = 0; t < form.sums.size(); ++t) {
    std::map<int, Here> known;
    Place own = place;
    own[form.sums[t].column.name] = at(Coordinate::Column);
    known[form.sums[t].node] = {own, totals[t]};
    if (form.frame.shift >= 0 && form.softmax)
      known[form.frame.shift] = {place, shift};
    if (form.frame.share >= 0 && form.softmax)
      known[form.frame.share] = {place, share};
    known = onward(graph, places, v, std::move(known));
    for (size_t r = 0; r < graph.results.size(); ++r) {
      auto here = known.find(graph.results[r]);
      if (here == known.end())
        continue;
      ++times[r];
      Store store{graph.argumentCount() + int(r), {}, here->second.value};
      bool isRow = true;
      for (const Dim &dim : graph.nodes[graph.results[r]].dims) {
        store.at.push_back(here->second.place.at(dim.name));
        isRow = isRow && !depends(p, store.at.back(), Coordinate::Column);
      }
      if (isRow && !form.softmax)
        throw Refusal("a gradient without columns");
      if (stage.form == Stage::Form::Map) {
        if (isRow == ofRows)
          stage.stores.push_back(std::move(store));
      } else {
        (isRow ? stage.attend.rowStores : stage.attend.totals[t].stores).push_back(std::move(store));
      }
    }
  }
  if (!std::all_of(times.begin(), times.end(), [](int count) { return count == 1; }))
    throw Refusal("it gives more than what becomes of attention");
}

/// As it is in memory, all keys and values: nothing is changed where one is not.
bool AttentionDivider::canCopy(Variant &variant, Stage *into) {
  auto copied = [&](const Factor &factor) {
    return factor.pieces == 1 ? direct(p, factor.value, Coordinate::Column, variant) : std::nullopt;
  };
  for (size_t i = 0; i < made.dots.size(); ++i) {
    std::optional<Operand> k = copied(made.dots[i].k);
    if (!k || !k->depthInner)
      return false;
    if (into)
      into->attend.dots[i].k.copied = k;
  }
  for (size_t i = 0; i < made.totals.size(); ++i) {
    std::optional<Operand> own = copied(made.totals[i].v);
    if (!own || own->depthInner)
      return false;
    if (into)
      into->attend.totals[i].v.copied = own;
  }
  return true;
}

Stage AttentionDivider::stage(Variant &variant, bool copies) {
  Stage stage{Stage::Form::Attend, {form.rows}, {}, {form.frame.heads}, {}, {}, {}, {}};
  stage.attend = made;
  stage.attend.rows = numbers.rows, stage.attend.keysTogether = numbers.keys;
  stage.attend.stages = numbers.stages, stage.attend.warps = numbers.warps;
  if (copies)
    canCopy(variant, &stage);
  return stage;
}

/// Keys and values as tensors that copies of whole boxes read; false: they are none.
bool AttentionDivider::asTensors(Variant &variant, Attend &attend) {
  const Dim &key = form.frame.key;
  auto width = [](int64_t inner) { return inner > 32 ? 64 : inner > 16 ? 32 : 16; };
  auto set = [&](Factor &factor, const Numbered &own, const Numbered &depth, int tile, int deep) {
    std::optional<Tensor> tensor = tensorOf(p, *factor.copied, own, depth, tile, deep, variant.adjacent);
    if (tensor)
      factor.copied->tensor = *tensor;
    return tensor.has_value();
  };
  Numbered deep{form.frame.dots[0].depth, {}};
  Place ofDepth = places.divided(deep.dims, at(Coordinate::Depth));
  for (const Dim &dim : deep.dims)
    deep.values.push_back(ofDepth.at(dim.name));
  Factor &k = attend.dots[0].k, &value = attend.totals[0].v;
  return set(k, {{key}, {at(Coordinate::Column)}}, deep, numbers.wide, width(k.inner)) &&
         set(value, {{form.sums[0].column}, {at(Coordinate::Column)}}, {{key}, {at(Coordinate::Depth)}},
             width(value.inner), numbers.wide);
}

/// `groups`: warp groups of Hopper; nothing is made where it has no such form.
void AttentionDivider::many(const std::string &name, bool copies, int groups) {
  Variant variant{name, 0, Axis{form.rows}.extent(), {}, groups ? 90 : 80, {}, {}};
  Stage one = stage(variant, copies);
  if (groups) {
    if (!form.softmax || made.dots.size() > 1 || made.dots[0].q.pieces > 1 || made.totals[0].pieces > 1 ||
        !asTensors(variant, one.attend))
      return;
    one.attend.groups = groups, one.attend.rows = groupRows * groups, one.attend.warps = 4 * groups;
    one.attend.turns = numbers.turns && groups > 1;
    one.attend.keysTogether = numbers.wide, one.attend.stages = numbers.ring;
  }
  std::vector<int> totals;
  for (size_t i = 0; i < form.sums.size(); ++i)
    totals.push_back(v.sum(0));
  stores(one, placeOf(at(Coordinate::Row), at(Coordinate::Matrix)), totals, v.sum(1), v.sum(2), false);
  variant.stages.push_back(std::move(one));
  p.variants.push_back(std::move(variant));
}

/// What the blocks left of a row and a column, put together: e^(largest of a block - largest of all) times its sums.
int AttentionDivider::inFew(const std::vector<int> &buffers, int matrix, int row, int &shift, int &share) {
  auto real = [&](Op op, std::vector<int> operands) { return v.apply(op, Kind::Real, std::move(operands)); };
  auto where = [&](int value, double is, int then, int otherwise) {
    int same = v.apply(Op::Compare, Kind::Bool, {value, v.real(is)}, Predicate::Eq);
    return v.apply(Op::Where, Kind::Real, {same, then, otherwise});
  };
  std::vector<int> tops, sums, totals;
  for (int i = 0; i < numbers.split; ++i) {
    std::vector<int> of = {v.number(i), matrix, row};
    tops.push_back(v.load(buffers[1], Kind::Real, of));
    sums.push_back(v.load(buffers[2], Kind::Real, of));
    of.push_back(at(Coordinate::Column));
    totals.push_back(v.load(buffers[0], Kind::Real, of));
  }
  constexpr double nothing = -std::numeric_limits<double>::infinity();
  int top = v.real(nothing), all = v.real(0), total = v.real(0);
  // Sinks are of a row and a head, which stand elsewhere here.
  places.forget();
  std::vector<int> sinks = sinksAt(placeOf(row, matrix));
  for (int one : tops)
    top = real(Op::Max, {top, one});
  for (int one : sinks)
    top = real(Op::Max, {top, one});
  shift = where(top, nothing, v.real(0), top);
  for (int i = 0; i < numbers.split; ++i) {
    int weight = real(Op::Exp, {real(Op::Sub, {tops[size_t(i)], shift})});
    all = real(Op::Add, {all, real(Op::Mul, {weight, sums[size_t(i)]})});
    total = real(Op::Add, {total, real(Op::Mul, {weight, totals[size_t(i)]})});
  }
  for (int one : sinks)
    all = real(Op::Add, {all, real(Op::Exp, {real(Op::Sub, {one, shift})})});
  share = where(all, 0, v.real(0), real(Op::Div, {v.real(1), all}));
  return where(all, 0, v.real(0), real(Op::Div, {total, all}));
}

void AttentionDivider::few(bool copies) {
  ir::Size rows = Axis{form.rows}.extent(), matrices = Axis{form.frame.heads}.extent();
  Variant variant{"rows" + std::to_string(numbers.few), numbers.few, rows, {}, 80, {}, {}};
  Stage one = stage(variant, copies);
  one.attend.rows = numbers.few, one.attend.warps = numbers.few / 16, one.attend.split = numbers.split;
  const int row = at(Coordinate::Row), matrix = at(Coordinate::Matrix), column = at(Coordinate::Column),
            part = at(Coordinate::Depth);
  Dim parts{"part", ir::Size(numbers.split)}, ofMatrices{"matrix", matrices}, ofRows{"row", rows};
  auto scratch = [&](std::vector<Dim> dims) { return p.scratch(Storage::F32, std::move(dims)); };
  std::vector<int> buffers = {scratch({parts, ofMatrices, ofRows, form.frame.column}),
                              scratch({parts, ofMatrices, ofRows}), scratch({parts, ofMatrices, ofRows})};
  one.attend.totals[0].stores.push_back({buffers[0], {part, matrix, row, column}, v.sum(0)});
  for (int i : {1, 2})
    one.attend.rowStores.push_back({buffers[size_t(i)], {part, matrix, row}, v.sum(i)});
  variant.stages.push_back(std::move(one));

  Axis all{form.frame.heads};
  all.dims.insert(all.dims.end(), form.rows.begin(), form.rows.end());
  int each = v.length(rows), shift = 0, share = 0;
  int ofMatrix = places.integer(Op::FloorDiv, row, each), ofRow = places.integer(Op::Mod, row, each);
  int total = inFew(buffers, ofMatrix, ofRow, shift, share);
  for (bool alone : {false, true}) {
    Stage map{Stage::Form::Map, all, {}, {}, {}, {}, {}, {}};
    if (!alone)
      map.columns.dims = {form.frame.column};
    stores(map, placeOf(ofRow, ofMatrix), {total}, shift, share, alone);
    if (!map.stores.empty())
      variant.stages.push_back(std::move(map));
  }
  p.variants.push_back(std::move(variant));
}

void AttentionDivider::run() {
  declare(graph, p);
  expressions();
  Variant unused{"", 0, {}, {}, 80, {}, {}};
  bool copies = canCopy(unused, nullptr);
  if (form.softmax && numbers.few)
    few(copies);
  if (copies && numbers.groups)
    many("groups", true, numbers.groups);
  if (copies)
    many("direct", true);
  many("any", false);
}

std::map<std::string, int64_t> AttentionDivider::facts() {
  declare(graph, p);
  expressions();
  std::map<std::string, int64_t> facts = {{"dots", int64_t(made.dots.size())}, {"sums", int64_t(made.totals.size())}};
  bool narrow = false; // a column of ones, which some sums multiply, says nothing of the others
  for (const Attend::Dot &dot : made.dots) {
    facts["depth"] += dot.k.padded();
    narrow |= dot.k.pieces == 1;
  }
  for (const Attend::Total &total : made.totals) {
    facts["values"] += total.v.padded();
    narrow |= made.dots.empty() && total.v.pieces == 1;
  }
  facts["bits"] = narrow ? 16 : 32;
  facts["rows"] = 1;
  for (const Dim &dim : form.frame.together)
    facts["rows"] *= dim.fixed().value_or(1);
  return facts;
}

bool holdsAttention(const KernelGraph &graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node &node) {
    return node.op == Op::Attention || node.op == Op::AttentionShift || node.op == Op::AttentionShare ||
           node.op == Op::WeightedSum || node.op == Op::DistanceSum;
  });
}

void divideAttention(const KernelGraph &graph, const AttendNumbers &numbers, Program &program) {
  AttentionDivider(graph, numbers, program).run();
}

std::map<std::string, int64_t> factsOfAttention(const KernelGraph &graph) {
  Program program;
  return AttentionDivider(graph, AttendNumbers(), program).facts();
}

} // namespace quern::codegen::tile
