// Experts that a checkpoint stores in one tensor, one by one.
#ifndef QUERN_RUNTIME_WEIGHTS_JOINEDEXPERTS_H
#define QUERN_RUNTIME_WEIGHTS_JOINEDEXPERTS_H

#include "runtime/files/Safetensors.h"

#include <map>
#include <string>

namespace quern::runtime {

/// Where `tensors` has NAME.experts.gate_up_proj [E, 2 F, D] and NAME.experts.down_proj [E, D, F], as Qwen3.5 is published: views
/// NAME.experts.0.gate_proj.weight [F, D], .up_proj.weight and .down_proj.weight [D, F], the names that transformers writes.
/// So it does where both have inputs first, [E, D, 2 F] and [E, F, D], as Qwen3-VL is published; but not with a bias, as gpt-oss
/// has one output of the gate, then one of up. Numbers that are decoded stay whole.
std::map<std::string, StoredTensor> singleExperts(const std::map<std::string, StoredTensor> &tensors);

} // namespace quern::runtime
#endif
