// The files of a checkpoint: beside each other in a folder, or in the program's own tail.
#ifndef QUERN_RUNTIME_WEIGHTS_CHECKPOINT_H
#define QUERN_RUNTIME_WEIGHTS_CHECKPOINT_H

#include "runtime/weights/TensorSource.h"

#include <map>
#include <string>

namespace quern::runtime {

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
