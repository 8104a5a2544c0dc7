// Takes: a packed argument in codes, and a place. Gives: the code and the scale that stand there.
#include "codegen/halide/Codes.h"

#include "codegen/halide/Math.h"
#include "codegen/halide/lowered/WholeWords.h"
#include "support/numbers/SuperWords.h"

#include <cmath>

using namespace Halide;
using namespace quern::support;

namespace quern::codegen {

static constexpr int inStep = 4; // bytes

/// What its bits are put together in: a vector of 16 bits where there is an instruction that widens it.
static Type wordOfHalf(const CodedColumns &columns) {
  return widensHalves(columns.target) ? UInt(16) : UInt(32);
}

/// The bits of an f16 as a real, also one below f16's least normal number: programs take such an f32 for zero, so none may stand
/// on the way.
static Expr half(const CodedColumns &columns, const Expr &bits) {
  return math::widen(Storage::F16, cast(wordOfHalf(columns), bits), columns.target);
}

CodePlace codePlace(Storage storage, const Expr &position) {
  int each = stepOf(storage), group = groupOf(storage);
  return {position % each, position / each % (group / each), position / group};
}

Expr positionOf(Storage storage, const CodePlace &place) {
  int each = stepOf(storage), group = groupOf(storage);
  return (place.group * (group / each) + place.step) * each + place.code;
}

static Expr constant(uint32_t value) {
  return Internal::make_const(UInt(32), value);
}

/// Where a code begins in its word; of super-blocks its low bits.
static Expr lowestBitOf(const CodePlace &place) {
  return cast<uint32_t>(place.code % inStep * 8 + place.code / inStep * 4);
}

// ---- groups that have a scale in f16

/// Where a step begins, in rows of `tile` bytes.
static Expr rowOfStep(const CodedColumns &columns, const Expr &ofGroup, const Expr &step) {
  return ofGroup * static_cast<int>(bytesOf(columns.storage, groupOf(columns.storage))) + 2 + step * inStep;
}

/// The buffer's dimensions are rows of `tile` bytes, one after the other; the four bytes of a column in a step are beside
/// each other. So the first dimension is counted on beyond its end: a row and what remains of it would be the same place,
/// but where offsets have 64 bits Halide does not see that neighbouring columns are then neighbours.
static Expr byteAt(const CodedColumns &columns, const Expr &ofGroup, const Expr &step, const Expr &part) {
  std::vector<Expr> args = columns.args;
  args[0] = args[0] * inStep + part;
  args[1] = rowOfStep(columns, ofGroup, step);
  return columns.buffer(args);
}

/// A column's bytes of a step.
static Expr wordOfStep(const CodedColumns &columns, const CodePlace &place) {
  std::vector<Expr> args = columns.args;
  args[1] = rowOfStep(columns, place.group, place.step);
  return wholeWord(columns.buffer(args), columns.args[0]);
}

static Expr signedWordAt(const CodedColumns &columns, const CodePlace &place) {
  return wordOfStep(columns, place) ^ constant(bitsOfCode(columns.storage) == 8 ? 0x80808080 : 0x88888888);
}

static Expr codeOfGroup(const CodedColumns &columns, const CodePlace &place) {
  Expr byte = byteAt(columns, place.group, place.step, place.code % inStep);
  if (bitsOfCode(columns.storage) == 8)
    return cast<float>(cast<int32_t>(byte) - 128);
  // With a sign again, its half comes uppermost, so that the shift back spreads the sign. Unsigned, as a signed shift
  // that overflows would be undefined. Chosen from two: of one that differs between eight lanes, Halide 21 asks without end
  // whether a sum with it changes anything.
  Expr word = cast<uint32_t>(byte ^ cast<uint8_t>(0x88));
  Expr up = select(place.code / inStep == 0, word << constant(28), word << constant(24));
  return cast<float>(reinterpret<int32_t>(up) >> 28);
}

static Expr scaleOfGroup(const CodedColumns &columns, const CodePlace &place) {
  std::vector<Expr> args = columns.args;
  args[1] = place.group * static_cast<int>(bytesOf(columns.storage, groupOf(columns.storage)));
  const Type word = wordOfHalf(columns);
  Expr low = cast(word, columns.buffer(args));
  args[1] = args[1] + 1;
  return half(columns, low | cast(word, columns.buffer(args)) << Internal::make_const(word, 8));
}

// ---- floats of one byte

static Expr byteOfFloats(const CodedColumns &columns, const Expr &group, const Expr &row) {
  std::vector<Expr> args = columns.args;
  args[1] = group * static_cast<int>(bytesOf(columns.storage, floatGroup)) + row;
  return columns.buffer(args);
}

/// The sign is spread above the code; the mask takes away what is not f16's.
static Expr codeOfFloats(const CodedColumns &columns, const CodePlace &place) {
  const FloatCodes &form = *floatCodesOf(columns.storage);
  const Type word = wordOfHalf(columns);
  Expr code = byteOfFloats(columns, place.group, place.step * stepOf(columns.storage) + place.code + 4);
  Expr bits = cast(word, cast(Int(word.bits()), reinterpret<int8_t>(code))) << Internal::make_const(word, form.shift);
  return half(columns, bits & Internal::make_const(word, form.mask));
}

static Expr scaleOfFloats(const CodedColumns &columns, const CodePlace &place) {
  Expr bits = cast<uint32_t>(byteOfFloats(columns, place.group, 0));
  for (int i = 1; i < 4; ++i)
    bits = bits | cast<uint32_t>(byteOfFloats(columns, place.group, i)) << cast<uint32_t>(8 * i);
  return reinterpret<float>(bits);
}

// ---- super-blocks

static Expr wordAt(const CodedColumns &columns, const Expr &word) {
  std::vector<Expr> args = columns.args;
  args[1] = word;
  return columns.buffer(args);
}

/// A byte of a word, read as one: the buffer's numbers are four bytes each, so all places are counted in these.
static Expr byteOfWord(const CodedColumns &columns, const Expr &word, const Expr &byte) {
  std::vector<Expr> args = columns.args;
  args[1] = word;
  for (Expr &arg : args)
    arg = arg * 4;
  args[0] = args[0] + byte;
  return Internal::Call::make(UInt(8), columns.buffer.name(), args, Internal::Call::Image, Internal::FunctionPtr(), 0,
                              Buffer<>(), columns.buffer.parameter());
}

/// Where a group's words are.
static Expr wordsOf(const SuperBlocks &form, const Expr &group) {
  return group * form.wordsOfGroup() + (group / form.groups() + 1) * form.headWords();
}

/// The word that has a code's high bits, and by how much it is moved left for them to end where `up` would move the lowest. That is
/// counted without a sign: Halide's simplifier does not end where it puts a place's parts together again.
struct HighBits {
  Expr word, up;
};
static HighBits highBitsOf(const SuperBlocks &form, const CodePlace &place, const Expr &up) {
  const uint32_t each = static_cast<uint32_t>(form.highBits());
  HighBits high = {wordsOf(form, place.group) + form.lowWords(),
                   up - cast<uint32_t>(place.code / inStep) * constant(each)};
  if (form.highWords() == 1)
    high.up -= cast<uint32_t>(place.step) * constant(2 * each);
  else
    high.word += place.step;
  return high;
}

/// The low bits of a step's codes.
static Expr lowWordAt(const CodedColumns &columns, const SuperBlocks &form, const CodePlace &place) {
  return wordAt(columns, wordsOf(form, place.group) + place.step);
}

/// The low and the high bits come to their places; the shift back spreads a sign.
static Expr codeOfBlock(const CodedColumns &columns, const CodePlace &place) {
  const SuperBlocks &form = *superBlocksOf(columns.storage);
  Expr low = lowWordAt(columns, form, place) >> lowestBitOf(place) & constant(15);
  if (!form.highBits())
    return cast<float>(reinterpret<int32_t>(low));
  HighBits bits = highBitsOf(form, place, constant(32 - form.highBits()) - cast<uint32_t>(place.code % inStep * 8));
  Expr high = wordAt(columns, bits.word) << bits.up;
  const int down = 32 - form.bits;
  high = form.hasSign ? reinterpret<uint32_t>(reinterpret<int32_t>(high) >> down) : high >> constant(down);
  return cast<float>(reinterpret<int32_t>((high & constant(~15u)) | low));
}

/// A word with the same in each of its bytes.
static Expr inBytes(uint32_t byte) {
  return constant(byte * 0x01010101u);
}

/// The four codes of a step that have a byte each, uppermost in it.
static Expr bytesOfBlock(const CodedColumns &columns, const CodePlace &place) {
  const SuperBlocks &form = *superBlocksOf(columns.storage);
  const uint32_t inByte = static_cast<uint32_t>(8 - form.highBits()), free = static_cast<uint32_t>(8 - form.bits);
  HighBits bits = highBitsOf(form, place, constant(inByte));
  Expr low = lowWordAt(columns, form, place) >> cast<uint32_t>(place.code / inStep) * constant(4) << constant(free);
  Expr high = wordAt(columns, bits.word) << bits.up;
  return (low & inBytes(15u << free)) | (high & inBytes(0xffu << inByte & 0xff));
}

/// One of these uppermost in the word, below a sign's place where it has none.
static Expr raisedCodeOfBlock(const CodedColumns &columns, const CodePlace &place) {
  Expr raised = bytesOfBlock(columns, place) << (constant(24) - cast<uint32_t>(place.code % inStep * 8));
  return cast<float>(reinterpret<int32_t>(superBlocksOf(columns.storage)->hasSign
                                              ? raised & constant(0xff000000)
                                              : raised >> constant(1) & constant(0x7f800000)));
}

/// The same as a byte without a sign: half of the codes more where they have one.
static Expr unsignedOfBlock(const CodedColumns &columns, const Expr &group, const Expr &four, const Expr &part) {
  const SuperBlocks &form = *superBlocksOf(columns.storage);
  Expr words = wordsOf(form, group);
  Expr low = (byteOfWord(columns, words + four / 2, part) >> cast<uint8_t>(four % 2 * 4)) & cast<uint8_t>(15);
  if (!form.highBits())
    return low;
  const int mask = (1 << form.bits) - 16, sign = form.hasSign ? 1 << (form.bits - 1) : 0;
  const int inWord = 8 / form.highBits(); // fours
  Expr high = byteOfWord(columns, words + form.lowWords() + four / inWord, part)
              << cast<int8_t>(4 - four % inWord * form.highBits());
  return ((high & cast<uint8_t>(mask)) ^ cast<uint8_t>(sign)) | low;
}

Expr unitAt(const CodedColumns &columns, const Expr &group, bool minimum) {
  const SuperBlocks &form = *superBlocksOf(columns.storage);
  Expr units = wordAt(columns, group / form.groups() * form.words());
  return half(columns, minimum ? units >> constant(16) : units & constant(0xffff));
}

Expr countAt(const CodedColumns &columns, const Expr &group, bool minimum) {
  const SuperBlocks &form = *superBlocksOf(columns.storage);
  Expr within = group % form.groups(), pair = wordAt(columns, group / form.groups() * form.words() + 1 + within / 2);
  Expr top = pair << cast<uint32_t>((minimum ? 16 : 24) - within % 2 * 16); // the byte comes uppermost
  return cast<float>(minimum ? reinterpret<int32_t>(top >> constant(24)) : reinterpret<int32_t>(top) >> 24);
}

/// A group's scale or minimum: its count of the super-block's unit.
static Expr ofLevels(const CodedColumns &columns, const CodePlace &place, bool minimum) {
  return unitAt(columns, place.group, minimum) * countAt(columns, place.group, minimum);
}

// ---- all

Expr unsignedCodeAt(const CodedColumns &columns, const Expr &group, const Expr &four, const Expr &part) {
  if (superBlocksOf(columns.storage))
    return unsignedOfBlock(columns, group, four, part);
  const int bits = bitsOfCode(columns.storage), halves = 8 / bits;
  Expr byte = byteAt(columns, group, four / halves, part);
  return bits == 8 ? byte : (byte >> cast<uint8_t>(four % halves * 4)) & cast<uint8_t>(15);
}

int addedToCodes(Storage storage) {
  const SuperBlocks *form = superBlocksOf(storage);
  return form && !form->hasSign ? 0 : 1 << (bitsOfCode(storage) - 1);
}

Expr codeAt(const CodedColumns &columns, const CodePlace &place) {
  return superBlocksOf(columns.storage)  ? codeOfBlock(columns, place)
         : floatCodesOf(columns.storage) ? codeOfFloats(columns, place)
                                         : codeOfGroup(columns, place);
}

/// Codes without high bits and without a sign come out of a word in as few instructions where they are.
static int raisedBy(const CodedColumns &columns) {
  const int bits = bitsOfCode(columns.storage);
  if (!columns.areNeighbours || !columns.target.device.empty() || floatCodesOf(columns.storage))
    return 0;
  const SuperBlocks *form = superBlocksOf(columns.storage);
  return !form || form->hasSign ? 32 - bits : form->highBits() ? 31 - bits : 0;
}

Expr raisedCodeAt(const CodedColumns &columns, const CodePlace &place) {
  const int by = raisedBy(columns);
  if (!by)
    return codeAt(columns, place);
  if (superBlocksOf(columns.storage))
    return raisedCodeOfBlock(columns, place);
  Expr raised = signedWordAt(columns, place) << (constant(by) - lowestBitOf(place));
  return cast<float>(reinterpret<int32_t>(raised & constant(~0u << by)));
}

Expr loweredScaleAt(const CodedColumns &columns, const CodePlace &place) {
  Expr scale = scaleAt(columns, place);
  const int by = raisedBy(columns);
  return by ? scale * std::ldexp(1.0f, -by) : scale;
}

/// Where bytes with high bits begin while they stand: the uppermost bit stays free, so that none is a sign.
static constexpr int standingByte = 1;

int addedToStanding(Storage storage) {
  const SuperBlocks *form = superBlocksOf(storage);
  return form && form->highBits() && !form->hasSign ? 1 : addedToCodes(storage);
}

/// The four codes of a step that have a byte each, `addedToStanding` more. That makes a sign's half of the codes come first; and LLVM
/// has to put the two words together once, not for each of the codes, as a sum carries from bit to bit (so without a sign, too).
static Expr standingBytesOfBlock(const CodedColumns &columns, const CodePlace &place) {
  const SuperBlocks &form = *superBlocksOf(columns.storage);
  HighBits bits = highBitsOf(form, place, constant(static_cast<uint32_t>(8 - form.highBits())));
  Expr low = lowWordAt(columns, form, place) >> cast<uint32_t>(place.code / inStep) * constant(4)
                                                    << constant(standingByte);
  Expr high = wordAt(columns, bits.word) << bits.up >> constant(static_cast<uint32_t>(8 - form.bits - standingByte));
  const uint32_t all = (1u << form.bits) - 1;
  return ((low & inBytes(15u << standingByte)) | (high & inBytes((all & ~15u) << standingByte))) +
         inBytes(static_cast<uint32_t>(addedToStanding(columns.storage)) << standingByte);
}

/// Not of codes that fill their bytes. Nor where a group's sum would be too large by more than 2^12 numbers of a row, which takes as
/// many bits of its digits.
bool canStandInWords(const CodedColumns &columns) {
  const SuperBlocks *form = superBlocksOf(columns.storage);
  return columns.areNeighbours && columns.target.device.empty() && !floatCodesOf(columns.storage) &&
         !(form && form->bits == 8) && addedToStanding(columns.storage) * groupOf(columns.storage) <= 1 << 12;
}

/// Where a code begins in its word, and whether a sign's place is its: then it has to come down.
struct StandingCode {
  Expr lowest, isUppermost;
  uint32_t bits;
};
static StandingCode standing(Storage storage, const CodePlace &place) {
  const SuperBlocks *form = superBlocksOf(storage);
  if (form && form->highBits()) // one more than the largest code without a sign has a bit of its own
    return {cast<uint32_t>(place.code % inStep * 8 + standingByte), Internal::const_false(),
            static_cast<uint32_t>(form->bits + !form->hasSign)};
  const uint32_t bits = static_cast<uint32_t>(bitsOfCode(storage));
  return {lowestBitOf(place), lowestBitOf(place) == constant(32 - bits), bits};
}

Expr standingCodeAt(const CodedColumns &columns, const CodePlace &place) {
  const SuperBlocks *form = superBlocksOf(columns.storage);
  const StandingCode code = standing(columns.storage, place);
  Expr word = !form              ? wordOfStep(columns, place)
              : form->highBits() ? standingBytesOfBlock(columns, place)
                                 : lowWordAt(columns, *form, place);
  return cast<float>(reinterpret<int32_t>(select(code.isUppermost, word >> constant(32 - code.bits),
                                                 word & (constant((1u << code.bits) - 1) << code.lowest))));
}

Expr factorOfStanding(Storage storage, const CodePlace &place) {
  const StandingCode code = standing(storage, place);
  return select(code.isUppermost, 1.0f, reinterpret<float>((constant(127) - code.lowest) << constant(23)));
}

Expr scaleAt(const CodedColumns &columns, const CodePlace &place) {
  return superBlocksOf(columns.storage)  ? ofLevels(columns, place, false)
         : floatCodesOf(columns.storage) ? scaleOfFloats(columns, place)
                                         : scaleOfGroup(columns, place);
}

Expr minimumAt(const CodedColumns &columns, const CodePlace &place) {
  return ofLevels(columns, place, true);
}

Expr numberAt(const CodedColumns &columns, const CodePlace &place) {
  Expr product = raisedCodeAt(columns, place) * loweredScaleAt(columns, place);
  return superBlocksOf(columns.storage) ? product - minimumAt(columns, place) : product;
}

} // namespace quern::codegen
