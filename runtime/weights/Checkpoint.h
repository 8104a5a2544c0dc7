// A model's stored tensors, wherever they lie: one file, a folder, shards with an index, the program's own tail.
#ifndef QUERN_RUNTIME_WEIGHTS_CHECKPOINT_H
#define QUERN_RUNTIME_WEIGHTS_CHECKPOINT_H

#include "runtime/Error.h"
#include "runtime/files/Safetensors.h"
#include "support/Files.h"

#include <map>
#include <string>
#include <vector>

namespace quern::runtime {

struct Checkpoint {
  std::string path; // for messages, and to find the tokenizer beside it
  std::map<std::string, StoredTensor> tensors;

  /// A .safetensors file, an index (*.safetensors.index.json), or a folder that holds one of the two. Throws UserError.
  static Checkpoint open(const std::string &path);
  /// From files by name, as the program's tail has them.
  static Checkpoint open(const std::string &label,
                         const std::map<std::string, std::shared_ptr<const MappedFile>> &files);
};

/// Files that the compiler appended to the program: `bytes` of them, then the table, see Tail.cpp. Empty if there are
/// none.
std::map<std::string, std::shared_ptr<const MappedFile>> readTail(const std::string &program);

} // namespace quern::runtime
#endif
