// Takes: a packed argument in codes, and a place. Gives: the code and the scale that stand there.
#include "codegen/halide/Codes.h"

#include "support/CodedGroups.h"

using namespace Halide;
using namespace quern::support;

namespace quern::codegen {

static constexpr int group = static_cast<int>(codedGroup), inStep = 4; // bytes

CodePlace codePlace(int bits, const Expr &position) {
  int each = static_cast<int>(codesInStep(bits));
  return {position % each, position / each % (group / each), position / group};
}

Expr positionOf(int bits, const CodePlace &place) {
  int each = static_cast<int>(codesInStep(bits));
  return (place.group * (group / each) + place.step) * each + place.code;
}

/// The buffer's dimensions are rows of `tile` bytes, one after the other; the four bytes of a column in a step lie beside
/// each other. So the first dimension is counted on beyond its end: a row and what remains of it would be the same place,
/// but where offsets have 64 bits Halide does not see that neighbouring columns are then neighbours.
static Expr byteAt(const ImageParam &buffer, int bits, std::vector<Expr> args, const Expr &ofGroup, const Expr &step,
                   const Expr &part) {
  args[0] = args[0] * inStep + part;
  args[1] = ofGroup * static_cast<int>(bytesOfGroup(bits)) + 2 + step * inStep;
  return buffer(args);
}

Expr codeAt(const ImageParam &buffer, int bits, const std::vector<Expr> &args, const CodePlace &place) {
  Expr byte = byteAt(buffer, bits, args, place.group, place.step, place.code % inStep);
  if (bits == 8)
    return cast<float>(cast<int32_t>(byte) - 128);
  // With a sign again, its half comes uppermost, so that the shift back spreads the sign. Unsigned, as a signed shift
  // that overflows would be undefined.
  Expr up = cast<uint32_t>(28 - place.code / inStep * 4);
  return cast<float>(reinterpret<int32_t>(cast<uint32_t>(byte ^ cast<uint8_t>(0x88)) << up) >> 28);
}

Expr unsignedCodeAt(const ImageParam &buffer, int bits, const std::vector<Expr> &args, const Expr &ofGroup,
                    const Expr &four, const Expr &part) {
  const int halves = 8 / bits;
  Expr byte = byteAt(buffer, bits, args, ofGroup, four / halves, part);
  return bits == 8 ? byte : (byte >> cast<uint8_t>(four % halves * 4)) & cast<uint8_t>(15);
}

Expr scaleAt(const ImageParam &buffer, int bits, std::vector<Expr> args, const CodePlace &place) {
  args[1] = place.group * static_cast<int>(bytesOfGroup(bits));
  Expr low = cast<uint32_t>(buffer(args));
  args[1] = args[1] + 1;
  // f16, whose exponent's bits come where f32's are: that is 2^112 too small. Not every target has an instruction for it.
  Expr half = low | cast<uint32_t>(buffer(args)) << cast<uint32_t>(8), magnitude = (half & cast<uint32_t>(0x7fff))
                                                                                   << cast<uint32_t>(13);
  Expr scale = reinterpret<uint32_t>(reinterpret<float>(magnitude) * 0x1p112f);
  return reinterpret<float>(scale | (half & cast<uint32_t>(0x8000)) << cast<uint32_t>(16));
}

} // namespace quern::codegen
