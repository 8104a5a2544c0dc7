// Takes: words of super-blocks from a checkpoint's table of tensors. Gives: the tensor that they stand for.
// Why words and not GGUF's blocks: scales are counted in 8 bits here, in 6 bits there.
#include "runtime/formats/SuperWords.h"

#include "runtime/Error.h"
#include "support/numbers/SuperWords.h"

#include <algorithm>
#include <cstring>

namespace quern::runtime {

using support::Storage;
using support::SuperBlocks;

namespace {

constexpr std::string_view ending = ".shape";

struct SuperWords : TensorReader {
  StoredTensor words;
  Storage storage = Storage::Q4K;
  int64_t length = 1, after = 1; // of the dimension of super-blocks; elements between two neighbours along it

  const char *type() const override { return storageName(storage); }

  const SuperBlocks &form() const { return *superBlocksOf(storage); }

  uint32_t wordAt(int64_t before, int64_t block, int64_t word, int64_t behind) const {
    const int64_t blocks = (length + form().length - 1) / form().length;
    uint32_t found;
    std::memcpy(&found, words.data + 4 * (((before * blocks + block) * form().words() + word) * after + behind), 4);
    return found;
  }

  void read(int64_t first, int64_t count, float *to) const override {
    for (int64_t at = first; at < first + count; ++at) {
      const int64_t before = at / (after * length), i = at / after % length, behind = at % after;
      auto word = [&](int w) { return wordAt(before, i / form().length, w, behind); };
      const int within = int(i % form().length);
      const support::SuperLevels levels = superLevelsIn(form(), word, within);
      *to++ = levels.scale * float(superCodeIn(form(), word, within)) - levels.minimum;
    }
  }

  const uint8_t *block(std::string_view format, int64_t first, int64_t stride, int64_t count,
                       uint8_t *room) const override {
    const int64_t before = first / (after * length), i = first / after % length, behind = first % after;
    if (format != type() || (stride != after && count > 1) || i % form().length ||
        count != std::min<int64_t>(form().length, length - i))
      return nullptr;
    for (int w = 0; w < form().words(); ++w) {
      const uint32_t word = wordAt(before, i / form().length, w, behind);
      std::memcpy(room + size_t(w) * 4, &word, 4);
    }
    return room;
  }
};

} // namespace

void packWords(const SuperBlocks &form, const SuperCodes &from, uint32_t *words) {
  std::fill_n(words, form.words(), 0u);
  words[0] = from.unit | uint32_t(from.unitOfMinimums) << 16;
  for (int g = 0; g < form.groups(); ++g) {
    const int source = g * form.group / from.group;
    words[1 + g / 2] |= uint32_t(uint8_t(from.scales[source]) | from.minimums[source] << 8) << g % 2 * 16;
  }
  for (int i = 0; i < form.length; ++i) {
    const int within = i % form.group;
    uint32_t *group = words + form.headWords() + i / form.group * form.wordsOfGroup();
    const uint32_t code = uint32_t(from.codes[i]) & ((1u << form.bits) - 1);
    group[within / 8] |= (code & 15) << support::lowBitOf(within);
    if (form.highBits())
      group[support::highWordOf(form, within)] |= code >> 4 << support::highBitOf(form, within);
  }
}

SuperCodes unpackWords(const SuperBlocks &form, const uint32_t *words) {
  SuperCodes result;
  result.unit = uint16_t(words[0]);
  result.unitOfMinimums = uint16_t(words[0] >> 16);
  result.group = form.group;
  for (int g = 0; g < form.groups(); ++g) {
    const uint32_t counts = words[1 + g / 2] >> g % 2 * 16;
    result.scales[g] = int8_t(counts);
    result.minimums[g] = uint8_t(counts >> 8);
  }
  for (int i = 0; i < form.length; ++i)
    result.codes[i] = int8_t(support::superCodeIn(form, [&](int w) { return words[w]; }, i));
  return result;
}

std::vector<int64_t> shapeOfWords(std::vector<int64_t> shape, size_t axis, Storage storage) {
  const SuperBlocks &form = *superBlocksOf(storage);
  shape[axis] = (shape[axis] / form.length + (shape[axis] % form.length != 0)) * form.words();
  return shape;
}

std::vector<int64_t> shapeBesideWords(std::vector<int64_t> shape, size_t axis, Storage storage) {
  shape.push_back(int64_t(axis));
  if (int length = superBlocksOf(storage)->length; length != support::longestSuperBlock)
    shape.push_back(length);
  return shape;
}

bool isShapeOfWords(const std::map<std::string, StoredTensor> &tensors, const std::string &name) {
  if (!name.ends_with(ending))
    return false;
  auto words = tensors.find(name.substr(0, name.size() - ending.size()));
  return words != tensors.end() && words->second.dtype == Dtype::U32;
}

void joinSuperWords(std::map<std::string, StoredTensor> &tensors, const std::string &name) {
  const std::string stem = name.substr(0, name.size() - ending.size());
  auto reader = std::make_shared<SuperWords>();
  reader->words = tensors.at(stem);
  const StoredTensor stored = tensors.extract(name).mapped();
  auto fail = [&]() {
    throw UserError(reader->words.file->name() + ": tensor " + quote(stem) +
                    " does not fit its .shape (I64, a length for each dimension, then that of its super-blocks, then "
                    "their length where that is not 256); quern "
                    "quantize writes both");
  };
  const size_t rank = reader->words.shape.size();
  const bool withLength = stored.elements() == int64_t(rank + 2);
  if (stored.dtype != Dtype::I64 || (!withLength && stored.elements() != int64_t(rank + 1)) || !reader->words.bytes)
    fail();
  std::vector<int64_t> shape(size_t(stored.elements()));
  toLong(stored, 0, stored.elements(), shape.data());
  int64_t length = support::longestSuperBlock;
  if (withLength) {
    length = shape.back();
    shape.pop_back();
  }
  const int64_t axis = shape.back();
  shape.pop_back();
  if (axis < 0 || axis >= int64_t(rank) || shape[size_t(axis)] < 1)
    fail();
  auto fits = [&](Storage storage) {
    return superBlocksOf(storage)->length == length &&
           shapeOfWords(shape, size_t(axis), storage) == reader->words.shape;
  };
  auto found = std::find_if(
      std::begin(support::storageForms), std::end(support::storageForms),
      [&](const support::StorageForm &form) { return form.super.bits && fits(*support::storageByName(form.name)); });
  if (found == std::end(support::storageForms))
    fail();
  reader->storage = *support::storageByName(found->name);
  reader->length = shape[size_t(axis)];
  for (size_t d = size_t(axis) + 1; d < rank; ++d)
    reader->after *= shape[d];
  tensors.at(stem).readBy(std::move(reader), std::move(shape));
}

} // namespace quern::runtime
