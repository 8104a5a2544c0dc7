// Takes: a lowered kernel in which sums of products stand as plain loops. Gives: the same by AMX's tile registers.
//
//   for row, lane, step, within:                           tiles of 2 x 2 times 16 rows and columns, for all of the depth:
//     sums[..] += tileProduct(x[..], strip[..], left)  =>    zero; for each 64 bytes: load rows, load columns, multiply; store
//
// Why not Halide's own way (MemoryType::AMXTile): in Halide 21 it takes one tile at a time, where a load for each product
// leaves the multiplier waiting, and no row may be missing. Why after lowering: loops, bounds and blocks are Halide's as of
// any other kernel, and the index expressions of a loop's first elements say where tiles are and how far apart.
//
// Groups of codes are sums of a few steps each: several of them at a time, in registers of their own, so that one product need
// not wait for the store of another.
//
// Tiles always have 16 rows: LLVM configures them once for a function only where shapes are constants. So the rows of a
// last tile are copied first, with the last one again and again; nothing is read behind it. For the same reason a depth of
// more than one step has whole steps alone.
#include "codegen/halide/words/TileProducts.h"

#include "codegen/halide/lowered/PlainLoops.h"

#include <algorithm>
#include <functional>
#include <stdexcept>

using namespace Halide;
using namespace Halide::Internal;

namespace quern::codegen {
namespace {

constexpr char productName[] = "quern_tile_product";
constexpr int wordBytes = 4, wordsOfStep = tileBytes / wordBytes; ///< what an instruction sums within; along the depth
constexpr int atOnce = 2; ///< tiles of rows, and of columns: with theirs all eight registers

Expr number(int value) {
  return IntImm::make(Int(16), value);
}
Expr tileRamp() {
  return Ramp::make(0, 1, 256);
}
Stmt setTile(const std::string &name, const Expr &value) {
  return Store::make(name, value, tileRamp(), Parameter(), const_true(256), ModulusRemainder());
}
Expr tileOf(const std::string &name, Type element) {
  return Load::make(element.with_lanes(256), name, tileRamp(), Buffer<>(), Parameter(), const_true(256),
                    ModulusRemainder());
}

/// Where numbers are in memory: the first, and how far the next ones are along a loop.
struct Place {
  std::string buffer;
  Type type; ///< of a number
  Expr first, apart;
  Expr memory{};               ///< where that is no buffer's name
  Expr nextTile{}, nextStep{}; ///< 16 rows or columns further; 64 bytes of the depth
};

Expr bytes(const Expr &numbers, const Type &type) {
  return cast<int64_t>(numbers) * type.bytes();
}

Expr loadTile(const Place &from, const Expr &start, int length, int rows) {
  // Of a tile the type only says which instruction takes it.
  Type element = from.type.bytes() == 1 ? Int(8) : BFloat(16);
  return Call::make(element.with_lanes(1024 / element.bytes()), "tile_load",
                    {number(rows), number(length),
                     from.memory.defined() ? from.memory : Variable::make(Handle(), from.buffer),
                     bytes(from.first + start, from.type), bytes(from.apart, from.type)},
                    Call::Intrinsic);
}

class Loads : public IRVisitor {
public:
  const Call *product = nullptr;
  const Load *load = nullptr;

private:
  using IRVisitor::visit;
  void visit(const Call *call) override {
    if (call->name == productName)
      product = call;
    IRVisitor::visit(call);
  }
  void visit(const Load *from) override { load = from; }
};

/// The loops of one sum of products, taken apart.
class Nest {
public:
  Nest(const TileSums &sums, const For *outermost)
      : sums(sums), prefix(prefixOf(sums)), loops(prefix, outermost), store(loops.store()) {
    Loads loads;
    store->value.accept(&loads);
    product = loads.product;
    if (!product)
      throw std::logic_error("a sum of tiles is no product alone");
  }

