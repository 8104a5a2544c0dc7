// Floating-point numbers of one byte with scales, as checkpoints in safetensors have them, and as groups that kernels read
// (support/CodedGroups.h).
//
// NAME: F8_E4M3 or F8_E5M2. NAME_scale_inv or NAME_scale, if there: reals that multiply; along each dimension one, one for each
// position, or one for each 128. So DeepSeek-V3 has one for each 128 x 128, compressed-tensors one, or one a row, and what
// `quern quantize` writes one for each 128 along the dimension that is summed.
#ifndef QUERN_RUNTIME_FORMATS_BYTEFLOATS_H
#define QUERN_RUNTIME_FORMATS_BYTEFLOATS_H

#include "runtime/files/Safetensors.h"
#include "support/Storage.h"

namespace quern::runtime {

/// A group as it is passed on: its scale in f32, times the unit of its codes, then the codes.
constexpr int64_t bytesOfFloatGroup = 4 + support::floatGroup;
/// Makes one of at most 128 numbers: those of `quern.quantize` (ir/ElementwiseOps.td).
void encodeFloatGroup(support::Storage storage, const float *numbers, int64_t count, uint8_t *to);

/// The types of codes and shapes of scales in safetensors, for a tensor of `shape` with groups along `axis`.
Dtype dtypeOfCodes(support::Storage storage);
std::vector<int64_t> shapeOfFloatScales(std::vector<int64_t> shape, size_t axis);

/// Puts the tensor in the place of what is stored for it. `name`: of 8-bit floats. Throws UserError, naming tensor and file,
/// where its scales do not fit it.
void joinByteFloats(std::map<std::string, StoredTensor> &tensors, const std::string &name);

} // namespace quern::runtime
#endif
