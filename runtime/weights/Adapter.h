// Low-rank adapters (Hu et al. 2021) as PEFT stores them, added to a checkpoint while it is read.
#ifndef QUERN_RUNTIME_WEIGHTS_ADAPTER_H
#define QUERN_RUNTIME_WEIGHTS_ADAPTER_H

#include "runtime/abi/Description.h"
#include "runtime/weights/TensorSource.h"

namespace quern::runtime {

/// The tensors of `base` with those of an adapter's folder (adapter_config.json, adapter_model.safetensors; PEFT's
/// format, https://huggingface.co/docs/peft/developer_guides/checkpoint) merged in: W + scale B A for matrices and
/// embeddings, scale = alpha / r or alpha / sqrt(r); biases and whole modules that the adapter stores take the place of
/// the base's. Nothing is computed before it is read, in f32. Throws UserError for another kind of adapter (DoRA, IA3,
/// prompts), for a matrix that the base lacks, and for shapes that do not fit. What a program has parameters for (`--lora` when
/// it was compiled) is not merged: these are then A and B, with zeros where its rank is higher.
std::unique_ptr<TensorSource> withAdapter(std::unique_ptr<TensorSource> base, const std::string &folder,
                                          const Description &description);

/// adapter_config.json for tensors of these names ("NAME.lora_A.weight"), the adapters of a program.
std::string adapterConfig(const Description &description, const std::vector<std::string> &names,
                          const std::string &base);
/// What PEFT puts before the names of an adapter's tensors.
inline constexpr const char *adapterPrefix = "base_model.model.";

} // namespace quern::runtime
#endif