  Stmt byTiles() {
    const Load *row = loadOf(product->args[0]), *column = loadOf(product->args[1]);
    rows = placeOf(row, sums.row), columns = placeOf(column, sums.step);
    out = {store->name, product->type, at(store->index), strideOf(store->index, sums.row)};
    left = at(product->args[2]);
    const int count = extentOf(sums.row);
    groups = extentOf(sums.group);
    const int terms = extentOf(sums.term);
    for (int t = 0; t < terms; ++t) {
      rowTerms.push_back(loops.strideOf(row->index, sums.term, t));
      columnTerms.push_back(loops.strideOf(column->index, sums.term, t));
    }
    measureDepth();
    columnGroup = strideOf(column->index, sums.group), outGroup = strideOf(store->index, sums.group);
    rows.nextTile = loops.strideOf(row->index, sums.row, tileRows);
    columns.nextTile = loops.strideOf(column->index, sums.lane, tileColumns);
    rows.nextStep = hasSteps() ? loops.strideOf(row->index, sums.step, wordsOfStep) : Expr(0);
    columns.nextStep = hasSteps() ? loops.strideOf(column->index, sums.step, wordsOfStep) : Expr(0);
    if (product->args.size() > 3)
      firstStep = at(product->args[3]), steps = at(product->args[4]);
    // Rows of which all are there may lie in any way.
    if (can_prove(left >= count)) {
      rowGroup = strideOf(row->index, sums.group);
      return blocks(rows, count);
    }
    if (!length)
      throw std::logic_error("rows of tiles are missing along a depth that only the run knows");
    // One loop for rows where they are and for copies of them: where two ended alike, LLVM would join their tiles.
    const std::string copy = prefix + "rows";
    const int ofGroup = length / rows.type.bytes(), depth = groups * ofGroup;
    // Rows of codes follow each other along the depth. Of 64 bits Halide leaves some differences as they are.
    std::optional<int64_t> known = as_const_int(strideOf(row->index, sums.group));
    if (groups > 1 && known && *known != ofGroup)
      throw std::logic_error("groups of tiles that do not follow each other");
    rowGroup = make_const(rows.first.type(), groups > 1 ? ofGroup : 0);
    const Expr few = left < count;
    auto either = [&](const char *what, const Expr &yes, const Expr &no) {
      chosen.emplace_back(prefix + what, Select::make(few, yes, no));
      return Variable::make(yes.type(), chosen.back().first);
    };
    const Type index = rows.first.type();
    Place from{copy, rows.type, either("first", make_zero(index), rows.first),
               either("apart", make_const(index, depth), cast(index, rows.apart))};
    from.nextTile = from.apart * tileRows;
    from.nextStep = tileBytes / rows.type.bytes();
    from.memory = either("from", Variable::make(Handle(), copy), Variable::make(Handle(), rows.buffer));
    Stmt all = within(chosen, blocks(from, count));
    all = Block::make(
        {IfThenElse::make(few, copyRows({copy, rows.type, 0, depth}, count, depth)), all, Free::make(copy)});
    return Allocate::make(copy, rows.type, MemoryType::Auto, {count, depth}, few, all);
  }

  static std::string prefixOf(const TileSums &sums) { return sums.sums.name() + ".s1."; }

private:
  const TileSums &sums;
  const std::string prefix;
  const PlainLoops loops;
  const Store *store;
  const Call *product;
  Place rows, columns, out;
  Expr left;
  int length = 0, groups = 1;              ///< bytes of the depth, 0: only the run knows; such sums
  int tiles = 1;                           ///< of 64 bytes, of each of several sums
  Expr firstStep = 0, steps;               ///< of 64 bytes, where the depth of one sum has more than one
  Expr rowGroup, columnGroup, outGroup;    ///< how far the next sum's numbers are
  std::vector<Expr> rowTerms, columnTerms; ///< how far the pieces of a term are behind the first one's
  Lets chosen;

