// Files appended to an executable: weights and tokenizer, so that one file is the whole model.
#ifndef QUERN_CODEGEN_LINK_EMBEDFILES_H
#define QUERN_CODEGEN_LINK_EMBEDFILES_H

#include "support/OutputFile.h"

#include <string>

namespace quern::codegen {

/// Makes `folder`: the checkpoint's weights as the kernels of `program` (an executable that is linked) read them, and what
/// goes with them. The program does the work itself (its command `pack`). Throws support::UserError with what it says.
void packCheckpoint(const std::string &program, const std::string &weights, const std::string &folder);

/// Appends the checkpoint at `weights` (a safetensors or GGUF file, or a folder: shards with their index, tokenizer.json) to
/// `program`, in the layout that runtime/weights/Tail.cpp reads. Throws support::UserError.
void embedCheckpoint(support::OutputFile &program, const std::string &weights);

} // namespace quern::codegen
#endif
