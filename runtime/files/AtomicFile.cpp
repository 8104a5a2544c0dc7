// Takes: bytes for a path. Gives: the file, complete, or an error and the file that was there before.
// Why: a full disk or a kill must never leave half a result that looks like a whole one.
#include "runtime/files/AtomicFile.h"

#include "runtime/Error.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace quern::runtime {

AtomicFile::AtomicFile(const std::string &path) : target(path) {
  if (char *resolved = ::realpath(path.c_str(), nullptr)) { // a link keeps pointing to the new file
    target = resolved;
    std::free(resolved);
  }
  struct stat status;
  direct = ::stat(target.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
  if (direct && S_ISDIR(status.st_mode))
    throw UserError("cannot write " + path + ": it is a folder");
  if (direct) {
    descriptor = ::open(target.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    temporary = target + ".tmp." + std::to_string(::getpid());
    descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  }
  if (descriptor < 0)
    fail(errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor >= 0)
    ::close(descriptor);
  if (!temporary.empty())
    ::unlink(temporary.c_str());
}

void AtomicFile::fail(int code) {
  throw UserError("cannot write " + target + ": " + systemMessage(code));
}

void AtomicFile::write(const void *data, size_t bytes) {
  const char *at = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t written = ::write(descriptor, at, bytes);
    if (written < 0) {
      if (errno == EINTR)
        continue;
      fail(errno);
    }
    at += written;
    bytes -= size_t(written);
  }
}

void AtomicFile::commit() {
  if (!direct && ::fsync(descriptor) != 0)
    fail(errno);
  int closing = ::close(descriptor);
  descriptor = -1;
  if (closing != 0)
    fail(errno);
  if (direct)
    return;
  if (::rename(temporary.c_str(), target.c_str()) != 0)
    fail(errno);
  temporary.clear();
  size_t slash = target.rfind('/');
  std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : target.substr(0, slash);
  int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0) { // some file systems cannot sync a folder; the rename itself is done
    ::fsync(directory);
    ::close(directory);
  }
}

} // namespace quern::runtime
