// Takes: object files. Gives: executables, shared libraries, archives, by LLD and LLVM's object libraries.
#include "codegen/link/Linker.h"

#include "support/Error.h"

#include "lld/Common/Driver.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ObjCopy/ConfigManager.h"
#include "llvm/ObjCopy/ObjCopy.h"
#include "llvm/Object/ArchiveWriter.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/CrashRecoveryContext.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <mutex>

LLD_HAS_DRIVER(elf)

using namespace quern;
using namespace quern::codegen;

/// What LLVM calls where it would end the process, as for a disk that is full: leaves LLD instead.
static void leaveLinker(void *said, const char *reason, bool) {
  *static_cast<std::string *>(said) = reason;
  if (llvm::CrashRecoveryContext *context = llvm::CrashRecoveryContext::GetCurrent())
    context->HandleExit(1);
}

bool quern::codegen::runLinker(const std::vector<std::string> &arguments, const std::string &output,
                               std::string &error) {
  static std::mutex one; // LLD's state is the process's
  static bool broken = false;
  std::lock_guard lock(one);
  if (broken) {
    error = "linking failed: the linker cannot go on after what stopped it before";
    return false;
  }
  // One thread: a program is linked in 30 ms, and LLD's threads may not fail to start. Nothing mapped: a disk that is
  // full would be a signal.
  std::vector<const char *> command = {"ld.lld", "--threads=1", "--no-mmap-output-file", "-o", output.c_str()};
  for (const std::string &argument : arguments)
    command.push_back(argument.c_str());
  std::string messages, reason;
  llvm::raw_string_ostream stream(messages);
  // Without it LLD's fatal errors would end the process.
  llvm::CrashRecoveryContext::Enable();
  llvm::install_fatal_error_handler(leaveLinker, &reason);
  lld::Result result = lld::lldMain(command, stream, stream, {{lld::Gnu, &lld::elf::link}});
  llvm::remove_fatal_error_handler();
  llvm::CrashRecoveryContext::Disable();
  broken = !result.canRunAgain;
  if (!reason.empty())
    throw support::UserError("cannot write " + output + ": " + reason);
  if (result.retCode == 0)
    return true;
  if (llvm::StringRef(messages).contains(std::strerror(ENOMEM)))
    throw support::MachineError("there is not enough memory to link " + output);
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(messages).split(lines, "\n", -1, false);
  llvm::erase_if(lines, [](llvm::StringRef line) { return line.contains(": warning: "); });
  for (llvm::StringRef &line : lines)
    line.consume_front("ld.lld: error: ");
  error = "linking failed: " + llvm::join(lines, "\n");
  return false;
}

bool quern::codegen::linkShared(const std::vector<std::string> &objects, const std::string &output,
                                std::string &error) {
  std::vector<std::string> arguments = {"-shared", "--eh-frame-hdr"};
  arguments.insert(arguments.end(), objects.begin(), objects.end());
  return runLinker(arguments, output, error);
}

/// Rewrites the object or executable `file` by `config`.
static bool rewrite(const std::string &file, llvm::objcopy::ConfigManager &config, std::string &error) {
  std::string bytes;
  {
    llvm::Expected<llvm::object::OwningBinary<llvm::object::Binary>> binary = llvm::object::createBinary(file);
    if (!binary) {
      error = file + ": " + llvm::toString(binary.takeError());
      return false;
    }
    config.Common.InputFilename = config.Common.OutputFilename = file;
    llvm::raw_string_ostream stream(bytes);
    if (llvm::Error failure = llvm::objcopy::executeObjcopyOnBinary(config, *binary->getBinary(), stream)) {
      error = file + ": " + llvm::toString(std::move(failure));
      return false;
    }
  }
  std::ofstream stream(file, std::ios::binary | std::ios::trunc); // what may run it stays
  if (!stream.write(bytes.data(), bytes.size()).flush())
    throw support::UserError("cannot write " + file + ": " + std::strerror(errno));
  return true;
}

bool quern::codegen::renameSymbols(const std::string &file, const std::map<std::string, std::string> &names,
                                   std::string &error) {
  llvm::objcopy::ConfigManager config;
  for (const auto &[from, to] : names)
    config.Common.SymbolsToRename[from] = to;
  return rewrite(file, config, error);
}

bool quern::codegen::keepGlobals(const std::string &file, const std::vector<std::string> &kept, std::string &error) {
  llvm::objcopy::ConfigManager config;
  config.Common.StripUnneeded = true;
  for (const std::string &name : kept)
    if (llvm::Error failure = config.Common.SymbolsToKeepGlobal.addMatcher(
            llvm::objcopy::NameOrPattern::create(name, llvm::objcopy::MatchStyle::Literal, {}))) {
      error = llvm::toString(std::move(failure));
      return false;
    }
  return rewrite(file, config, error);
}

bool quern::codegen::archiveObject(const std::string &object, const std::string &output, std::string &error) {
  llvm::Expected<llvm::NewArchiveMember> member = llvm::NewArchiveMember::getFile(object, /*Deterministic=*/true);
  if (!member) {
    error = object + ": " + llvm::toString(member.takeError());
    return false;
  }
  member->MemberName = llvm::sys::path::filename(object); // not where it was
  std::vector<llvm::NewArchiveMember> members;
  members.push_back(std::move(*member));
  if (llvm::Error failure =
          llvm::writeArchive(output, members, llvm::SymtabWritingMode::NormalSymtab, llvm::object::Archive::K_GNU,
                             /*Deterministic=*/true, /*Thin=*/false)) {
    error = output + ": " + llvm::toString(std::move(failure));
    return false;
  }
  return true;
}