  static const Load *loadOf(const Expr &value) {
    Loads loads;
    value.accept(&loads);
    if (!loads.load)
      throw std::logic_error("a factor of tiles is no number in memory");
    return loads.load;
  }
  bool hasSteps() const { return steps.defined() || tiles > 1; }
  /// Whole steps of 64 bytes, or what is within one.
  void measureDepth() {
    const Expr extent = loops.extent(sums.step);
    if (std::optional<int64_t> known = as_const_int(extent)) {
      length = static_cast<int>(*known) * wordBytes;
      if (length > tileBytes && length % tileBytes)
        throw std::logic_error("tiles of a depth that ends within one");
      // One step by pieces of both factors alone would ask for more registers than there are, were it no loop.
      if (groups > 1)
        tiles = std::max(1, length / tileBytes);
      else if (length > tileBytes || (length == tileBytes && rowTerms.size() > 1))
        steps = length / tileBytes;
    } else if (groups > 1) {
      throw std::logic_error("groups of tiles of a depth that only the run knows");
    } else { // whole ones, as TileSums asks: the length itself may be computed further out
      steps = extent / wordsOfStep;
    }
  }
  Expr at(const Expr &value) const { return loops.at(value); }
  Expr strideOf(const Expr &index, const std::string &loop) const { return loops.strideOf(index, loop); }
  int extentOf(const std::string &loop) const { return loops.extentOf(loop); }
  Place placeOf(const Load *load, const std::string &loop) const {
    return {load->name, load->type, at(load->index), strideOf(load->index, loop)};
  }

  /// All rows of a tile that has fewer.
  Stmt copyRows(const Place &to, int count, int depth) const {
    int lanes = tileBytes / to.type.bytes();
    while (depth % lanes)
      lanes /= 2;
    const std::string row = prefix + "copied", part = prefix + "part";
    Expr r = Variable::make(Int(32), row), p = Variable::make(Int(32), part) * lanes;
    auto vector = [&](const Expr &start) {
      return lanes > 1 ? Ramp::make(start, make_one(start.type()), lanes) : start;
    };
    Expr from = rows.first + min(r, left - 1) * rows.apart;
    if (from.type() != p.type())
      p = cast(from.type(), p);
    Expr value = Load::make(rows.type.with_lanes(lanes), rows.buffer, vector(from + p), Buffer<>(), Parameter(),
                            const_true(lanes), ModulusRemainder());
    Stmt store = Store::make(to.buffer, value, vector(r * depth + Variable::make(Int(32), part) * lanes), Parameter(),
                             const_true(lanes), ModulusRemainder());
    store = For::make(part, 0, depth / lanes, ForType::Serial, Partition::Auto, DeviceAPI::None, store);
    return For::make(row, 0, count, ForType::Serial, Partition::Auto, DeviceAPI::None, store);
  }

  /// All tiles of the sums, some at a time.
  Stmt blocks(const Place &from, int count) const {
    const int wide = extentOf(sums.lane);
    std::vector<Stmt> all;
    for (int row = 0; row < count; row += atOnce * tileRows)
      for (int column = 0; column < wide; column += atOnce * tileColumns)
        all.push_back(block(from, row, std::min(atOnce, (count - row) / tileRows), column,
                            std::min(atOnce, (wide - column) / tileColumns)));
    return Block::make(all);
  }

  /// With the term before it. One that does not begins a loop of its own over the depth: of what comes back within a loop LLVM
  /// would keep more tiles than there are registers.
  bool sharesTile(size_t term) const {
    return can_prove(rowTerms[term] == rowTerms[term - 1]) || can_prove(columnTerms[term] == columnTerms[term - 1]);
  }

