// Takes: an operand of a product. Gives: the tensor of at most five dimensions that a copy engine reads it as. Why not an
// address for each row, as copies of 16 bytes have: one thread then begins the copy of a whole tile.
#include "codegen/tile/Operands.h"

#include <algorithm>
#include <set>

namespace quern::codegen::tile {

namespace {
constexpr size_t mostDims = 5;
constexpr int64_t mostBox = 256;

class Finder {
public:
  Finder(Program &program, const Operand &operand, int tile, int deep, std::vector<Variant::Adjacent> &adjacent)
      : v(program.values), operand(operand), b(program.buffers[size_t(operand.buffer)]), tile(tile), deep(deep),
        adjacent(adjacent) {}

  std::optional<Tensor> run(const Numbered &own, const Numbered &depth) {
    return b.layout.packed ? packed() : dense(own, depth);
  }

private:
  Values &v;
  const Operand &operand;
  const Buffer b; // a copy: positions are added to the program meanwhile
  int tile, deep;
  std::vector<Variant::Adjacent> &adjacent;

  bool isOfBlock(int value) const { // depends on rows, columns or depth
    const Value &x = v[value];
    if (x.form == Value::Form::Load)
      return true;
    return (x.form == Value::Form::Coordinate && x.integer != int64_t(Coordinate::Matrix)) ||
           std::any_of(x.operands.begin(), x.operands.end(), [&](int one) { return isOfBlock(one); });
  }
  static bool canSwizzle(int64_t width) { return width == 16 || width == 32 || width == 64; }

  /// Tiles of rows [tile][depth][row of the tile], whatever they are stacked along.
  std::optional<Tensor> packed() {
    size_t last = operand.at.size() - 1;
    int64_t rows = b.layout.tile, count = b.dims[last - 1].fixed().value_or(0);
    int64_t width = std::min<int64_t>({rows, tile, 64});
    bool isPlain =
        v[operand.at[last - 1]].form == Value::Form::Coordinate && v[operand.at[last]].form == Value::Form::Coordinate;
    if (!isPlain || !count || !canSwizzle(width) || rows % width || (tile > rows && tile % rows))
      return std::nullopt;
    int64_t tiles = (count + rows - 1) / rows, boxTiles = rows == width ? std::max<int64_t>(1, tile / rows) : 1;
    ir::Size all(tiles);
    int stacked = v.number(0);
    for (size_t d = 0; d + 1 < last; ++d) {
      if (isOfBlock(operand.at[d]))
        return std::nullopt;
      stacked = v.apply(Op::Add, Kind::Int,
                        {v.apply(Op::Mul, Kind::Int, {stacked, v.length(b.dims[d].size)}), operand.at[d]});
      all = all * b.dims[d].size;
    }
    stacked = v.apply(Op::Mul, Kind::Int, {stacked, v.number(tiles)});
    ir::Size depth = b.dims[last].size;
    Tensor made{{}, int(width), width * boxTiles};
    made.dims.push_back({TensorDim::Along::Own, ir::Size(rows), width, 1, rows, -1, ir::Size(1)});
    made.dims.push_back({TensorDim::Along::Depth, depth, deep, 1, 0, -1, ir::Size(rows)});
    made.dims.push_back({TensorDim::Along::Own, all, boxTiles, rows, 0, stacked, depth * ir::Size(rows)});
    return made;
  }

  /// One dimension for all that an axis numbers: they must follow each other.
  std::optional<TensorDim> merged(const Numbered &axis, std::set<size_t> &used) {
    std::optional<TensorDim> made;
    ir::Size within(1); // of the dimension before: how many of the innermost it has
    for (size_t i = axis.dims.size(); i-- > 0;) {
      if (v.known(axis.values[i])) // a dimension of one
        continue;
      size_t d = size_t(std::find(operand.at.begin(), operand.at.end(), axis.values[i]) - operand.at.begin());
      if (d == operand.at.size() || !used.insert(d).second)
        return std::nullopt;
      if (!made) {
        made = TensorDim();
        made->of = d;
      } else if (!follows(d, made->of, within)) {
        return std::nullopt;
      }
      within = within * axis.dims[i].size;
    }
    if (made)
      made->extent = within;
    return made;
  }
  bool follows(size_t outer, size_t inner, const ir::Size &extent) {
    if (b.role == Buffer::Role::Scratch)
      return false;
    std::optional<int64_t> a = b.layout.strides[outer], c = b.layout.strides[inner], many = extent.constant();
    if (a && c && many)
      return *a == *c * *many;
    adjacent.push_back({operand.buffer, outer, inner, extent});
    return true;
  }

  std::optional<Tensor> dense(const Numbered &ownAxis, const Numbered &depthAxis) {
    std::set<size_t> used;
    std::optional<TensorDim> own = merged(ownAxis, used), depth = merged(depthAxis, used);
    if (!own || !depth || tile > mostBox || deep > mostBox)
      return std::nullopt;
    own->along = TensorDim::Along::Own, depth->along = TensorDim::Along::Depth;
    Tensor made;
    made.width = operand.depthInner ? deep : std::min(tile, 64);
    made.each = operand.depthInner ? tile : made.width;
    own->box = made.each, depth->box = deep;
    TensorDim &inner = operand.depthInner ? *depth : *own;
    if (inner.of + 1 != operand.at.size() || !canSwizzle(made.width))
      return std::nullopt;
    inner.stride = ir::Size(1);
    made.dims = operand.depthInner ? std::vector<TensorDim>{*depth, *own} : std::vector<TensorDim>{*own, *depth};
    for (size_t d = operand.at.size(); d-- > 0;) {
      if (used.count(d) || v.known(operand.at[d]) == 0)
        continue;
      if (isOfBlock(operand.at[d]))
        return std::nullopt;
      TensorDim fixed;
      fixed.extent = b.dims[d].size, fixed.at = operand.at[d], fixed.of = d;
      made.dims.push_back(fixed);
    }
    return made.dims.size() <= mostDims ? std::optional(made) : std::nullopt;
  }
};
} // namespace

std::optional<Tensor> tensorOf(Program &program, const Operand &operand, const Numbered &own, const Numbered &depth,
                               int tile, int deep, std::vector<Variant::Adjacent> &adjacent) {
  std::vector<Variant::Adjacent> conditions;
  std::optional<Tensor> made = Finder(program, operand, tile, deep, conditions).run(own, depth);
  if (made)
    adjacent.insert(adjacent.end(), conditions.begin(), conditions.end());
  return made;
}

} // namespace quern::codegen::tile
