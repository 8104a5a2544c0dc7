// What a value is, and how its numbers are laid out in memory. Why two words: a real number is one whether f32, bf16 or a code of four
// bits holds it, and bytes are asked of what holds it.
#ifndef QUERN_SUPPORT_STORAGE_H
#define QUERN_SUPPORT_STORAGE_H

#include "support/CodedGroups.h"

#include <iterator>
#include <optional>
#include <string_view>

namespace quern::support {

/// What a value is: which operations there are for it.
enum class Kind : uint8_t { Real, Int, Bool };

/// How its numbers are stored. Each kind has one that is computed with; nothing computes with the others: what moves or
/// picks numbers takes them, `narrow`, `widen`, `rescale`, `quantize` and `dequantize` convert. BF16 and F16: numbers of two
/// bytes (SmallFloats.h). I8: ints of one byte, whose scales are a tensor of their own. Int8 and Int4: codes in groups that share a scale; Q4K to Q4Z: codes in super-blocks;
/// F8E4M3 and F8E5M2: codes that are floats, in groups (CodedGroups.h). Int8G128: as Int8, in longer groups. A new one is a line of the table below.
enum class Storage : uint8_t {
  F32,
  I32,
  U8,
  BF16,
  F16,
  Int8,
  Int4,
  Q4K,
  Q5K,
  Q6K,
  Q8K,
  Q41,
  Q51,
  Q4Z,
  I8,
  F8E4M3,
  F8E5M2,
  Int8G128
};

struct StorageForm {
  const char *name;
  Kind kind;
  int bits; ///< of a number, or of a code
  bool coded;
  SuperBlocks super = {};     ///< of codes with scales of two levels
  FloatCodes floats = {};     ///< of codes that are floats
  int64_t group = codedGroup; ///< numbers that share a scale, of other codes
};
inline constexpr StorageForm storageForms[] = {
    {"f32", Kind::Real, 32, false},
    {"i32", Kind::Int, 32, false},
    {"u8", Kind::Bool, 8, false}, // 0 or 1
    {"bf16", Kind::Real, 16, false},
    {"f16", Kind::Real, 16, false},
    {"int8", Kind::Real, 8, true},
    {"int4", Kind::Real, 4, true},
    {"q4_k", Kind::Real, 4, true, {4, 32, false}},
    {"q5_k", Kind::Real, 5, true, {5, 32, false}},
    {"q6_k", Kind::Real, 6, true, {6, 16, true}},
    {"q8_k", Kind::Real, 8, true, {8, 32, true}}, // the values of a table of codes
    {"q4_1", Kind::Real, 4, true, {4, 32, false, 32}},
    {"q5_1", Kind::Real, 5, true, {5, 32, false, 32}},
    {"q4_z", Kind::Real, 4, true, {4, 32, false, 128}}, // a zero for 128 numbers
    {"i8", Kind::Int, 8, false},
    {"f8_e4m3", Kind::Real, 8, true, {}, {7, 0xbfff, 256, 448, 0x7f}},
    {"f8_e5m2", Kind::Real, 8, true, {}, {8, 0xffff, 1, 57344}},
    {"int8_g128", Kind::Real, 8, true, {}, {}, longCodedGroup},
};

constexpr const StorageForm &formOf(Storage storage) {
  return storageForms[static_cast<int>(storage)];
}
constexpr Kind kindOf(Storage storage) {
  return formOf(storage).kind;
}
/// The one that values of the kind are computed with.
constexpr Storage storageOf(Kind kind) {
  return static_cast<Storage>(kind);
}
constexpr bool isComputed(Storage storage) {
  return storage == storageOf(kindOf(storage));
}
/// Whether its numbers are widened before anything computes with them.
constexpr bool isNarrow(Storage storage) {
  return storage == Storage::BF16 || storage == Storage::F16;
}
/// Bits of a code; 0 for what is not stored in codes.
constexpr int bitsOfCode(Storage storage) {
  return formOf(storage).coded ? formOf(storage).bits : 0;
}
/// How codes with scales of two levels are stored; null for all else.
constexpr const SuperBlocks *superBlocksOf(Storage storage) {
  return formOf(storage).super.bits ? &formOf(storage).super : nullptr;
}
/// How codes that are floats become numbers; null for all else.
constexpr const FloatCodes *floatCodesOf(Storage storage) {
  return formOf(storage).floats.shift ? &formOf(storage).floats : nullptr;
}
/// Of codes: how many are read together, share a scale, are made together.
constexpr int stepOf(Storage storage) {
  return superBlocksOf(storage) || floatCodesOf(storage) ? 8 : static_cast<int>(codesInStep(bitsOfCode(storage)));
}
constexpr int groupOf(Storage storage) {
  return superBlocksOf(storage)  ? formOf(storage).super.group
         : floatCodesOf(storage) ? floatGroup
                                 : static_cast<int>(formOf(storage).group);
}
constexpr int blockOf(Storage storage) {
  return superBlocksOf(storage) ? formOf(storage).super.length : groupOf(storage);
}
/// Of rows in int8 beside weights in codes: a scale for 32 beside int8, whose own error is as small; else for 128, which adds little to that of
/// fewer bits, and a scale for all of them multiplies what the weights' scales made of 32 or 16. (Beside K-quants llama.cpp has one for 256.)
constexpr Storage rowsBeside(Storage weights) {
  return weights == Storage::Int8 ? Storage::Int8 : Storage::Int8G128;
}
/// Bytes of a number in a buffer; of codes, whose buffers hold bytes of groups or words of super-blocks, those.
constexpr int64_t bytesOf(Storage storage) {
  return superBlocksOf(storage) ? 4 : formOf(storage).coded ? 1 : formOf(storage).bits / 8;
}
/// Bytes of `length` numbers after each other, of codes with their scales.
constexpr int64_t bytesOf(Storage storage, int64_t length) {
  if (const SuperBlocks *super = superBlocksOf(storage))
    return (length + super->length - 1) / super->length * super->words() * 4;
  if (floatCodesOf(storage))
    return (length + floatGroup - 1) / floatGroup * (4 + floatGroup);
  if (!formOf(storage).coded)
    return length * bytesOf(storage);
  return (length + groupOf(storage) - 1) / groupOf(storage) * bytesOfGroup(formOf(storage).bits, groupOf(storage));
}

constexpr const char *kindName(Kind kind) {
  constexpr const char *names[] = {"real", "int", "bool"};
  return names[static_cast<int>(kind)];
}
constexpr const char *storageName(Storage storage) {
  return formOf(storage).name;
}
/// What a type says of its elements: the kind where they are computed with, else how they are stored.
constexpr const char *elementName(Storage storage) {
  return isComputed(storage) ? kindName(kindOf(storage)) : storageName(storage);
}
constexpr std::optional<Storage> storageByName(std::string_view name) {
  for (int i = 0; i < static_cast<int>(std::size(storageForms)); ++i)
    if (name == storageForms[i].name)
      return static_cast<Storage>(i);
  return std::nullopt;
}
/// The inverse of elementName.
constexpr std::optional<Storage> storageByElement(std::string_view name) {
  for (int i = 0; i < static_cast<int>(std::size(storageForms)); ++i)
    if (name == elementName(static_cast<Storage>(i)))
      return static_cast<Storage>(i);
  return std::nullopt;
}

static_assert(storageOf(Kind::Real) == Storage::F32 && kindOf(storageOf(Kind::Int)) == Kind::Int &&
              kindOf(storageOf(Kind::Bool)) == Kind::Bool);

} // namespace quern::support
#endif
