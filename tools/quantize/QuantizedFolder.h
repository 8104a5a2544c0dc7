// A checkpoint in fewer bits, as a folder that programs and the compiler read like any other.
#ifndef QUERN_TOOLS_QUANTIZE_QUANTIZEDFOLDER_H
#define QUERN_TOOLS_QUANTIZE_QUANTIZEDFOLDER_H

#include "tools/quantize/QuantizedFile.h"

namespace quern::tools {

/// Where a checkpoint comes from.
struct CheckpointPlaces {
  std::string weights;             ///< a folder, a safetensors or GGUF file, an index of shards
  std::string config;              ///< config.json, its folder or a GGUF file; empty: there is none
  std::vector<std::string> beside; ///< further files of the folder, by their paths in it
};

/// Throws UserError where `folder` holds what must not be overwritten: anything but what `quern quantize` wrote.
void checkTarget(const std::string &folder);

/// Makes `folder`: model.safetensors of `forms`; config.json, which says `quantize`; tokenizer, chat template and the other
/// small files of the checkpoint. It is there whole or not at all. Throws UserError.
std::vector<QuantizedTensor> writeQuantizedFolder(const std::string &folder, const CheckpointPlaces &from,
                                                  const std::vector<StoredForm> &forms, const std::string &quantize);

} // namespace quern::tools
#endif
