// Takes: nothing. Gives: an empty folder of the process's own, and a clean $TMPDIR.
// Why a lock and not a process's number: numbers are used again, and two containers that share $TMPDIR have the same.
#include "support/TemporaryFolder.h"

#include "support/Error.h"
#include "support/Files.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace quern::support {

/// A folder that nobody holds, and that is old enough to be held by now.
static void removeAbandoned(const std::string &folder) {
  int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  struct stat status;
  if (descriptor < 0)
    return;
  bool own = ::fstat(descriptor, &status) == 0 && status.st_uid == ::geteuid();
  if (own && status.st_mtime + 10 < ::time(nullptr) && ::flock(descriptor, LOCK_EX | LOCK_NB) == 0) {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  ::close(descriptor);
}

static std::string usualBase() {
  const char *set = std::getenv("TMPDIR");
  return set && *set ? set : "/tmp";
}

TemporaryFolder::TemporaryFolder() try : TemporaryFolder(usualBase(), "quern-work-") {
} catch (const UserError &error) {
  throw UserError(error.what() + std::string("; $TMPDIR may name another place"));
}

TemporaryFolder::TemporaryFolder(const std::string &base, const std::string &prefix) {
  try {
    for (const std::string &name : namesIn(base))
      if (name.starts_with(prefix))
        removeAbandoned(base + "/" + name);
  } catch (const UserError &) { // mkdtemp says what is wrong, if anything
  }
  folder = base + "/" + prefix + "XXXXXX";
  if (!::mkdtemp(folder.data()))
    throw UserError("cannot make a folder in " + base + ": " + systemMessage(errno));
  held = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (held >= 0)
    ::flock(held, LOCK_EX | LOCK_NB);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (held >= 0)
    ::close(held);
}

} // namespace quern::support
