// Takes: the tensors of a checkpoint and their forms. Gives: a safetensors file, and what rounding cost.
// Why the loader makes the codes: they are then those that a program would have made, whatever the checkpoint's format.
#include "tools/quantize/QuantizedFile.h"

#include "runtime/formats/ByteFloats.h"
#include "runtime/formats/GroupedCodes.h"
#include "runtime/formats/PackedTensors.h"
#include "runtime/formats/SuperWords.h"
#include "runtime/machine/Terminal.h"
#include "runtime/machine/ThreadPool.h"
#include "runtime/weights/Weights.h"
#include "support/CodedGroups.h"
#include "support/OutputFile.h"
#include "tools/quantize/WeightedRounding.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace quern::runtime;

namespace quern::tools {
namespace {

/// A table of one tensor.
class OneTensor : public TensorSource {
public:
  OneTensor(std::string name, StoredTensor tensor) : name(std::move(name)), tensor(std::move(tensor)) {}
  const std::string &path() const override { return tensor.file->name(); }
  std::vector<std::string> names() const override { return {name}; }
  const StoredTensor *find(const std::string &wanted) const override { return wanted == name ? &tensor : nullptr; }

private:
  std::string name;
  StoredTensor tensor;
};

std::unique_ptr<Weights> laidOut(const StoredForm &form, const WeightLayout &layout) {
  Description description;
  description.parameters.push_back({{form.name}, form.source->shape, ""});
  description.slots.push_back({{{0}}, {layout}});
  return Weights::load(description, std::make_unique<OneTensor>(form.name, *form.source));
}

/// A tensor in the forms that the file has.
struct Stored {
  std::vector<OutputTensor> parts; ///< whose data is below, or in the source
  std::vector<uint8_t> codes;
  std::vector<uint16_t> scales;
  std::vector<float> wideScales;
  std::vector<int64_t> shape;
};

/// The names, types and shapes alone.
std::vector<OutputTensor> partsOf(const StoredForm &form) {
  const std::vector<int64_t> &shape = form.source->shape;
  if (isNarrow(form.storage))
    return {{form.name, form.storage == Storage::BF16 ? Dtype::BF16 : Dtype::F16, shape, nullptr}};
  if (!bitsOfCode(form.storage))
    return {{form.name, form.source->reader ? Dtype::F32 : form.source->dtype, shape, nullptr}};
  if (superBlocksOf(form.storage))
    return {{form.name, Dtype::U32, shapeOfWords(shape, form.axis, form.storage), nullptr},
            {form.name + ".shape",
             Dtype::I64,
             {int64_t(shapeBesideWords(shape, form.axis, form.storage).size())},
             nullptr}};
  if (floatCodesOf(form.storage))
    return {{form.name, dtypeOfCodes(form.storage), shape, nullptr},
            {form.name + "_scale", Dtype::F32, shapeOfFloatScales(shape, form.axis), nullptr}};
  std::vector<OutputTensor> parts = {
      {form.name, bitsOfCode(form.storage) == 8 ? Dtype::I8 : Dtype::U8, shapeOfCodes(shape, form.axis, form.storage),
       nullptr},
      {form.name + ".scales", Dtype::F16, shapeOfScales(shape, form.axis, form.storage), nullptr}};
  if (form.storage == Storage::Int4)
    parts.push_back({form.name + ".shape", Dtype::I64, {int64_t(shape.size())}, nullptr});
  return parts;
}

/// Codes and scales in the order of the tensor: of rows along the grouped dimension.
class CodedRows {
public:
  CodedRows(const StoredForm &form, Stored &stored)
      : stored(stored), group(support::groupOf(form.storage)), wide(bitsOfCode(form.storage) == 8) {
    const std::vector<int64_t> &shape = form.source->shape;
    length = shape[form.axis];
    for (size_t d = form.axis + 1; d < shape.size(); ++d)
      after *= shape[d];
    groups = (length + group - 1) / group;
    rows = form.source->elements() / length;
  }
  int64_t length = 1, after = 1, groups = 1, rows = 1;
  /// Where a group begins, and how many numbers it has.
  std::pair<int64_t, int64_t> rangeOf(int64_t g) const { return {g * group, std::min(group, length - g * group)}; }

