// Takes: floats of one byte and their scales from a checkpoint's table of tensors. Gives: the tensor that they stand for, and groups of
// the same codes.
#include "runtime/formats/ByteFloats.h"

#include "runtime/Error.h"
#include "support/numbers/SmallFloats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

namespace quern::runtime {

using support::floatGroup;
using support::Storage;

namespace {

struct ByteFloats : TensorReader {
  /// A dimension: `shared` neighbours along it have one scale.
  struct Along {
    int64_t length, stride, shared, scaleStride;
  };
  StoredTensor codes;
  Storage storage = Storage::F8E4M3;
  std::vector<float> scales; // none: 1
  std::vector<Along> dims;   // the last first

  const support::FloatCodes &form() const { return *floatCodesOf(storage); }
  const char *type() const override { return dtypeName(codes.dtype); }

  float scaleAt(int64_t element) const {
    int64_t index = 0;
    for (const Along &dim : dims)
      index += element / dim.stride % dim.length / dim.shared * dim.scaleStride;
    return scales.empty() ? 1 : scales[size_t(index)];
  }

  void read(int64_t first, int64_t count, float *to) const override {
    const Along row = dims.empty() ? Along{1, 1, 1, 1} : dims[0];
    for (int64_t at = first, end = first + count; at < end;) {
      const int64_t within = at % row.length,
                    run = std::min({end - at, row.length - within, row.shared - within % row.shared});
      const float scale = scaleAt(at);
      for (int64_t i = 0; i < run; ++i)
        *to++ = support::numberOfCode(form(), codes.data[at + i]) * scale;
      at += run;
    }
  }

  /// A group is what has one scale, along whatever dimension. One with a code of NaN is NaN as a whole: so are then all sums that
  /// it is part of, as they were with one such number, and kernels need not look for it.
  const uint8_t *block(std::string_view format, int64_t first, int64_t stride, int64_t count,
                       uint8_t *room) const override {
    if (format != support::storageName(storage) || count > floatGroup)
      return nullptr;
    for (const Along &dim : dims) {
      const int64_t at = first / dim.stride % dim.length;
      if (dim.stride != stride || dim.length == 1)
        continue;
      if (at + count > dim.length || at / dim.shared != (at + count - 1) / dim.shared)
        return nullptr;
      return group(first, stride, count, room);
    }
    return count == 1 ? group(first, stride, count, room) : nullptr;
  }

  const uint8_t *group(int64_t first, int64_t stride, int64_t count, uint8_t *room) const {
    float scale = scaleAt(first);
    if (!inUnits(scale))
      return nullptr;
    scale *= form().unit;
    std::memset(room, 0, size_t(bytesOfFloatGroup));
    for (int64_t i = 0; i < count; ++i) {
      const uint8_t code = codes.data[first + i * stride];
      if (isNaNOfCodes(form(), code))
        scale = std::numeric_limits<float>::quiet_NaN();
      room[4 + i] = code;
    }
    std::memcpy(room, &scale, 4);
    return room;
  }

  const char *heldBy() const override {
    return std::all_of(scales.begin(), scales.end(), [&](float scale) { return inUnits(scale); })
               ? support::storageName(storage)
               : nullptr;
  }

