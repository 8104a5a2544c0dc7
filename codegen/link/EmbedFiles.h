// Files appended to an executable: weights and tokenizer, so that one file is the whole model.
#ifndef QUERN_CODEGEN_LINK_EMBEDFILES_H
#define QUERN_CODEGEN_LINK_EMBEDFILES_H

#include <string>

namespace quern::codegen {

/// Appends the checkpoint at `weights` (a safetensors file or a folder: shards with their index, tokenizer.json) to
/// `program`, in the layout that runtime/files/Tail.cpp reads. Throws std::runtime_error where something cannot be read or
/// written; `program` is then left as it was.
void embedCheckpoint(const std::string &program, const std::string &weights);

} // namespace quern::codegen
#endif
