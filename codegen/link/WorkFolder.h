// A temporary folder of its own that goes away with the object.
#ifndef QUERN_CODEGEN_LINK_WORKFOLDER_H
#define QUERN_CODEGEN_LINK_WORKFOLDER_H

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"

#include <filesystem>
#include <stdexcept>

namespace quern::codegen {

class WorkFolder {
public:
  /// `prefix`: of its name. Throws std::runtime_error.
  explicit WorkFolder(llvm::StringRef prefix) {
    llvm::SmallString<128> name;
    if (std::error_code code = llvm::sys::fs::createUniqueDirectory(prefix, name))
      throw std::runtime_error("cannot make a temporary folder: " + code.message());
    path = std::string(name);
  }
  ~WorkFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  WorkFolder(const WorkFolder &) = delete;

  std::filesystem::path path;
};

} // namespace quern::codegen
#endif