  /// Whether the scale times the unit is exact: no number becomes infinite.
  bool inUnits(float scale) const { return !std::isfinite(scale) || std::isfinite(scale * form().unit); }
};

/// How many neighbours share a scale if there are `scales` for a dimension of that length.
std::optional<int64_t> sharedBy(int64_t length, int64_t scales) {
  if (scales == 1)
    return std::max<int64_t>(length, 1);
  if (scales == length)
    return 1;
  return scales == (length + floatGroup - 1) / floatGroup ? std::optional<int64_t>(floatGroup) : std::nullopt;
}

/// Whether all numbers are codes times the scale.
bool isScaleOf(const support::FloatCodes &form, const float *numbers, int64_t count, float scale) {
  return std::all_of(numbers, numbers + count, [&](float x) {
    return support::numberOfCode(form, support::codeOfFloat(form, x / scale)) * scale == x;
  });
}

/// One that loses nothing, if there is any: then the largest number is one of the codes' mantissas times it, but for a rounding.
float scaleOf(const support::FloatCodes &form, const float *numbers, int64_t count, float largest) {
  const float usual = support::bf16ToFloat(support::floatToBF16(largest / form.most));
  if (!std::isfinite(usual))
    return std::numeric_limits<float>::quiet_NaN();
  if (usual == 0 || isScaleOf(form, numbers, count, usual))
    return usual;
  const int mantissas = 1 << (10 - form.shift);
  for (int mantissa = mantissas; mantissa < 2 * mantissas; ++mantissa) {
    float code = float(mantissa);
    while (2 * code <= form.most)
      code *= 2;
    for (uint32_t away : {0u, 1u, ~0u, 2u, ~1u})
      if (const float scale = std::bit_cast<float>(std::bit_cast<uint32_t>(largest / code) + away);
          isScaleOf(form, numbers, count, scale))
        return scale;
  }
  return usual;
}

} // namespace

void encodeFloatGroup(Storage storage, const float *numbers, int64_t count, uint8_t *to) {
  const support::FloatCodes &form = *floatCodesOf(storage);
  float largest = 0;
  for (int64_t i = 0; i < count; ++i)
    largest = std::isnan(numbers[i]) ? numbers[i] : std::max(largest, std::fabs(numbers[i])); // NaN stays
  const float scale = scaleOf(form, numbers, count, largest), inUnits = scale * form.unit;
  std::memset(to, 0, size_t(bytesOfFloatGroup));
  for (int64_t i = 0; i < count && scale > 0; ++i)
    to[4 + i] = support::codeOfFloat(form, numbers[i] / scale);
  std::memcpy(to, &inUnits, 4);
}

Dtype dtypeOfCodes(Storage storage) {
  return storage == Storage::F8E4M3 ? Dtype::F8_E4M3 : Dtype::F8_E5M2;
}

std::vector<int64_t> shapeOfFloatScales(std::vector<int64_t> shape, size_t axis) {
  shape[axis] = (shape[axis] + floatGroup - 1) / floatGroup;
  return shape;
}

void joinByteFloats(std::map<std::string, StoredTensor> &tensors, const std::string &name) {
  auto reader = std::make_shared<ByteFloats>();
  StoredTensor &tensor = tensors.at(name);
  reader->codes = tensor;
  reader->storage = tensor.dtype == dtypeOfCodes(Storage::F8E4M3) ? Storage::F8E4M3 : Storage::F8E5M2;
  const std::vector<int64_t> shape = tensor.shape;
  std::vector<int64_t> ofScales(shape.size(), 1);
  auto found = tensors.extract(name + "_scale_inv");
  if (found.empty())
    found = tensors.extract(name + "_scale");
  if (!found.empty()) {
    const StoredTensor &scales = found.mapped();
    const int64_t count = scales.elements();
    bool fits = isReal(scales.dtype) && count > 0 && (count == 1 || scales.shape.size() <= shape.size());
    for (size_t d = 0; fits && count > 1 && d < shape.size(); ++d) {
      ofScales[d] = d < scales.shape.size() ? scales.shape[d] : 1;
      fits = sharedBy(shape[d], ofScales[d]).has_value();
    }
    if (!fits)
      throw UserError(tensor.file->name() + ": tensor " + quote(name) + " of shape " + shapeText(shape) +
                      " has scales of shape " + shapeText(scales.shape) +
                      ": along each dimension one, one for each position or one for each 128 are needed");
    reader->scales.resize(size_t(count));
    toFloat(scales, 0, count, reader->scales.data());
  }
  int64_t stride = 1, scaleStride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    const int64_t length = std::max<int64_t>(shape[d], 1);
    reader->dims.push_back({length, stride, *sharedBy(shape[d], ofScales[d]), scaleStride});
    stride *= length;
    scaleStride *= ofScales[d];
  }
  tensor.readBy(std::move(reader), shape);
}

} // namespace quern::runtime
