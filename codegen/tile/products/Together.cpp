// Takes: a product of few rows whose results are no function of one sum (queries, keys and values cut from one product,
// rotary pairs). Gives: its results as stores at the product's columns, and how many columns have to be known for one.
//
// Which columns an element reads is computed for every column: where they are depends on nothing else.
#include "codegen/tile/products/Together.h"

#include <algorithm>

namespace quern::codegen::tile {

/// An integer that depends on the column alone; nothing: on more than that.
static std::optional<int64_t> atColumn(const Values &v, int value, int64_t column) {
  const Value &x = v[value];
  if (x.form == Value::Form::Number && x.kind == Kind::Int)
    return x.integer;
  if (x.form == Value::Form::Coordinate && x.integer == int64_t(Coordinate::Column))
    return column;
  if (x.form != Value::Form::Apply || x.kind != Kind::Int || x.operands.size() != 2)
    return std::nullopt;
  std::optional<int64_t> a = atColumn(v, x.operands[0], column), b = atColumn(v, x.operands[1], column);
  if (!a || !b)
    return std::nullopt;
  const bool divides = *a >= 0 && *b > 0;
  switch (x.op) {
  case Op::Add:
    return *a + *b;
  case Op::Sub:
    return *a - *b;
  case Op::Mul:
    return *a * *b;
  case Op::Min:
    return std::min(*a, *b);
  case Op::Max:
    return std::max(*a, *b);
  case Op::FloorDiv:
    return divides ? std::optional(*a / *b) : std::nullopt;
  case Op::Mod:
    return divides ? std::optional(*a % *b) : std::nullopt;
  default:
    return std::nullopt;
  }
}

/// The columns of all sums that a value reads.
static void collect(const Values &v, int value, std::vector<int> &columns) {
  const Value &x = v[value];
  if (x.form == Value::Form::Sum)
    columns.push_back(x.operands[0]);
  for (int operand : x.operands)
    collect(v, operand, columns);
}

/// Whether the sums that the store's elements read are among `together` columns with their own.
static bool staysWithin(const Values &v, const Store &store, int64_t together) {
  std::vector<int> columns;
  collect(v, store.value, columns);
  std::sort(columns.begin(), columns.end());
  columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
  for (int64_t own = *store.from.constant(); own < *store.to->constant(); ++own)
    for (int one : columns) {
      std::optional<int64_t> at = atColumn(v, one, own);
      if (!at || *at < 0 || *at / together != own / together)
        return false;
    }
  return true;
}

std::optional<Together> storesTogether(const KernelGraph &graph, Program &p, Places &places, const Factors &f,
                                       int64_t slice) {
  Values &v = p.values;
  const int row = v.coordinate(Coordinate::Row), column = v.coordinate(Coordinate::Column);
  const ir::Size rows = Axis{f.rows}.extent();
  const std::optional<int64_t> all = Axis{f.columns}.extent().constant();
  if (!all || !f.matrices.empty())
    return std::nullopt;
  auto product = places.product, reduction = places.reduction;
  places.forget();
  places.product = [&](int, const Place &at) {
    if (places.flat(f.rows, at) != row)
      throw Refusal("a sum of another row");
    return v.sumAt(places.flat(f.columns, at));
  };
  places.reduction = [](int, const Place &) -> int { throw Refusal("a sum of sums"); };
  Together made;
  int64_t before = 0;
  try {
    for (size_t i = 0; i < graph.results.size(); ++i) {
      const std::vector<Dim> &dims = graph.nodes[graph.results[i]].dims;
      size_t ofRows = 0;
      for (ir::Size size(1); ofRows < dims.size() && !(size == rows);)
        size = size * dims[ofRows++].size;
      const std::vector<Dim> outer(dims.begin(), dims.begin() + std::ptrdiff_t(ofRows)),
          inner(dims.begin() + std::ptrdiff_t(ofRows), dims.end());
      const std::optional<int64_t> count = Axis{inner}.extent().constant();
      if (!(Axis{outer}.extent() == rows) || !count)
        throw Refusal("a result that has no row of the product for each of its own");
      Place place = places.divided(outer, row);
      place.merge(places.divided(inner, places.integer(Op::Sub, column, v.number(before))));
      Store store{graph.argumentCount() + int(i),
                  {},
                  places.at(graph.results[i], place),
                  ir::Size(before),
                  ir::Size(before + *count)};
      for (const Dim &dim : dims)
        store.at.push_back(place.at(dim.name));
      made.stores.push_back(std::move(store));
      before += *count;
    }
  } catch (const Refusal &) {
    before = -1;
  }
  places.product = product, places.reduction = reduction;
  places.forget();
  if (before != *all)
    return std::nullopt;
  constexpr int64_t most = 512; // columns: a block has so many sums in shared memory
  for (made.columns = slice; made.columns <= most && (made.columns == slice || *all % made.columns == 0);
       made.columns *= 2)
    if (std::all_of(made.stores.begin(), made.stores.end(),
                    [&](const Store &store) { return staysWithin(v, store, made.columns); }))
      return made;
  return std::nullopt;
}

} // namespace quern::codegen::tile
