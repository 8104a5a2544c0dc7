// A model's stored tensors, wherever they lie: one file, a folder, shards with an index, the program's own tail.
#ifndef QUERN_RUNTIME_WEIGHTS_CHECKPOINT_H
#define QUERN_RUNTIME_WEIGHTS_CHECKPOINT_H

#include "runtime/files/Safetensors.h"

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

/// The part of a path before the last slash, "." without one.
std::string folderOf(const std::string &path);
bool isFolder(const std::string &path);
bool fileExists(const std::string &path);

/// The whole content of a file, which may be a pipe. Throws UserError beyond `limit` bytes.
std::string readFile(const std::string &path, uint64_t limit = uint64_t(1) << 30);

/// Files that the compiler appended to the program: `bytes` of them, then the table, see Tail.cpp. Empty if there are
/// none.
std::map<std::string, std::shared_ptr<const MappedFile>> readTail(const std::string &program);

} // namespace quern::runtime
#endif