  int64_t rowOf(int64_t element) const { return element / (after * length) * after + element % after; }
  int64_t element(int64_t row, int64_t i) const { return (row / after * length + i) * after + row % after; }
  uint16_t &scale(int64_t row, int64_t g) const {
    return stored.scales[size_t((row / after * groups + g) * after + row % after)];
  }
  int8_t code(int64_t row, int64_t i) const {
    const uint8_t stands = byte(row, i);
    return wide ? int8_t(stands) : int8_t((stands >> i % 2 * 4 & 15) - 8);
  }
  void setCode(int64_t row, int64_t i, int8_t code) const {
    uint8_t &to = byte(row, i);
    to = wide ? uint8_t(code) : uint8_t((to & (i % 2 ? 15 : 240)) | (code + 8) << i % 2 * 4);
  }

private:
  Stored &stored;
  int64_t group;
  bool wide;
  uint8_t &byte(int64_t row, int64_t i) const {
    const int64_t at = wide ? element(row, i) : (row / after * ((length + 1) / 2) + i / 2) * after + row % after;
    return stored.codes[size_t(at)];
  }
};

/// From where kernels read them (support/CodedGroups.h).
void unpack(const PackedLayout &layout, const uint8_t *packed, const CodedRows &to) {
  const bool wide = bitsOfCode(layout.storage) == 8;
  const int64_t each = support::bytesOf(layout.storage, support::groupOf(layout.storage)) * layout.tile;
  for (int64_t o = 0; o < layout.outer; ++o) {
    const int64_t row = to.rowOf(layout.offset + o * layout.outerStride), within = o % layout.tile;
    const uint8_t *group = packed + o / layout.tile * layout.tileBytes();
    for (int64_t g = 0; g < to.groups; ++g, group += each) {
      to.scale(row, g) = uint16_t(group[within] | group[layout.tile + within] << 8);
      const uint8_t *codes = group + 2 * layout.tile + within * 4;
      const auto [first, count] = to.rangeOf(g);
      for (int64_t k = 0; k < count; ++k) {
        if (wide)
          to.setCode(row, first + k, int8_t(codes[k / 4 * 4 * layout.tile + k % 4] ^ 0x80));
        else
          to.setCode(row, first + k, int8_t((codes[k / 8 * 4 * layout.tile + k % 4] >> k % 8 / 4 * 4 & 15) - 8));
      }
    }
  }
}

/// What stands at a place along the grouped dimension, of so many, in the row that `before` and `behind` it say: its index in the order
/// of the tensor.
struct RowOfTensor {
  int64_t before, behind, after;
  size_t at(int64_t place, int64_t count) const { return size_t((before * count + place) * after + behind); }
};

/// Calls `take` with the tile's bytes from a row's first on, the tile's rows and where the row is in the tensor, for each row along the
/// grouped dimension. `beside`: bytes of a row beside those of its neighbours.
template <typename Take> void eachPackedRow(const StoredForm &form, int64_t beside, const Take &take) {
  const std::vector<int64_t> &shape = form.source->shape;
  int64_t after = 1;
  for (size_t d = form.axis + 1; d < shape.size(); ++d)
    after *= shape[d];
  for (const PackedLayout &layout : form.layouts) {
    const std::unique_ptr<Weights> laid = laidOut(form, layout);
    const uint8_t *packed = static_cast<const uint8_t *>(laid->pieces()[0].data);
    for (int64_t o = 0; o < layout.outer; ++o) {
      const int64_t first = layout.offset + o * layout.outerStride;
      take(packed + o / layout.tile * layout.tileBytes() + o % layout.tile * beside, layout.tile,
           RowOfTensor{first / (after * shape[form.axis]), first % after, after});
    }
  }
}

/// Words of super-blocks in the order of the tensor, from where kernels read them.
Stored inSuperBlocks(const StoredForm &form) {
  Stored stored;
  stored.parts = partsOf(form);
  stored.codes.resize(size_t(stored.parts[0].bytes()));
  stored.shape = shapeBesideWords(form.source->shape, form.axis, form.storage);
  const int64_t words = stored.parts[0].shape[form.axis];
  eachPackedRow(form, 4, [&](const uint8_t *from, int64_t tile, const RowOfTensor &row) {
    for (int64_t w = 0; w < words; ++w)
      std::memcpy(&stored.codes[row.at(w, words) * 4], from + w * tile * 4, 4);
  });
  stored.parts[0].data = stored.codes.data();
  stored.parts[1].data = stored.shape.data();
  return stored;
}

/// Floats of one byte and their scales in the order of the tensor, from where kernels read them.
Stored inFloats(const StoredForm &form) {
  Stored stored;
  stored.parts = partsOf(form);
  stored.codes.resize(size_t(stored.parts[0].bytes()));
  stored.wideScales.resize(size_t(stored.parts[1].bytes() / 4));
  const int64_t length = form.source->shape[form.axis], groups = stored.parts[1].shape[form.axis];
  const float unit = floatCodesOf(form.storage)->unit;
  eachPackedRow(form, 1, [&](const uint8_t *from, int64_t tile, const RowOfTensor &row) {
    for (int64_t g = 0; g < groups; ++g, from += bytesOfFloatGroup * tile) {
      uint8_t scale[4];
      for (int64_t i = 0; i < 4; ++i)
        scale[i] = from[i * tile];
      float value;
      std::memcpy(&value, scale, 4);
      stored.wideScales[row.at(g, groups)] = value / unit;
      const int64_t first = g * support::floatGroup, count = std::min<int64_t>(support::floatGroup, length - first);
      for (int64_t i = 0; i < count; ++i)
        stored.codes[row.at(first + i, length)] = from[(4 + i) * tile];
    }
  });
  stored.parts[0].data = stored.codes.data();
  stored.parts[1].data = stored.wideScales.data();
  return stored;
}

/// Each group anew, where some of its numbers count more than others.
void roundByImportance(const StoredForm &form, const CodedRows &rows) {
  const std::vector<float> numbers = numbersOf(*form.source), &importance = *form.importance;
  const float least = 1e-6f * *std::max_element(importance.begin(), importance.end()); // no number counts nothing
  constexpr int64_t chunk = 64;
  ThreadPool::instance().forEach(int((rows.rows + chunk - 1) / chunk), [&](int number) {
    for (int64_t row = number * chunk; row < std::min(rows.rows, (number + 1) * chunk); ++row)
      for (int64_t g = 0; g < rows.groups; ++g) {
        const auto [first, count] = rows.rangeOf(g);
        float own[support::longCodedGroup], weights[support::longCodedGroup];
        RoundedGroup group{rows.scale(row, g)};
        for (int64_t k = 0; k < count; ++k) {
          own[k] = numbers[size_t(rows.element(row, first + k))];
          weights[k] = std::max(importance[size_t(first + k)], least);
          group.codes[k] = rows.code(row, first + k);
        }
        group = roundWeighted(group, own, weights, count, form.storage);
        rows.scale(row, g) = group.scale;
        for (int64_t k = 0; k < count; ++k)
          rows.setCode(row, first + k, group.codes[k]);
      }
  });
}

Stored coded(const StoredForm &form) {
  Stored stored;
  stored.parts = partsOf(form);
  stored.codes.resize(size_t(stored.parts[0].bytes()));
  stored.scales.resize(size_t(stored.parts[1].bytes() / 2));
  CodedRows rows(form, stored);
  for (const PackedLayout &layout : form.layouts)
    unpack(layout, static_cast<const uint8_t *>(laidOut(form, layout)->pieces()[0].data), rows);
  if (form.importance && int64_t(form.importance->size()) == rows.length)
    roundByImportance(form, rows);
  stored.shape = form.source->shape;
  const void *data[] = {stored.codes.data(), stored.scales.data(), stored.shape.data()};
  for (size_t i = 0; i < stored.parts.size(); ++i)
    stored.parts[i].data = data[i];
  return stored;
}

/// The tensor that a reader makes of what is stored.
StoredTensor readBack(const Stored &stored, const StoredForm &form) {
  std::map<std::string, StoredTensor> table;
  for (const OutputTensor &part : stored.parts)
    table[part.name] = {part.dtype, part.shape, static_cast<const uint8_t *>(part.data), part.bytes(),
                        form.source->file};
  joinPackedTensors(table);
  return table.at(form.name);
}

double relativeError(const StoredTensor &numbers, const StoredTensor &rounded) {
  constexpr int64_t chunk = 1 << 18;
  const int64_t count = numbers.elements(), chunks = (count + chunk - 1) / chunk;
  std::vector<double> squares(static_cast<size_t>(chunks)), differences(static_cast<size_t>(chunks));
  ThreadPool::instance().forEach(int(chunks), [&](int number) {
    const int64_t first = number * chunk, length = std::min(chunk, count - first);
    std::vector<float> exact(static_cast<size_t>(length)), near(static_cast<size_t>(length));
    toFloat(numbers, first, length, exact.data());
    toFloat(rounded, first, length, near.data());
    double square = 0, difference = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      square += double(exact[i]) * exact[i];
      difference += (double(near[i]) - exact[i]) * (double(near[i]) - exact[i]);
    }
    squares[size_t(number)] = square;
    differences[size_t(number)] = difference;
  });
  double square = 0, difference = 0; // in the order of the chunks: the same for any number of threads
  for (int64_t i = 0; i < chunks; ++i) {
    square += squares[size_t(i)];
    difference += differences[size_t(i)];
  }
  return square > 0 ? std::sqrt(difference / square) : 0;
}

/// A tensor in F32 that the checkpoint has in a format of its own.
void writeDecoded(OutputFile &file, const StoredTensor &tensor) {
  std::vector<float> numbers(1 << 18);
  for (int64_t first = 0, count; first < tensor.elements(); first += count) {
    count = std::min(int64_t(numbers.size()), tensor.elements() - first);
    toFloat(tensor, first, count, numbers.data());
    file.write(numbers.data(), size_t(count) * 4);
  }
}

} // namespace

