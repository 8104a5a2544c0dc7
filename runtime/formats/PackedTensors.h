// Quantised checkpoints in safetensors: several stored tensors that stand for one.
#ifndef QUERN_RUNTIME_FORMATS_PACKEDTENSORS_H
#define QUERN_RUNTIME_FORMATS_PACKEDTENSORS_H

#include "runtime/files/Safetensors.h"

namespace quern::runtime {

/// Puts one tensor of real numbers, under the name that the same model in f32 has, in the place of
/// - NAME.qweight, .qzeros, .scales (, .g_idx): codes as AutoGPTQ (2, 4 or 8 bits) or AutoAWQ (4 bits) pack them;
/// - NAME of 8-bit floats, with NAME_scale_inv or NAME_scale beside it (ByteFloats.h) or without;
/// - NAME_blocks, NAME_scales: MXFP4 as gpt-oss has it;
/// - what compressed-tensors and ModelOpt write (CompressedTensors.h);
/// - NAME, NAME.scales (, NAME.shape): what `quern quantize` writes (GroupedCodes.h, SuperWords.h).
/// Throws UserError, naming tensor and file, where parts do not fit each other.
void joinPackedTensors(std::map<std::string, StoredTensor> &tensors);

} // namespace quern::runtime
#endif
