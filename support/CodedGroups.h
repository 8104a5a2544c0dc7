// How weights in codes of few bits are stored: what passes count, kernels read and loaders write.
//
// 32 numbers along the summed dimension are a group, of int8_g128 as many as 128; they share a scale in f16. Codes have no sign:
// 2^(bits - 1) is added. Four bytes of a row stand beside each other, as instructions sum products of four: of int8 four codes; of
// int4 eight, the first four in the low halves. A last group of fewer numbers ends with codes of 0. Kernels read packed weights
// alone: tiles of rows, for each group the scales' low bytes, their high bytes, then for each step four bytes of every row:
//
//   [ceil(rows / tile)][groups]( [tile] [tile] [group * bits / 32][tile][4] )
//
// Rows that only fill the last tile are 0, with a scale of 0.
//
// Codes in super-blocks have scales of two levels, as GGUF's K-quants have: 256 numbers share two numbers in f16, d and e; a
// group of them has a scale of 8 bits with a sign and a minimum of 8 bits without one:
//
//   number = (d * scale) * code - (e * minimum)        products are exact in f32, so only the difference is rounded
//
// Super-blocks of 32 or 128 numbers hold what has one scale and one minimum or zero point for as many: Q4_1, Q5_1, GPTQ, AWQ.
//
// Why one form for all: a role has one storage in all layers, and files mix Q4_K and Q6_K within a role. What has the most
// bits and the smallest groups holds the rest without loss. Memory is words of 32 bits, for each super-block of a tile
//
//   [1][tile] d, e above it    [groups / 2][tile] scale, minimum, and those of the next group
//   [groups]( [group / 8][tile] the low four bits of eight codes    [group * (bits - 4) / 32][tile] their high bits )
//
// Where codes have eight bits, the high ones of eight codes are a word; else those of a group.
//
// A last super-block of fewer numbers is filled up with codes of 0.
//
// Codes that are floats of eight bits (OCP's E4M3 and E5M2) share a scale in f32 with 127 neighbours: number = code * scale, rounded
// once. A byte of each column beside each other, so that a load gives one code of every column; the same of the scales' bytes,
// the lowest first:
//
//   [ceil(rows / tile)][groups]( [4][tile] scale    [128][tile] codes )
//
// A code's bits, moved a little, are those of an f16, which processors widen in one instruction. What that is too small by is in
// the scale already, so nothing multiplies by it.
#ifndef QUERN_SUPPORT_CODEDGROUPS_H
#define QUERN_SUPPORT_CODEDGROUPS_H

#include <cstdint>

namespace quern::support {

constexpr int64_t codedGroup = 32, longCodedGroup = 128;

/// Of one row in a step.
constexpr int64_t codesInStep(int bits) {
  return 32 / bits;
}
/// Bytes of one group of so many numbers: its scale and its codes.
constexpr int64_t bytesOfGroup(int bits, int64_t group) {
  return 2 + group * bits / 8;
}

/// Numbers of the longest super-block.
constexpr int longestSuperBlock = 256;

struct SuperBlocks {
  int bits = 0; ///< of a code, at least 4; 0: there are none
  int group = 0;
  bool hasSign = false;           ///< codes are numbers of two's complement
  int length = longestSuperBlock; ///< numbers that share the units
  constexpr int groups() const { return length / group; }
  constexpr int lowWords() const { return group / 8; }
  constexpr int highBits() const { return bits - 4; }
  constexpr int highWords() const { return group * highBits() / 32; } ///< one, or as many as lowWords()
  constexpr int wordsOfGroup() const { return lowWords() + highWords(); }
  constexpr int headWords() const { return 1 + (groups() + 1) / 2; }
  constexpr int words() const { return headWords() + groups() * wordsOfGroup(); }
  constexpr int least() const { return hasSign ? -(1 << (bits - 1)) : 0; }
  constexpr int most() const { return least() + (1 << bits) - 1; }
};

/// Numbers that share a scale where codes are floats.
constexpr int floatGroup = 128;

struct FloatCodes {
  int shift = 0;     ///< of a code, with its sign spread above it, to the bits of an f16; 0: codes are no floats
  uint16_t mask = 0; ///< of these bits
  float unit = 1;    ///< what the f16 is too small by
  float most = 0;    ///< the largest number of a code
  uint8_t nan = 0;   ///< the code of NaN whose f16 is a number; 0: none is
};

} // namespace quern::support
#endif