uint64_t fileBytes(const StoredForm &form) {
  uint64_t bytes = 0;
  for (const OutputTensor &part : partsOf(form))
    bytes += part.bytes();
  return bytes;
}

std::vector<QuantizedTensor> writeQuantized(const std::string &path, const std::vector<StoredForm> &forms) {
  std::vector<OutputTensor> all;
  double total = 0;
  for (const StoredForm &form : forms) {
    std::vector<OutputTensor> parts = partsOf(form);
    all.insert(all.end(), parts.begin(), parts.end());
    total += double(form.source->bytes);
  }
  std::vector<QuantizedTensor> result;
  OutputFile file(path);
  file.write(safetensorsHeader(all));
  Progress progress("quantising", total);
  for (const StoredForm &form : forms) {
    QuantizedTensor tensor{form, fileBytes(form)};
    if (form.storage == Storage::F32) {
      if (form.source->reader)
        writeDecoded(file, *form.source);
      else
        file.write(form.source->data, form.source->bytes);
    } else {
      std::unique_ptr<Weights> narrow; // holds what is written
      Stored stored;
      if (isNarrow(form.storage)) {
        narrow = laidOut(form, NarrowLayout{form.storage});
        stored.parts = partsOf(form);
        stored.parts[0].data = narrow->pieces()[0].data;
      } else {
        stored = superBlocksOf(form.storage)  ? inSuperBlocks(form)
                 : floatCodesOf(form.storage) ? inFloats(form)
                                              : coded(form);
      }
      for (const OutputTensor &part : stored.parts)
        file.write(part.data, part.bytes());
      tensor.error = relativeError(*form.source, readBack(stored, form));
    }
    if (form.source->data)
      form.source->file->release(form.source->data, form.source->bytes);
    result.push_back(std::move(tensor));
    progress.add(double(form.source->bytes));
  }
  file.commit();
  return result;
}

} // namespace quern::tools
