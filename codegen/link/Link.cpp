// Takes: the host object, the kernels' objects, Halide's runtime. Gives: an executable, through the C++ compiler that
// Quern itself was built with (it knows where the C library's start files are).
#include "codegen/link/Link.h"

#include "support/TemporaryFolder.h"

#include "support/OutputFile.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <set>
#include <stdexcept>
#include <system_error>

using namespace quern;
using namespace quern::codegen;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

int quern::codegen::runCommand(const std::vector<std::string> &command, std::string &messages) {
  auto program = llvm::sys::findProgramByName(command[0]);
  if (!program) {
    messages = command[0] + ": not found; install it (Debian: apt-get install g++)";
    return 127;
  }
  support::TemporaryFolder work;
  std::string log = work.path() + "/log";
  std::vector<llvm::StringRef> arguments(command.begin(), command.end());
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), llvm::StringRef(log), llvm::StringRef(log)};
  std::string failure;
  int status = llvm::sys::ExecuteAndWait(*program, arguments, std::nullopt, redirects, 0, 0, &failure);
  if (auto text = llvm::MemoryBuffer::getFile(log))
    messages = (*text)->getBuffer().str();
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

namespace {
/// The runtime's archives and the system's that it needs.
struct Runtime {
  std::string folder;
  std::vector<std::string> libraries;
  bool find(std::string &error);
};
} // namespace

bool Runtime::find(std::string &error) {
  folder = libraryFolder();
  auto flags = llvm::MemoryBuffer::getFile(folder + "/quern_runtime.link");
  if (!flags || !fs::exists(folder + "/libquern_runtime.a")) {
    error = "the runtime is missing: " + folder + "/libquern_runtime.a; run './dev build'";
    return false;
  }
  libraries = {folder + "/libquern_runtime.a"};
  llvm::SmallVector<llvm::StringRef> others;
  llvm::SplitString((*flags)->getBuffer(), others);
  for (llvm::StringRef other : others)
    libraries.push_back(other.str());
  return true;
}

std::vector<std::string> quern::codegen::runtimeFiles(bool training) {
  Runtime runtime;
  std::string error;
  if (!runtime.find(error))
    throw std::runtime_error(error);
  std::vector<std::string> files;
  if (training)
    files.push_back(runtime.folder + "/libquern_training.a");
  for (const std::string &library : runtime.libraries)
    if (!llvm::StringRef(library).starts_with("-"))
      files.push_back(library);
  return files;
}

static bool runStep(const std::vector<std::string> &command, std::string &error) {
  std::string messages;
  if (!runCommand(command, messages))
    return true;
  // The static C library's warnings are in every link, and stand before what went wrong.
  llvm::SmallVector<llvm::StringRef> lines, errors;
  llvm::SplitString(messages, lines, "\n");
  llvm::copy_if(lines, std::back_inserter(errors), [](llvm::StringRef line) {
    return !line.contains(" warning: ") && !line.contains_insensitive(": in function ");
  });
  error = "linking failed: " + (errors.empty() ? messages : llvm::join(errors, "\n"));
  return false;
}

/// The functions of `objects` whose names begin with one that is to be replaced: "old new" lines for objcopy.
static std::string renamed(const std::vector<std::string> &objects, const std::map<std::string, std::string> &names) {
  std::set<std::string> lines; // objects that refer to a function name it, too
  for (const std::string &file : objects) {
    auto object = llvm::object::ObjectFile::createObjectFile(file);
    if (!object) {
      llvm::consumeError(object.takeError());
      continue;
    }
    for (const llvm::object::SymbolRef &symbol : object->getBinary()->symbols()) {
      llvm::Expected<llvm::StringRef> name = symbol.getName();
      if (!name) {
        llvm::consumeError(name.takeError());
        continue;
      }
      for (const auto &[from, to] : names)
        if (name->starts_with(from))
          lines.insert(name->str() + " " + to + name->substr(from.size()).str() + "\n");
    }
  }
  return llvm::join(lines, "");
}

