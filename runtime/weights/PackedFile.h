// A program's weights as its kernels read them, in one safetensors file that is mapped and used where it is stored: nothing is
// laid out, converted or copied when the program starts, and processes share the pages.
//
// The file: a tensor `quern.packed` (U8[4], the version of what this header says, little endian), and for each piece of
// Weights a tensor U8[bytes] whose name says what it is: "packed int8 tile 64 of [768, 768], strides 768 1:
// model.layers.0.self_attn.q_proj.weight". Pieces begin on multiples of 64 bytes; tensors named "~N" fill what is between.
// A program looks for the names that it would write. So a file fits exactly the programs whose kernels read the same
// layouts, however those were compiled.
#ifndef QUERN_RUNTIME_WEIGHTS_PACKEDFILE_H
#define QUERN_RUNTIME_WEIGHTS_PACKEDFILE_H

#include "runtime/abi/Description.h"
#include "runtime/weights/TensorSource.h"

namespace quern::runtime {

/// One run of bytes that kernels read: a parameter, or several one after the other.
struct WeightPiece {
  std::string name;
  const void *data = nullptr;
  uint64_t bytes = 0;
};

/// What a piece is, in words that no other layout of these parameters has.
std::string pieceName(const Description &description, const std::vector<int> &parameters,
                      const std::vector<WeightLayout> &layouts);

/// Whether `source` is such a file.
bool isPacked(const TensorSource &source);
/// Where a piece is in it. Throws UserError for a file that was packed for other layouts.
const void *packedPiece(const TensorSource &source, const std::string &name, uint64_t bytes);
/// Throws UserError with the reason (a full disk); the file is there whole or not at all.
void writePacked(const std::string &path, const std::vector<WeightPiece> &pieces);

} // namespace quern::runtime
#endif
