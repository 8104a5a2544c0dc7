// What the first word of `quern run` and `quern compile` leads to: a spec, or a published checkpoint.
#ifndef QUERN_TOOLS_SPEC_MODELPATH_H
#define QUERN_TOOLS_SPEC_MODELPATH_H

#include "frontend/Architectures.h"

#include <string>
#include <vector>

namespace quern::tools {

struct ModelPath {
  /// A spec (or a dump), a folder as Hugging Face's libraries write it, a GGUF file.
  enum class Kind { Spec, Checkpoint, Gguf };
  Kind kind = Kind::Spec;
  std::string path; ///< the file, or the checkpoint's folder
};

/// `name` is a path, or ORG/NAME or ORG/NAME@REVISION of a model in the local Hugging Face cache ($HF_HUB_CACHE,
/// $HF_HOME/hub, ~/.cache/huggingface/hub; https://huggingface.co/docs/huggingface_hub/guides/manage-cache). Paths come
/// first. A folder that holds one GGUF model and no config.json is that file, or its first part. Throws std::runtime_error for a name that leads nowhere and for a model that is not whole.
ModelPath findModel(const std::string &name);

/// A checkpoint, looked at before anything is compiled.
struct Checkpoint {
  const frontend::Architecture *architecture;
  std::string type; ///< what it calls its architecture: LlamaForCausalLM, or llama in a GGUF file; for messages
  std::string
      folder; ///< what programs take as --weights: a folder with config.json, or a GGUF file (the first of its parts)
  std::string adapter; ///< the folder of a LoRA adapter, if that was named; the rest is its base model then
  std::string weights; ///< the file of weights in it that is found: safetensors, or the index of its shards
  std::vector<std::string> settings = {}; ///< NAME=VALUE for the spec, from the checkpoint's other files
};

/// Reads what a checkpoint's folder says about itself. Throws std::runtime_error, with what to do, where config.json or
/// weights are missing, are in a format that programs do not read, or belong to no known architecture. `name` is what
/// messages call it.
Checkpoint readCheckpoint(const ModelPath &model, const std::string &name);

} // namespace quern::tools
#endif