bool quern::codegen::linkProgram(const std::vector<std::string> &objects, const std::string &output,
                                 const LinkedParts &parts, std::string &error) {
  Runtime runtime;
  if (!runtime.find(error))
    return false;
  // Tables of functions are read-only once the program runs.
  std::vector<std::string> command = {QUERN_CXX,
                                      "-Wl,-z,relro,-z,now",
                                      "-Wl,--gc-sections",
                                      "-Wl,--build-id=none",
                                      parts.names.empty() ? "-s" : "-Wl,--strip-debug",
                                      "-o",
                                      output};
  // A driver brings the system's C library, of which a process has room for one.
  if (parts.device.empty())
    command.push_back("-static-pie");
  else
    command.insert(command.end(), {"-no-pie", "-static-libstdc++", "-static-libgcc"});
  command.insert(command.end(), objects.begin(), objects.end());
  // The runtime refers to them weakly, which alone would not take them out of their archives.
  for (const std::string &library : parts.libraries) {
    command.push_back("-Wl,-u,quern_" + library + "_commands");
    command.push_back(runtime.folder + "/libquern_" + library + ".a");
  }
  if (!parts.device.empty()) {
    command.push_back("-Wl,-u,quern_open_device");
    command.push_back(runtime.folder + "/libquern_" + parts.device + ".a");
  }
  command.insert(command.end(), runtime.libraries.begin(), runtime.libraries.end());
  if (!runStep(command, error))
    return false;
  if (parts.names.empty())
    return true;
  support::TemporaryFolder work;
  std::string list = work.path() + "/names";
  support::writeFile(list, renamed(objects, parts.names));
  return runStep({"objcopy", "--redefine-syms=" + list, output}, error);
}

/// The functions that a header declares: what follows "quern_status ", "void " and so on, before a bracket.
static std::vector<std::string> functionsOf(llvm::StringRef header) {
  std::vector<std::string> names;
  llvm::SmallVector<llvm::StringRef> lines;
  header.split(lines, '\n');
  for (llvm::StringRef line : lines) {
    llvm::StringRef name = line.take_until([](char c) { return c == '('; });
    if (name.size() == line.size() || line.starts_with(" ") || line.starts_with("#"))
      continue;
    name = name.substr(name.find_last_of(" *") + 1);
    if (name.starts_with("quern_"))
      names.push_back(name.str());
  }
  return names;
}

bool quern::codegen::linkLibrary(const std::vector<std::string> &objects, const std::string &output,
                                 std::string &error) {
  Runtime runtime;
  if (!runtime.find(error))
    return false;
  std::string headerPath = runtime.folder + "/quern.h";
  auto header = llvm::MemoryBuffer::getFile(headerPath);
  if (!header) {
    error = "the library's header is missing: " + headerPath + "; run './dev build'";
    return false;
  }
  support::TemporaryFolder work;
  std::string object = work.path() + "/model.o";
  // One object that holds everything it needs. Groups are resolved now, as their names become local below.
  std::vector<std::string> link = {
      QUERN_CXX, "-r",  "-nostdlib", "-Wl,--gc-sections", "-Wl,--force-group-allocation", "-Wl,--build-id=none",
      "-o",      object};
  // Of all names only the header's stay visible: a program may hold its own copies of what the runtime uses.
  std::vector<std::string> hide = {"objcopy", "--strip-unneeded"};
  for (const std::string &name : functionsOf((*header)->getBuffer())) {
    link.push_back("-Wl,-u," + name);
    hide.push_back("--keep-global-symbol=" + name);
  }
  hide.push_back(object);
  link.insert(link.end(), objects.begin(), objects.end());
  link.push_back(runtime.folder + "/libquern_library.a");
  link.insert(link.end(), runtime.libraries.begin(), runtime.libraries.end());
  llvm::erase(link, "-pthread"); // the program's own link asks for it
  if (!runStep(link, error) || !runStep(hide, error) || !runStep({"ar", "rcs", output, object}, error))
    return false;
  llvm::SmallString<256> beside(path::parent_path(output));
  path::append(beside, "quern.h");
  if (std::error_code code = fs::copy_file(headerPath, beside)) {
    error = "cannot write " + beside.str().str() + ": " + code.message();
    return false;
  }
  return true;
}
