// Takes: the host object, the kernels' objects, Halide's runtime. Gives: an executable, through the C++ compiler that
// Quern itself was built with (it knows where the C library's start files are).
#include "codegen/link/Link.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <system_error>

using namespace quern::codegen;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

int quern::codegen::runCommand(const std::vector<std::string> &command, std::string &messages) {
  auto program = llvm::sys::findProgramByName(command[0]);
  if (!program) {
    messages = command[0] + ": not found; install it (Debian: apt-get install g++)";
    return 127;
  }
  llvm::SmallString<128> log;
  if (std::error_code code = fs::createTemporaryFile("quern", "log", log)) {
    messages = "cannot make a temporary file: " + code.message();
    return 127;
  }
  std::vector<llvm::StringRef> arguments(command.begin(), command.end());
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), llvm::StringRef(log), llvm::StringRef(log)};
  std::string failure;
  int status = llvm::sys::ExecuteAndWait(*program, arguments, std::nullopt, redirects, 0, 0, &failure);
  if (auto text = llvm::MemoryBuffer::getFile(log))
    messages = (*text)->getBuffer().str();
  fs::remove(log);
  if (status < 0)
    messages += failure;
  return status < 0 ? 127 : status;
}

/// The folder of libquern_runtime.a: beside the executable's folder, or where the build put it.
static std::string libraryFolder() {
  std::string self = fs::getMainExecutable(nullptr, nullptr);
  llvm::SmallString<256> folder(path::parent_path(path::parent_path(self)));
  path::append(folder, "lib");
  llvm::SmallString<256> archive(folder);
  path::append(archive, "libquern_runtime.a");
  return fs::exists(archive) ? std::string(folder) : std::string(QUERN_LIBRARY_FOLDER);
}

bool quern::codegen::linkProgram(const std::vector<std::string> &objects, const std::string &output, bool training,
                                 std::string &error) {
  std::string folder = libraryFolder();
  auto flags = llvm::MemoryBuffer::getFile(folder + "/quern_runtime.link");
  if (!flags || !fs::exists(folder + "/libquern_runtime.a")) {
    error = "the runtime is missing: " + folder + "/libquern_runtime.a; run './dev build'";
    return false;
  }
  std::vector<std::string> command = {QUERN_CXX, "-static", "-Wl,--gc-sections", "-Wl,--build-id=none", "-s",
                                      "-o",      output};
  command.insert(command.end(), objects.begin(), objects.end());
  if (training) { // the runtime refers to it weakly, which alone would not take it out of its archive
    command.push_back("-Wl,-u,quern_training_commands");
    command.push_back(folder + "/libquern_training.a");
  }
  command.push_back(folder + "/libquern_runtime.a");
  llvm::SmallVector<llvm::StringRef> libraries;
  llvm::SplitString((*flags)->getBuffer(), libraries);
  for (llvm::StringRef library : libraries)
    command.push_back(library.str());
  std::string messages;
  if (runCommand(command, messages)) {
    error = "linking failed: " + messages;
    return false;
  }
  return true;
}
