// Takes: a packed argument in codes, and a place. Gives: the code and the scale that stand there.
#include "codegen/halide/Codes.h"

#include "support/CodedGroups.h"

using namespace Halide;
using namespace quern::support;

namespace quern::codegen {

CodePlace codePlace(int bits, const Expr &position) {
  int each = static_cast<int>(codesInWord(bits)), group = static_cast<int>(codedGroup);
  return {position % each, position / each % (group / each), position / group};
}

Expr positionOf(int bits, const CodePlace &place) {
  int each = static_cast<int>(codesInWord(bits));
  return (place.group * (static_cast<int>(codedGroup) / each) + place.word) * each + place.code;
}

Expr codeAt(const ImageParam &buffer, int bits, std::vector<Expr> args, const CodePlace &place) {
  args[1] = place.group * static_cast<int>(wordsOfGroup(bits)) + 1 + place.word;
  // The code's bits come uppermost, so that the shift back spreads its sign. Unsigned, as a signed shift that overflows
  // would be undefined.
  Expr up = cast<uint32_t>(32 - bits - place.code * bits);
  return cast<float>(reinterpret<int32_t>(cast<uint32_t>(buffer(args)) << up) >> (32 - bits));
}

/// `part` chooses among bits, never among addresses: vectors of it are then whole loads.
Expr unsignedCodeAt(const ImageParam &buffer, int bits, std::vector<Expr> args, const Expr &group, const Expr &step,
                    const Expr &part) {
  const int words = 4 / static_cast<int>(codesInWord(bits)); // 2 or 1
  args[1] = group * static_cast<int>(wordsOfGroup(bits)) + 1 + step * words;
  Expr codes = cast<uint32_t>(buffer(args));
  if (words == 2) {
    args[1] = args[1] + 1;
    codes = codes | cast<uint32_t>(buffer(args)) << cast<uint32_t>(16);
  }
  Expr code = cast<uint8_t>(codes >> cast<uint32_t>(part * bits));
  return bits == 8 ? code ^ cast<uint8_t>(128) : (code & cast<uint8_t>(15)) ^ cast<uint8_t>(8);
}

Expr scaleAt(const ImageParam &buffer, int bits, std::vector<Expr> args, const CodePlace &place) {
  args[1] = place.group * static_cast<int>(wordsOfGroup(bits));
  // f16, whose exponent's bits come where f32's are: that is 2^112 too small. Not every target has an instruction for it.
  Expr half = cast<uint32_t>(buffer(args)), magnitude = (half & cast<uint32_t>(0x7fff)) << cast<uint32_t>(13);
  Expr scale = reinterpret<uint32_t>(reinterpret<float>(magnitude) * 0x1p112f);
  return reinterpret<float>(scale | (half & cast<uint32_t>(0x8000)) << cast<uint32_t>(16));
}

} // namespace quern::codegen
