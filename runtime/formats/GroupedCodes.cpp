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

using support::Storage;

namespace {

constexpr std::string_view ending = ".scales";

struct GroupedCodes : TensorReader {
  StoredTensor codes, scales;
  int64_t length = 1, after = 1; // of the grouped dimension; elements between two neighbours along it
  Storage storage = Storage::Int8;
  bool wide = true; // codes of 8 bits
  int64_t group = support::codedGroup;

  const char *type() const override { return support::storageName(storage); }

  int codeAt(int64_t before, int64_t i, int64_t behind) const {
    if (wide)
      return int8_t(codes.data[(before * length + i) * after + behind]);
    return (codes.data[(before * ((length + 1) / 2) + i / 2) * after + behind] >> i % 2 * 4 & 15) - 8;
  }
  const uint8_t *scaleAt(int64_t before, int64_t i, int64_t behind) const {
    const int64_t groups = (length + group - 1) / group;
    return scales.data + 2 * ((before * groups + i / group) * after + behind);
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
    const bool isLong = format == support::storageName(Storage::Int8G128);
    const int bits = isLong || format == "Q8_0" ? 8 : format == "Q4_0" ? 4 : 0; // codes of 4 bits may be asked for in 8
    const int64_t wanted = isLong ? support::longCodedGroup : support::codedGroup; // may be a part of a group
    if (bits < (wide ? 8 : 4) || (stride != after && count > 1) || i % wanted ||
        count != std::min(wanted, length - i) || i / group != (i + count - 1) / group)
      return nullptr;
    uint16_t scale;
    std::memcpy(&scale, scaleAt(before, i, behind), 2);
    joinGroup(scale, bits, [&](int64_t k) { return k < count ? codeAt(before, i + k, behind) : 0; }, room, wanted);
    return room;
  }
};

/// Where the groups are along `axis`.
bool fits(const GroupedCodes &parts, const std::vector<int64_t> &shape, size_t axis, Storage storage) {
  return parts.codes.shape == shapeOfCodes(shape, axis, storage) &&
         parts.scales.shape == shapeOfScales(shape, axis, storage);
}

} // namespace

std::vector<int64_t> shapeOfCodes(std::vector<int64_t> shape, size_t axis, Storage storage) {
  if (storage == Storage::Int4)
    shape[axis] = shape[axis] / 2 + shape[axis] % 2;
  return shape;
}

std::vector<int64_t> shapeOfScales(std::vector<int64_t> shape, size_t axis, Storage storage) {
  const int64_t group = support::groupOf(storage);
  shape[axis] = shape[axis] / group + (shape[axis] % group != 0);
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
  const std::vector<Storage> forms =
      reader->wide ? std::vector{Storage::Int8, Storage::Int8G128} : std::vector{Storage::Int4};
  size_t axis = shape.size();
  for (Storage storage : forms)
    for (size_t d = 0; d < shape.size() && axis == shape.size(); ++d)
      if (fits(*reader, shape, d, storage)) {
        axis = d;
        reader->storage = storage;
        reader->group = support::groupOf(storage);
      }
  if (axis == shape.size() || reader->scales.dtype != Dtype::F16)
    fail("does not fit its .scales: F16 with one for each 32 along one dimension are needed, of 8 bits perhaps one for "
         "each 128; quern quantize writes both");
  reader->length = shape[axis];
  for (size_t d = axis + 1; d < shape.size(); ++d)
    reader->after *= shape[d];
  tensors.at(stem).readBy(std::move(reader), std::move(shape));
}

} // namespace quern::runtime
