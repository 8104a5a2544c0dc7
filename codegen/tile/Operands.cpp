// Takes: a factor of a product, as a value. Gives: where it is in memory, if that is in the form that tensor cores read.
#include "codegen/tile/Operands.h"

#include <algorithm>
#include <limits>

namespace quern::codegen::tile {

Pairs pairsOf(bool exactX, bool exactW) {
  if (exactX && exactW)
    return {{0}, {0}};
  if (exactW)
    return {{0, 1, 2}, {0, 0, 0}};
  if (exactX)
    return {{0, 0, 0}, {0, 1, 2}};
  return {{0, 0, 1, 1, 0, 2}, {0, 1, 0, 1, 2, 0}};
}

int pieceOf(Values &v, int value, int piece) {
  int rest = value, rounded = v.apply(Op::Narrow, Kind::Real, {value});
  for (int i = 0; i < piece; ++i) { // infinities have one piece
    int size = v.apply(Op::Abs, Kind::Real, {rounded});
    int finite =
        v.apply(Op::Compare, Kind::Bool, {size, v.real(std::numeric_limits<double>::infinity())}, Predicate::Lt);
    rest = v.apply(Op::Where, Kind::Real, {finite, v.apply(Op::Sub, Kind::Real, {rest, rounded}), v.real(0)});
    rounded = v.apply(Op::Narrow, Kind::Real, {rest});
  }
  return rounded;
}

bool depends(const Program &p, int value, Coordinate on) {
  const Value &x = p.values[value];
  if (x.form == Value::Form::Coordinate)
    return x.integer == int64_t(on);
  return std::any_of(x.operands.begin(), x.operands.end(), [&](int operand) { return depends(p, operand, on); });
}

/// Whether eight numbers from a multiple of eight on `along` stay together: for a position in the innermost dimension
/// (`plain`) those that count on; for others those that do not change.
static bool eights(const Program &p, int value, Coordinate along, bool plain) {
  const Value &x = p.values[value];
  if (!depends(p, value, along))
    return !plain;
  if (x.form == Value::Form::Coordinate)
    return plain;
  if (x.form != Value::Form::Apply || (x.op != Op::Mod && x.op != Op::FloorDiv))
    return false;
  auto by = p.values.known(x.operands[1]);
  bool whole = by && *by % 8 == 0 && p.values[x.operands[0]].form == Value::Form::Coordinate;
  if (x.op == Op::Mod)
    return by && *by % 8 == 0 &&
           (plain ? p.values[x.operands[0]].form == Value::Form::Coordinate : eights(p, x.operands[0], along, false));
  return whole && !plain;
}

/// Whether the number is one of bf16.
bool isExact(const Program &p, int value) {
  const Value &x = p.values[value];
  if (x.form == Value::Form::Load)
    return p.buffers[size_t(x.integer)].storage == Storage::BF16;
  if (x.form != Value::Form::Apply)
    return x.form == Value::Form::Number && (x.real == 0 || x.real == 1 || x.real == -1);
  if (x.op == Op::Where)
    return isExact(p, x.operands[1]) && isExact(p, x.operands[2]);
  return x.op == Op::Narrow || (x.op == Op::Neg && isExact(p, x.operands[0]));
}

bool isCode(const Program &p, int value) {
  return p.values[value].form == Value::Form::Load && bitsOfCode(p.buffers[size_t(p.values[value].integer)].storage);
}

static bool storedInPairs(const Program &p, const Store &store, const Axis &columns) {
  const Buffer &buffer = p.buffers[size_t(store.buffer)];
  const Layout &layout = buffer.layout;
  std::optional<int64_t> extent = columns.extent().constant();
  if (buffer.dims.empty() || layout.packed || !extent || *extent % 8 ||
      (buffer.storage != Storage::F32 && buffer.storage != Storage::BF16))
    return false;
  size_t last = buffer.dims.size() - 1;
  bool dense = buffer.role == Buffer::Role::Scratch; // whose rows begin at multiples of eight
  if (!dense && layout.strides[last] != 1)
    return false;
  for (size_t d = 0; d <= last; ++d)
    if (!eights(p, store.at[d], Coordinate::Column, d == last) ||
        (!dense && d < last && layout.strides[d] && *layout.strides[d] % 2))
      return false;
  return true;
}

void pairUp(const Program &p, Stage &stage, Variant &variant) {
  // A variant that fits always saves the program another one.
  const bool fitsAlways = variant.capability == 80 && !variant.mostRows && variant.aligned.empty();
  for (Store &store : stage.stores) {
    const bool isResult = p.buffers[size_t(store.buffer)].role == Buffer::Role::Result;
    store.pairs = !(isResult && fitsAlways) && storedInPairs(p, store, stage.columns);
    if (store.pairs && isResult)
      variant.aligned.push_back(store.buffer);
  }
}

bool runsAcross(const Program &p, int value, Coordinate own) {
  bool across = false, along = false;
  auto look = [&](auto &&self, int from) -> void {
    const Value &x = p.values[from];
    if (x.form == Value::Form::Load && !x.operands.empty() && depends(p, from, own) &&
        depends(p, from, Coordinate::Depth)) { // of what is packed, the columns of a tile are side by side
      const bool packed = p.buffers[size_t(x.integer)].layout.packed;
      (depends(p, *(x.operands.rbegin() + packed), own) ? across : along) = true;
    }
    for (int operand : x.operands)
      self(self, operand);
  };
  look(look, value);
  return across && !along;
}

/// Nothing: it must be staged.
std::optional<Operand> direct(const Program &p, int value, Coordinate own, Variant &variant) {
  // Warp groups multiply rows that are side by side, as they do columns.
  const bool across = own == Coordinate::Column || variant.capability > 80;
  const Value &x = p.values[value];
  if (x.form != Value::Form::Load)
    return std::nullopt;
  const Buffer &buffer = p.buffers[size_t(x.integer)];
  if (buffer.storage != Storage::BF16 || buffer.dims.empty())
    return std::nullopt;
  auto together = [&](Coordinate along, size_t inner) {
    for (size_t d = 0; d < x.operands.size(); ++d)
      if (!eights(p, x.operands[d], along, d == inner))
        return false;
    return true;
  };
  size_t last = buffer.dims.size() - 1;
  if (buffer.layout.packed) {
    const Value &at = p.values[x.operands[last - 1]];
    bool plain = at.form == Value::Form::Coordinate && at.integer == int64_t(own);
    if (own != Coordinate::Column || !plain || buffer.layout.tile % 8 || !together(own, last - 1))
      return std::nullopt;
    return Operand{int(x.integer), x.operands, false};
  }
  if (buffer.layout.strides[last] != 1)
    return std::nullopt;
  for (size_t d = 0; d < last; ++d)
    if (buffer.layout.strides[d] && *buffer.layout.strides[d] % 8)
      return std::nullopt;
  bool inner = together(Coordinate::Depth, last);
  // Columns side by side are whole eights, so that no copy leaves its row.
  bool outer = across && together(own, last) && buffer.dims[last].fixed().value_or(1) % 8 == 0;
  if (!inner && !outer)
    return std::nullopt;
  variant.aligned.push_back(int(x.integer));
  return Operand{int(x.integer), x.operands, inner};
}

} // namespace quern::codegen::tile
