// Codes in super-blocks (support/CodedGroups.h) as `quern quantize` stores them in safetensors (docs/formats.md).
//
// A tensor NAME of shape [.., n, ..], whose super-blocks are along the dimension of length n, is
// - NAME: U32, ceil(n / 256) times the words of a super-block in the place of n: 37 (q4_k), 45 (q5_k), 57 (q6_k) or 69 (q8_k) words;
// - NAME.shape: I64, the shape, and after it which dimension that is.
// Of shorter super-blocks NAME.shape ends with their length: 32 (q4_1, q5_1: 6 or 7 words) or 128 (q4_z: 19).
#ifndef QUERN_RUNTIME_FORMATS_SUPERWORDS_H
#define QUERN_RUNTIME_FORMATS_SUPERWORDS_H

#include "runtime/files/Safetensors.h"
#include "runtime/formats/BlockFormat.h"
#include "support/Storage.h"

namespace quern::runtime {

/// A super-block's words, as a column of a kernel's tile has them, and back. Groups of `from` may be longer than those of the
/// form, which then have the same scales. `words`: form.words() of them.
void packWords(const support::SuperBlocks &form, const SuperCodes &from, uint32_t *words);
SuperCodes unpackWords(const support::SuperBlocks &form, const uint32_t *words);

/// The shape of NAME for a tensor of `shape`, and the numbers of NAME.shape.
std::vector<int64_t> shapeOfWords(std::vector<int64_t> shape, size_t axis, support::Storage storage);
std::vector<int64_t> shapeBesideWords(std::vector<int64_t> shape, size_t axis, support::Storage storage);

/// Whether `name` is that of a shape beside words.
bool isShapeOfWords(const std::map<std::string, StoredTensor> &tensors, const std::string &name);
/// Puts the tensor in the place of what is stored for it. `shape`: such a name. Throws UserError, naming tensor and file, where
/// the parts do not fit each other.
void joinSuperWords(std::map<std::string, StoredTensor> &tensors, const std::string &shape);

} // namespace quern::runtime
#endif
