// The files of a checkpoint: beside each other in a folder, or in the program's own tail.
#ifndef QUERN_RUNTIME_WEIGHTS_CHECKPOINT_H
#define QUERN_RUNTIME_WEIGHTS_CHECKPOINT_H

#include "runtime/weights/TensorSource.h"
#include "support/Files.h"

#include <map>
#include <string>

namespace quern::runtime {

/// Files that the compiler appended to the program: `bytes` of them, then the table, see Tail.cpp. Empty if there are
/// none.
std::map<std::string, std::shared_ptr<const MappedFile>> readTail(const std::string &program);

} // namespace quern::runtime
#endif
