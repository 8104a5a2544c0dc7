// Checkpoints of compressed-tensors (llm-compressor, vLLM) and of NVIDIA's ModelOpt in 4 bits.
#ifndef QUERN_RUNTIME_FORMATS_COMPRESSEDTENSORS_H
#define QUERN_RUNTIME_FORMATS_COMPRESSEDTENSORS_H

#include "runtime/files/Safetensors.h"

namespace quern::runtime {

/// Whether one of these begins with the tensor `name`:
/// - NAME.weight_packed I32, .weight_scale, .weight_shape (, .weight_zero_point, .weight_g_idx): integers of 1 to 8 bits;
/// - NAME.weight I8, .weight_scale (, .weight_zero_point): integers of 8 bits;
/// - NAME.weight_packed U8, .weight_scale: NVFP4 (scales in F8, .weight_global_scale divides) and MXFP4 (in U8);
/// - NAME.weight U8, .weight_scale F8, .weight_scale_2: ModelOpt's NVFP4, whose last scale multiplies.
bool isCompressed(const std::map<std::string, StoredTensor> &tensors, const std::string &name);

/// Puts NAME.weight in their place. Throws UserError, naming tensor and file, where they do not fit each other.
void joinCompressed(std::map<std::string, StoredTensor> &tensors, const std::string &name);

/// Takes out what says how activations and caches are quantised, which the weights do not need: of a checkpoint in which
/// tensors were joined.
void dropActivationScales(std::map<std::string, StoredTensor> &tensors);

} // namespace quern::runtime
#endif