  Stmt block(const Place &from, int row, int rowTiles, int column, int columnTiles) const {
    const std::string name = prefix + "tile.", step = prefix + "tile_step";
    auto tile = [&](int i, int j) { return name + std::to_string(i * atOnce + j); };
    auto ofAll = [&](const std::function<Stmt(int i, int j)> &one) {
      std::vector<Stmt> all;
      for (int i = 0; i < rowTiles; ++i)
        for (int j = 0; j < columnTiles; ++j)
          all.push_back(one(i, j));
      return Block::make(all);
    };
    const Type ofTile = out.type.with_lanes(256);
    const Expr zero =
        Call::make(ofTile, "tile_zero", {number(tileRows), number(tileColumns * wordBytes)}, Call::Intrinsic);
    auto product = [&](int i, int j, const Expr &sum, const Expr &at, int group, size_t term) {
      const int bytes = hasSteps() ? tileBytes : length;
      Expr left = loadTile(from,
                           (row / tileRows + i) * from.nextTile + at * from.nextStep + group * rowGroup +
                               cast(from.first.type(), rowTerms[term]),
                           bytes, tileRows);
      Expr right = loadTile(columns,
                            at * columns.nextStep + (column / tileColumns + j) * columns.nextTile +
                                group * columnGroup + columnTerms[term],
                            tileColumns * wordBytes, bytes / wordBytes);
      return Call::make(ofTile, "tile_matmul",
                        {number(tileRows), number(tileColumns * wordBytes), number(bytes), sum, left, right},
                        Call::Intrinsic);
    };
    auto stored = [&](int i, int j, const Expr &sum, int group) {
      Expr place = out.first + (row + i * tileRows) * out.apart + (column + j * tileColumns) + group * outGroup;
      return Evaluate::make(
          Call::make(Int(32), "tile_store",
                     {number(tileRows), number(tileColumns * wordBytes), Variable::make(Handle(), out.buffer),
                      bytes(place, out.type), bytes(out.apart, out.type), sum},
                     Call::Intrinsic));
    };
    if (!steps.defined()) // what LLVM would keep in memory as well, had it a place there
      return ofAll([&](int i, int j) {
        auto sum = [&](int g) { return Variable::make(ofTile, name + std::to_string(g)); };
        std::vector<Stmt> stores;
        for (int g = 0; g < groups; ++g)
          stores.push_back(stored(i, j, sum(g), g));
        Stmt body = Block::make(stores);
        for (int g = groups; g-- > 0;) {
          Expr products = zero;
          for (size_t term = 0; term < rowTerms.size(); ++term)
            for (int t = 0; t < tiles; ++t)
              products = product(i, j, products, t, g, term);
          body = LetStmt::make(name + std::to_string(g), products, body);
        }
        return body;
      });
    std::vector<Stmt> all = {ofAll([&](int i, int j) { return setTile(tile(i, j), zero); })};
    for (size_t term = 0; term < rowTerms.size();) {
      const std::string loop = step + std::to_string(term);
      std::vector<Stmt> products;
      do
        products.push_back(ofAll([&](int i, int j) {
          return setTile(tile(i, j),
                         product(i, j, tileOf(tile(i, j), out.type), Variable::make(Int(32), loop), 0, term));
        }));
      while (++term < rowTerms.size() && sharesTile(term));
      all.push_back(
          For::make(loop, firstStep, steps, ForType::Serial, Partition::Auto, DeviceAPI::None, Block::make(products)));
    }
    all.push_back(ofAll([&](int i, int j) { return stored(i, j, tileOf(tile(i, j), out.type), 0); }));
    Stmt body = Block::make(all);
    // A type of their own, so that no tile has the place of an array before it: LLVM would keep that in memory.
    for (int i = 0; i < rowTiles; ++i)
      for (int j = 0; j < columnTiles; ++j)
        body = Allocate::make(tile(i, j), ofTile, MemoryType::AMXTile, {1}, const_true(), body);
    return body;
  }
};

} // namespace

Expr tileProduct(const Expr &row, const Expr &column, const Expr &left, const Expr &first, const Expr &count) {
  Type type = row.type().bytes() == 1 ? Int(32) : Float(32);
  std::vector<Expr> args = {row, column, left};
  if (first.defined())
    args.insert(args.end(), {first, count});
  return Call::make(type, productName, args, Call::PureExtern);
}

Expr tileRow(const Expr &position, const Expr &count) {
  return unsafe_promise_clamped(position, 0, count - 1);
}

void useTiles(Pipeline &pipeline, const std::vector<TileSums> &sums) {
  std::vector<MarkedLoops> marked;
  for (const TileSums &one : sums)
    marked.push_back({Nest::prefixOf(one),
                      {one.lane, one.row, one.within, one.step, one.group, one.term},
                      [one](const For *outermost) { return Nest(one, outermost).byTiles(); }});
  replaceLoops(pipeline, std::move(marked));
}

} // namespace quern::codegen
