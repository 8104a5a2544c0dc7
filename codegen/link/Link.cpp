// Takes: the host object, the kernels' objects. Gives: an executable or a library, by LLD and copies of the C and C++
// libraries that Quern itself was built with (cmake/QuernLinkFiles.cmake).
#include "codegen/link/Link.h"

#include "codegen/link/Linker.h"

#include "support/TemporaryFolder.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <map>
#include <stdexcept>
#include <system_error>

using namespace quern;
using namespace quern::codegen;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

int quern::codegen::runCommand(const std::vector<std::string> &command, std::string &messages) {
  auto program = llvm::sys::findProgramByName(command[0]);
  if (!program) {
    messages = command[0] + ": not found";
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
/// The runtime's archives and those that they need.
struct Runtime {
  std::string folder;
  std::vector<std::string> libraries;
  bool find(std::string &error);
  /// A file of the C or C++ library, or of another that the runtime needs.
  std::string system(llvm::StringRef name) const { return folder + "/link/" + name.str(); }
};
} // namespace

bool Runtime::find(std::string &error) {
  folder = libraryFolder();
  libraries = {folder + "/libquern_runtime.a", folder + "/libquern_support.a", system("libpcre2-8.a")};
  for (const std::string &library : libraries)
    if (!fs::exists(library)) {
      error = "the runtime is missing: " + library + "; run './dev build'";
      return false;
    }
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
  files.insert(files.end(), runtime.libraries.begin(), runtime.libraries.end());
  return files;
}

/// The functions of `objects` whose names begin with one that is to be replaced, and their new names.
static std::map<std::string, std::string> renamed(const std::vector<std::string> &objects,
                                                  const std::map<std::string, std::string> &names) {
  std::map<std::string, std::string> found; // objects that refer to a function name it, too
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
          found[name->str()] = to + name->substr(from.size()).str();
    }
  }
  return found;
}

bool quern::codegen::linkProgram(const std::vector<std::string> &objects, const std::string &output,
                                 const LinkedParts &parts, std::string &error) {
  Runtime runtime;
  if (!runtime.find(error))
    return false;
  bool device = !parts.device.empty();
  // Tables of functions are read-only once the program runs.
  std::vector<std::string> link = {"--eh-frame-hdr",
                                   "--hash-style=gnu",
                                   "-z",
                                   "relro",
                                   "-z",
                                   "now",
                                   "--gc-sections",
                                   "--icf=all", // nothing compares addresses of functions
                                   parts.names.empty() ? "-s" : "--strip-debug"};
  // A driver brings the system's C library, of which a process has room for one.
  if (device) {
    link.insert(link.end(), {"-pie", "-z", "text", "--dynamic-linker=/lib64/ld-linux-x86-64.so.2", "--as-needed",
                             runtime.system("Scrt1.o")});
  } else {
    link.insert(link.end(), {"-static", "-pie", "--no-dynamic-linker", "-z", "text"});
#if __GLIBC_PREREQ(2, 36)
    link.push_back("--pack-dyn-relocs=relr"); // 3% of a program; older C libraries do not read it
#endif
    link.push_back(runtime.system("rcrt1.o"));
  }
  link.insert(link.end(), {runtime.system("crti.o"), runtime.system("crtbeginS.o")});
  link.insert(link.end(), objects.begin(), objects.end());
  // The runtime refers to them weakly, which alone would not take them out of their archives.
  for (const std::string &library : parts.libraries)
    link.insert(link.end(), {"-u", "quern_" + library + "_commands", runtime.folder + "/libquern_" + library + ".a"});
  if (device)
    link.insert(link.end(), {"-u", "quern_open_device", "-u", "quern_make_device_side",
                             runtime.folder + "/libquern_" + parts.device + ".a"});
  link.insert(link.end(), runtime.libraries.begin(), runtime.libraries.end());
  for (const char *name : {"libstdc++.a", "libgcc.a", "libgcc_eh.a"})
    link.push_back(runtime.system(name));
  if (device)
    for (const char *name : {"libm.so.6", "libc.so.6", "libc_nonshared.a", "ld-linux-x86-64.so.2"})
      link.push_back(runtime.system(name));
  else
    link.insert(link.end(), {runtime.system("libm.a"), runtime.system("libc.a")});
  link.insert(link.end(), {runtime.system("crtendS.o"), runtime.system("crtn.o")});
  return runLinker(link, output, error) &&
         (parts.names.empty() || renameSymbols(output, renamed(objects, parts.names), error));
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
  // One object that holds everything it needs; a program's own link drops what it does not call (with -r LLD would drop
  // the tables of exceptions, too). Groups are resolved now, as their names become local below.
  std::vector<std::string> link = {"-r", "--force-group-allocation"};
  // Of all names only the header's stay visible: a program may hold its own copies of what the runtime uses.
  std::vector<std::string> visible = functionsOf((*header)->getBuffer());
  for (const std::string &name : visible)
    link.insert(link.end(), {"-u", name});
  link.insert(link.end(), objects.begin(), objects.end());
  link.push_back(runtime.folder + "/libquern_library.a");
  link.insert(link.end(), runtime.libraries.begin(), runtime.libraries.end());
  if (!runLinker(link, object, error) || !keepGlobals(object, visible, error) || !archiveObject(object, output, error))
    return false;
  llvm::SmallString<256> beside(path::parent_path(output));
  path::append(beside, "quern.h");
  if (std::error_code code = fs::copy_file(headerPath, beside)) {
    error = "cannot write " + beside.str().str() + ": " + code.message();
    return false;
  }
  return true;
}
