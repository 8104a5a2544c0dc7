// `--precision stored`: weights in as many bytes as the checkpoint has them, where that loses nothing.
#ifndef QUERN_TOOLS_SPEC_STOREDFORMATS_H
#define QUERN_TOOLS_SPEC_STOREDFORMATS_H

#include <map>
#include <set>
#include <string>

namespace quern::tools {

/// "layers.12.mlp" as "layers.*.mlp": the pattern that layers share.
std::string withoutNumbers(const std::string &name);

/// What --quantize would have to say, given the type of each tensor of a checkpoint: bf16 and f16 stay so; GGUF's Q8_0 and
/// Q4_0, what `quern quantize` wrote and what these hold (TensorReader::heldBy: Q5_0, IQ4_NL, MXFP4, GPTQ, AWQ) are int8 and
/// int4, whose codes are moved as they are; K-quants are q4_k, q5_k and q6_k, which holds Q3_K, Q2_K and IQ3_S, too; IQ4_XS is q8_k, NVFP4 bf16; Q4_1,
/// Q5_1 and codes with zero points are q4_1, q5_1 and q4_z; floats of one byte are f8_e4m3 and f8_e5m2; the rest is f32. Names that differ in numbers alone, as those of layers do, share a
/// pattern. Empty where all is f32.
std::string formatsOf(const std::map<std::string, std::string> &types);

/// The types of weights that f32 holds in more bytes than the checkpoint does: of what formatsOf leaves in f32.
std::set<std::string> widenedTypes(const std::map<std::string, std::string> &types);

/// The type of each tensor of the weights at `path`, vectors aside. Throws UserError where they cannot be read.
std::map<std::string, std::string> storedTypes(const std::string &path);

} // namespace quern::tools
#endif
