// The files of a checkpoint: beside each other in a folder, or in the program's own tail.
#ifndef QUERN_RUNTIME_WEIGHTS_CHECKPOINT_H
#define QUERN_RUNTIME_WEIGHTS_CHECKPOINT_H

#include "runtime/weights/TensorSource.h"
#include "support/Files.h"

#include <map>
#include <optional>
#include <string>

namespace quern::runtime {

/// What a GGUF file says as "tokenizer.json", "chat_template.jinja" or the like of the same model (see gguf/Gguf.h);
/// nothing if it is no such file, or has none of that.
std::optional<std::string> textInside(const std::shared_ptr<const MappedFile> &weights, const std::string &name);
/// The same of the files that a program carries, and of what the user calls "the weights".
std::optional<std::string> textInside(const std::map<std::string, std::shared_ptr<const MappedFile>> &carried,
                                      const std::string &name);
std::optional<std::string> textInside(const std::string &weights, const std::string &name);

/// Files that the compiler appended to the program: `bytes` of them, then the table, see Tail.cpp. Empty if there are
/// none.
std::map<std::string, std::shared_ptr<const MappedFile>> readTail(const std::string &program);

} // namespace quern::runtime
#endif
