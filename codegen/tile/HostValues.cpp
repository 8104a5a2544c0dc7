// Takes: a value of a tile program and where its stage stands. Gives: the number, and where elements are in memory.
#include "codegen/tile/HostValues.h"

#include "support/numbers/SmallFloats.h"
#include "support/numbers/SuperWords.h"

#include <bit>
#include <cmath>
#include <stdexcept>

namespace quern::codegen::tile {

HostValues::HostValues(const Program &program, const std::map<std::string, int64_t> &lengths,
                       std::vector<HostBuffer> given)
    : p(program), lengths(lengths), buffers(std::move(given)), numbers(program.values.all.size()),
      stamps(program.values.all.size()) {
  for (size_t i = buffers.size(); i < p.buffers.size(); ++i) {
    HostBuffer buffer;
    int64_t count = 1;
    const std::vector<Dim> &dims = p.buffers[i].dims;
    buffer.strides.resize(dims.size());
    for (size_t d = dims.size(); d-- > 0;) {
      buffer.strides[d] = count;
      count *= d + 1 == dims.size() ? (size(dims[d].size) + 7) / 8 * 8 : size(dims[d].size);
    }
    scratch.emplace_back(size_t(count) * 4, 0xff);
    buffer.memory = scratch.back().data();
    buffers.push_back(std::move(buffer));
  }
}

int64_t HostValues::size(const ir::Size &of) const {
  return of.evaluate([&](const std::string &name) { return lengths.at(name); });
}

void HostValues::stand(int64_t row, int64_t column, int64_t matrix, int64_t depth) {
  at[0] = row, at[1] = column, at[2] = matrix, at[3] = depth, ++stamp;
}
/// Where the element is, in elements of the buffer.
int64_t HostValues::offset(int buffer, const std::vector<int> &positions) {
  const Buffer &b = p.buffers[size_t(buffer)];
  size_t rank = positions.size();
  int64_t sum = 0;
  if (!b.layout.packed) {
    for (size_t d = 0; d < rank; ++d)
      sum += int64_t(get(positions[d])) * buffers[size_t(buffer)].strides[d];
    return sum;
  }
  for (size_t d = 0; d + 2 < rank; ++d)
    sum = sum * size(b.dims[d].size) + int64_t(get(positions[d]));
  int64_t tile = b.layout.tile, rows = size(b.dims[rank - 2].size), n = int64_t(get(positions[rank - 2]));
  sum = sum * ((rows + tile - 1) / tile) + n / tile;
  return (sum * size(b.dims[rank - 1].size) + int64_t(get(positions[rank - 1]))) * tile + n % tile;
}
double HostValues::load(int buffer, const std::vector<int> &positions) {
  const Buffer &b = p.buffers[size_t(buffer)];
  const void *memory = buffers[size_t(buffer)].memory;
  if (const support::SuperBlocks *form = support::superBlocksOf(b.storage))
    return superCode(b, *form, static_cast<const uint32_t *>(memory), positions);
  if (bitsOfCode(b.storage))
    return code(b, static_cast<const uint8_t *>(memory), positions);
  int64_t i = offset(buffer, positions);
  switch (b.storage) {
  case Storage::F32:
    return static_cast<const float *>(memory)[i];
  case Storage::I32:
    return static_cast<const int32_t *>(memory)[i];
  case Storage::BF16:
    return support::bf16ToFloat(static_cast<const uint16_t *>(memory)[i]);
  case Storage::F16:
    return support::halfToFloat(static_cast<const uint16_t *>(memory)[i]);
  case Storage::I8:
    return static_cast<const int8_t *>(memory)[i];
  default:
    return static_cast<const uint8_t *>(memory)[i];
  }
}
/// support/CodedGroups.h has the layout.
double HostValues::code(const Buffer &b, const uint8_t *memory, const std::vector<int> &positions) {
  size_t rank = positions.size();
  int bits = bitsOfCode(b.storage);
  const int64_t length = support::groupOf(b.storage);
  int64_t tile = b.layout.tile, groups = (size(b.dims[rank - 1].size) + length - 1) / length, index = 0;
  for (size_t d = 0; d + 2 < rank; ++d)
    index = index * size(b.dims[d].size) + int64_t(get(positions[d]));
  int64_t n = int64_t(get(positions[rank - 2])), k = int64_t(get(positions[rank - 1]));
  index = (index * ((size(b.dims[rank - 2].size) + tile - 1) / tile) + n / tile) * groups + k / length;
  const uint8_t *group = memory + index * tile * support::bytesOf(b.storage, length);
  int64_t row = n % tile, each = support::codesInStep(bits), in = k % length;
  if (const support::FloatCodes *form = support::floatCodesOf(b.storage)) {
    uint32_t scale = 0;
    for (int i = 0; i < 4; ++i)
      scale |= uint32_t(group[i * tile + row]) << 8 * i;
    return std::bit_cast<float>(scale) * support::halfToFloat(halfOfCode(*form, group[(4 + in) * tile + row]));
  }
  float scale = support::halfToFloat(uint16_t(group[row] | group[tile + row] << 8));
  uint8_t byte = group[2 * tile + (in / each * tile + row) * 4 + in % 4];
  return scale * (bits == 8 ? byte - 128 : (in % 8 / 4 ? byte >> 4 : byte & 15) - 8);
}
double HostValues::superCode(const Buffer &b, const support::SuperBlocks &form, const uint32_t *words,
                             const std::vector<int> &positions) {
  size_t rank = positions.size();
  int64_t tile = b.layout.tile, block = form.length, index = 0;
  for (size_t d = 0; d + 2 < rank; ++d)
    index = index * size(b.dims[d].size) + int64_t(get(positions[d]));
  int64_t n = int64_t(get(positions[rank - 2])), k = int64_t(get(positions[rank - 1]));
  index = index * ((size(b.dims[rank - 2].size) + tile - 1) / tile) + n / tile;
  index = index * ((size(b.dims[rank - 1].size) + block - 1) / block) + k / block;
  auto word = [&](int64_t number) { return words[(index * form.words() + number) * tile + n % tile]; };
  const int within = int(k % block);
  const support::SuperLevels levels = support::superLevelsIn(form, word, within);
  return double(float(double(levels.scale) * support::superCodeIn(form, word, within) - double(levels.minimum)));
}
void HostValues::store(const Store &store) {
  int64_t i = offset(store.buffer, store.at);
  double value = get(store.value);
  void *memory = buffers[size_t(store.buffer)].memory;
  switch (p.buffers[size_t(store.buffer)].storage) {
  case Storage::F32:
    static_cast<float *>(memory)[i] = float(value);
    break;
  case Storage::I32:
    static_cast<int32_t *>(memory)[i] = int32_t(value);
    break;
  case Storage::BF16:
    static_cast<uint16_t *>(memory)[i] = support::floatToBF16(float(value));
    break;
  case Storage::I8:
    static_cast<int8_t *>(memory)[i] = int8_t(value);
    break;
  default:
    static_cast<uint8_t *>(memory)[i] = value != 0;
  }
}
double HostValues::get(int value) {
  if (stamps[size_t(value)] != stamp) {
    numbers[size_t(value)] = compute(p.values[value]);
    stamps[size_t(value)] = stamp;
  }
  return numbers[size_t(value)];
}
static double applied(const Value &v, double a, double b) {
  switch (v.op) {
  case Op::Neg:
    return -a;
  case Op::Abs:
    return std::fabs(a);
#define QUERN_REAL_FUNCTION(NAME, WORD, VALUE)                                                                         \
  case Op::NAME:                                                                                                       \
    return [](double x) -> double { return VALUE; }(a);
    QUERN_REAL_FUNCTIONS(QUERN_REAL_FUNCTION)
  case Op::Floor:
    return std::floor(a);
  case Op::Ceil:
    return std::ceil(a);
  case Op::Round:
    return std::rint(a);
  case Op::ToInt:
    return std::trunc(a);
  case Op::Narrow:
    return support::bf16ToFloat(support::floatToBF16(float(a)));
  case Op::Not:
    return a == 0;
  case Op::Add:
    return a + b;
  case Op::Sub:
    return a - b;
  case Op::Mul:
    return a * b;
  case Op::Div:
    return a / b;
  case Op::FloorDiv:
    return b == 0 ? 0 : std::floor(a / b);
  case Op::Mod:
    return b == 0 ? a : a - std::floor(a / b) * b;
  case Op::Pow:
    return std::pow(a, b);
  case Op::Max:
    return std::max(a, b);
  case Op::Min:
    return std::min(a, b);
  case Op::And:
    return a != 0 && b != 0;
  case Op::Or:
    return a != 0 || b != 0;
  case Op::Compare: {
    const bool holds[] = {a<b, a <= b, a> b, a >= b, a == b, a != b};
    return holds[int(v.predicate)];
  }
  case Op::ToReal:
    return a;
  default:
    throw std::logic_error("a tile program has an operation without a value");
  }
}

double HostValues::compute(const Value &v) {
  switch (v.form) {
  case Value::Form::Number:
    return v.kind == Kind::Real ? double(float(v.real)) : double(v.integer);
  case Value::Form::Coordinate:
    return double(at[v.integer]);
  case Value::Form::Length:
    return double(size(v.size));
  case Value::Form::Table:
    return float(v.numbers[size_t(get(v.operands[0]))]);
  case Value::Form::Load:
    return load(int(v.integer), v.operands);
  case Value::Form::Sum:
    return v.operands.empty() ? sums[size_t(v.integer)] : sumsOfRow[size_t(get(v.operands[0]))];
  case Value::Form::Statistic:
    return statistics[size_t(v.integer)];
  default:
    break;
  }
  if (v.op == Op::Where)
    return get(v.operands[get(v.operands[0]) != 0 ? 1 : 2]);
  double a = get(v.operands[0]), b = v.operands.size() > 1 ? get(v.operands[1]) : 0, result = applied(v, a, b);
  return v.kind == Kind::Real ? double(float(result)) : result;
}

} // namespace quern::codegen::tile
