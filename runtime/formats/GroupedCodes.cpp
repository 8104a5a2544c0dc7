// Takes: codes and scales of groups from a checkpoint's table of tensors. Gives: the tensor that they stand for.
// Why blocks are put together again: a group that is decoded and encoded anew can get another scale, and a program shall
// compute with the very codes that the file has.
#include "runtime/formats/GroupedCodes.h"

#include "runtime/Error.h"
#include "runtime/formats/BlockFormat.h"
#include "support/CodedGroups.h"
#include "support/numbers/SmallFloats.h"

#include <algorithm>
#include <cstring>

namespace quern::runtime {

using support::codedGroup;
using support::Storage;

namespace {

constexpr std::string_view ending = ".scales";

struct GroupedCodes : TensorReader {
  StoredTensor codes, scales;
  int64_t length = 1, after = 1; // of the grouped dimension; elements between two neighbours along it
  bool wide = true;              // codes of 8 bits

  const char *type() const override { return wide ? "int8" : "int4"; }

  int codeAt(int64_t before, int64_t i, int64_t behind) const {
    if (wide)
      return int8_t(codes.data[(before * length + i) * after + behind]);
    return (codes.data[(before * ((length + 1) / 2) + i / 2) * after + behind] >> i % 2 * 4 & 15) - 8;
  }
  const uint8_t *scaleAt(int64_t before, int64_t i, int64_t behind) const {
    const int64_t groups = (length + codedGroup - 1) / codedGroup;
    return scales.data + 2 * ((before * groups + i / codedGroup) * after + behind);
  }

  void read(int64_t first, int64_t count, float *to) const override {
    for (int64_t at = first; at < first + count; ++at) {
      const int64_t before = at / (after * length), i = at / after % length, behind = at % after;
      uint16_t scale;
      std::memcpy(&scale, scaleAt(before, i, behind), 2);
      *to++ = support::halfToFloat(scale) * float(codeAt(before, i, behind));
    }
  }

  const uint8_t *block(std::string_view format, int64_t first, int64_t stride, int64_t count,
                       uint8_t *room) const override {
    const int64_t before = first / (after * length), i = first / after % length, behind = first % after;
    const int bits = format == "Q8_0" ? 8 : format == "Q4_0" ? 4 : 0; // codes of 4 bits may be asked for in 8
    if (bits < (wide ? 8 : 4) || (stride != after && count > 1) || i % codedGroup ||
        count != std::min(codedGroup, length - i))
      return nullptr;
    uint16_t scale;
    std::memcpy(&scale, scaleAt(before, i, behind), 2);
    joinGroup(scale, bits, [&](int64_t k) { return k < count ? codeAt(before, i + k, behind) : 0; }, room);
    return room;
  }
};

bool fits(const StoredTensor &codes, const StoredTensor &scales, const std::vector<int64_t> &shape, size_t axis) {
  const Storage storage = codes.dtype == Dtype::I8 ? Storage::Int8 : Storage::Int4;
  return codes.shape == shapeOfCodes(shape, axis, storage) && scales.shape == shapeOfScales(shape, axis);
}

} // namespace

std::vector<int64_t> shapeOfCodes(std::vector<int64_t> shape, size_t axis, Storage storage) {
  if (storage == Storage::Int4)
    shape[axis] = shape[axis] / 2 + shape[axis] % 2;
  return shape;
}

std::vector<int64_t> shapeOfScales(std::vector<int64_t> shape, size_t axis) {
  shape[axis] = shape[axis] / codedGroup + (shape[axis] % codedGroup != 0);
  return shape;
}

bool isScalesOfGroups(const std::map<std::string, StoredTensor> &tensors, const std::string &name) {
  if (!name.ends_with(ending))
    return false;
  auto codes = tensors.find(name.substr(0, name.size() - ending.size()));
  return codes != tensors.end() && (codes->second.dtype == Dtype::I8 || codes->second.dtype == Dtype::U8);
}

void joinGroupedCodes(std::map<std::string, StoredTensor> &tensors, const std::string &name) {
  const std::string stem = name.substr(0, name.size() - ending.size());
  auto reader = std::make_shared<GroupedCodes>();
  reader->codes = tensors.at(stem);
  reader->scales = tensors.extract(name).mapped();
  reader->wide = reader->codes.dtype == Dtype::I8;
  auto fail = [&](const char *reason) {
    throw UserError(reader->codes.file->name() + ": tensor " + quote(stem) + " " + reason);
  };
  std::vector<int64_t> shape = reader->codes.shape;
  if (!reader->wide) {
    auto stored = tensors.extract(stem + ".shape");
    if (stored.empty() || stored.mapped().dtype != Dtype::I64 || stored.mapped().elements() != int64_t(shape.size()))
      fail("has codes of 4 bits, but no .shape (I64, a length for each dimension) beside it");
    toLong(stored.mapped(), 0, int64_t(shape.size()), shape.data());
  }
  if (!reader->codes.bytes)
    fail("has no numbers");
  size_t axis = 0;
  while (axis < shape.size() && !fits(reader->codes, reader->scales, shape, axis))
    ++axis;
  if (axis == shape.size() || reader->scales.dtype != Dtype::F16)
    fail("does not fit its .scales: F16 with one for each 32 along one dimension are needed; quern quantize writes "
         "both");
  reader->length = shape[axis];
  for (size_t d = axis + 1; d < shape.size(); ++d)
    reader->after *= shape[d];
  tensors.at(stem).readBy(std::move(reader), std::move(shape));
}

} // namespace quern::runtime
