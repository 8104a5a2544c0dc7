#include "runtime/formats/IntegerCodes.h"

#include "runtime/formats/BlockFormat.h"
#include "runtime/formats/SuperWords.h"
#include "support/numbers/SmallFloats.h"

#include <algorithm>

namespace quern::runtime {

using support::Storage;

namespace {

uint32_t wordAt(const StoredTensor &tensor, int64_t index) {
  uint32_t word;
  std::memcpy(&word, tensor.data + index * 4, 4);
  return word;
}

bool inHalf(float scale) {
  return support::halfToFloat(support::floatToHalf(scale)) == scale;
}

} // namespace

void IntegerCodes::read(int64_t first, int64_t count, float *to) const {
  int64_t o = first / inner, i = first % inner;
  for (; count > 0; --count) {
    const int64_t group = groupOf[size_t(i)];
    *to++ = scales[size_t(group * outer + o)] * float(codeAt(i, o) - zeroAt(group, o));
    if (++i == inner) {
      i = 0;
      ++o;
    }
  }
}

const uint8_t *IntegerCodes::block(std::string_view format, int64_t first, int64_t stride, int64_t count,
                                   uint8_t *room) const {
  const int64_t o = first / inner, i = first % inner;
  if (format == support::storageName(Storage::Q41) || format == support::storageName(Storage::Q4Z))
    return withZero(*support::superBlocksOf(*support::storageByName(format)), i, o, stride, count, room);
  const int wanted = format == "Q8_0" ? 8 : format == "Q4_0" ? 4 : 0;
  if (!wanted || stride != 1 || count != 32 || i % 32 || !isOneGroup(i, 32))
    return nullptr;
  const int64_t group = groupOf[size_t(i)];
  const int zero = zeroAt(group, o), end = 1 << (wanted - 1);
  const float scale = scales[size_t(group * outer + o)];
  if (!inHalf(scale) || -zero < -end || int(mask()) - zero >= end)
    return nullptr;
  joinGroup(support::floatToHalf(scale), wanted, [&](int k) { return codeAt(i + k, o) - zero; }, room);
  return room;
}

const uint8_t *IntegerCodes::withZero(const support::SuperBlocks &form, int64_t i, int64_t o, int64_t stride,
                                      int64_t count, uint8_t *room) const {
  if (bits > form.bits || stride != 1 || i % form.length || count != std::min<int64_t>(form.length, inner - i) ||
      !isOneGroup(i, count))
    return nullptr;
  const int64_t group = groupOf[size_t(i)];
  const float scale = scales[size_t(group * outer + o)];
  if (!inHalf(scale))
    return nullptr;
  SuperCodes packed;
  packed.unit = packed.unitOfMinimums = support::floatToHalf(scale);
  packed.group = form.length;
  packed.scales[0] = 1;
  packed.minimums[0] = uint8_t(zeroAt(group, o));
  for (int64_t k = 0; k < count; ++k)
    packed.codes[k] = int8_t(codeAt(i + k, o));
  uint32_t words[support::longestSuperBlock];
  packWords(form, packed, words);
  std::memcpy(room, words, size_t(form.words()) * 4);
  return room;
}

const char *IntegerCodes::heldBy() const {
  int least = 256, most = 0;
  for (int64_t group = 0; group < int64_t(scales.size()) / outer; ++group)
    for (int64_t o = 0; o < outer; ++o) {
      least = std::min(least, zeroAt(group, o));
      most = std::max(most, zeroAt(group, o));
    }
  if (inner % 32 || !std::all_of(scales.begin(), scales.end(), inHalf))
    return nullptr;
  auto groupsOf = [&](int64_t length) {
    for (int64_t i = 0; i < inner; i += length)
      if (!isOneGroup(i, std::min(length, inner - i)))
        return false;
    return true;
  };
  if (!groupsOf(32))
    return nullptr;
  auto fits = [&](int end) { return most <= end && int(mask()) - least < end; };
  if (fits(8))
    return "Q4_0";
  if (bits <= 4)
    return support::storageName(groupsOf(support::blockOf(Storage::Q4Z)) ? Storage::Q4Z : Storage::Q41);
  return fits(128) ? "Q8_0" : nullptr;
}

bool IntegerCodes::isOneGroup(int64_t first, int64_t count) const {
  auto begin = groupOf.begin() + first;
  return std::all_of(begin, begin + count, [&](int32_t group) { return group == *begin; });
}

int ColumnCodes::codeAt(int64_t i, int64_t o) const {
  const int64_t per = 32 / bits;
  return int(awq ? awqNibble(codes, i, o) : wordAt(codes, i / per * outer + o) >> i % per * bits & mask());
}

int ColumnCodes::zeroAt(int64_t group, int64_t o) const {
  const int64_t per = 32 / bits;
  return int(awq ? awqNibble(zeros, group, o)
                 : (wordAt(zeros, group * (outer / per) + o / per) >> o % per * bits & mask()) + 1);
}

unsigned ColumnCodes::awqNibble(const StoredTensor &words, int64_t row, int64_t column) const {
  constexpr int place[8] = {0, 4, 1, 5, 2, 6, 3, 7};
  return wordAt(words, row * (outer / 8) + column / 8) >> place[column % 8] * 4 & 15;
}

int RowCodes::codeIn(const StoredTensor &packed, int64_t first, int64_t step, int64_t index) const {
  const int64_t at = index * bits, word = at / 32, shift = at % 32;
  uint64_t two = wordAt(packed, first + word * step);
  if (shift + bits > 32)
    two |= uint64_t(wordAt(packed, first + (word + 1) * step)) << 32;
  return int(two >> shift & mask());
}

int RowCodes::codeAt(int64_t i, int64_t o) const {
  if (!words)
    return int(int8_t(codes.data[o * inner + i])) + (1 << (bits - 1));
  return codeIn(codes, o * codes.shape[1], 1, i);
}

int RowCodes::zeroAt(int64_t group, int64_t o) const {
  if (!zeros.data)
    return 1 << (bits - 1);
  const int64_t groups = zeros.shape[1];
  if (!words)
    return int(int8_t(zeros.data[o * groups + group])) + (1 << (bits - 1));
  return codeIn(zeros, group, groups, o);
}

} // namespace quern::runtime
