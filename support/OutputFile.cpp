// Takes: bytes for a path. Gives: the file, complete, or an error and the file that was there before.
// Why: a full disk or a kill must never leave half a result that looks like a whole one, and a result must never take
// the place of a device or a link.
//
// The name that is written to is `.NAME.RANDOM.tmp`, beside the target, so that renaming stays inside of one file
// system. Its writer holds a lock on it. Whoever writes to the same target next removes the names that nobody holds:
// their writers were killed.
#include "support/OutputFile.h"

#include "support/Error.h"
#include "support/Files.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace quern::support {

static constexpr size_t randomLength = 20; // 16 hexadecimal digits and ".tmp"

bool isUnfinished(std::string_view name) {
  if (name.size() < randomLength + 2 || name[0] != '.' || !name.ends_with(".tmp"))
    return false;
  std::string_view random = name.substr(name.size() - randomLength, 16);
  return name[name.size() - randomLength - 1] == '.' &&
         random.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

namespace {

/// The number in /dev/fd/N, /proc/self/fd/N, /dev/stdout and /dev/stderr, or -1. Opening such a name anew would begin at
/// the start of the file behind it, over what others have written there.
int descriptorOf(const std::string &path) {
  if (path == "/dev/stdout")
    return STDOUT_FILENO;
  if (path == "/dev/stderr")
    return STDERR_FILENO;
  for (std::string_view prefix : {"/dev/fd/", "/proc/self/fd/"})
    if (path.starts_with(prefix) && path.size() > prefix.size() && path.size() < prefix.size() + 6 &&
        path.find_first_not_of("0123456789", prefix.size()) == std::string::npos)
      return std::atoi(path.c_str() + prefix.size());
  return -1;
}

bool lock(int descriptor) {
  return ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
}

/// Removes `prefix`RANDOM.tmp in `folder`, of any prefix if it is empty, whose writers are gone.
void removeAbandoned(const std::string &folder, std::string_view prefix) {
  std::vector<std::string> names;
  try {
    names = namesIn(folder);
  } catch (const UserError &) {
    return; // a folder may be writable and not readable
  }
  for (const std::string &name : names) {
    if (!isUnfinished(name) || (!prefix.empty() && name.substr(0, name.size() - randomLength) != prefix))
      continue;
    std::string path = folder + "/" + name;
    int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0)
      continue;
    if (lock(descriptor))
      ::unlink(path.c_str());
    ::close(descriptor);
  }
}

} // namespace

std::string followLinks(std::string path) {
  char text[PATH_MAX];
  for (int i = 0; i < 40; ++i) { // as many as Linux follows
    ssize_t length = ::readlink(path.c_str(), text, sizeof(text));
    if (length <= 0)
      return path;
    std::string next(text, size_t(length));
    path = next[0] == '/' ? next : folderOf(path) + "/" + next;
  }
  return path;
}

void removeAbandoned(const std::string &folder) {
  removeAbandoned(folder, "");
}

OutputFile::OutputFile(const std::string &path, bool executable) : path(path) {
  int number = descriptorOf(path);
  if (number >= 0) {
    descriptor = ::fcntl(number, F_DUPFD_CLOEXEC, 3);
    if (descriptor < 0)
      fail(errno);
    return;
  }
  target = followLinks(path);
  struct stat status;
  bool there = ::stat(target.c_str(), &status) == 0;
  if (there && S_ISDIR(status.st_mode))
    throw UserError("cannot write " + path + ": it is a folder");
  if (there && !S_ISREG(status.st_mode)) {
    descriptor = ::open(target.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (descriptor < 0)
      fail(errno);
    return;
  }
  openTemporary(executable);
  if (there) { // as the file was: its mode, and its owner where that may be given
    mode_t mode = status.st_mode & 07777;
    if (executable)
      mode |= (mode & 0444) >> 2;
    if (::fchown(descriptor, status.st_uid, status.st_gid) != 0)
      mode &= 0777; // another's file: its set-id bits would mean something else
    ::fchmod(descriptor, mode);
  }
}

void OutputFile::openTemporary(bool executable) {
  std::string folder = folderOf(target), prefix = "." + nameOf(target).substr(0, 200) + ".";
  removeAbandoned(folder, prefix);
  for (int attempt = 0; attempt < 100; ++attempt) {
    uint64_t random;
    if (::getrandom(&random, sizeof(random), 0) != sizeof(random))
      fail(errno);
    std::string name = folder + "/" + prefix + format("%016llx", static_cast<unsigned long long>(random)) + ".tmp";
    descriptor = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, executable ? 0777 : 0666);
    if (descriptor < 0 && errno == EEXIST)
      continue;
    if (descriptor < 0)
      fail(errno);
    struct stat status;
    // Another may have taken it for abandoned before the lock was there. File systems without locks have no such
    // others.
    if (!lock(descriptor) && errno == EWOULDBLOCK) {
      ::close(descriptor);
      continue;
    }
    if (::fstat(descriptor, &status) == 0 && status.st_nlink == 0) {
      ::close(descriptor);
      continue;
    }
    temporary = name;
    return;
  }
  descriptor = -1;
  fail(EEXIST);
}

OutputFile::~OutputFile() {
  if (!temporary.empty())
    ::unlink(temporary.c_str());
  if (descriptor >= 0)
    ::close(descriptor);
}

void OutputFile::fail(int code) const {
  throw UserError("cannot write " + path + ": " + systemMessage(code));
}

void OutputFile::write(const void *data, size_t bytes) {
  const char *at = static_cast<const char *>(data);
  written += bytes;
  while (bytes > 0) {
    ssize_t count = ::write(descriptor, at, bytes);
    if (count < 0) {
      if (errno == EINTR)
        continue;
      fail(errno);
    }
    at += count;
    bytes -= size_t(count);
  }
}

void OutputFile::copy(const std::string &from) {
  int source = ::open(from.c_str(), O_RDONLY | O_CLOEXEC);
  if (source < 0)
    throw UserError("cannot open " + from + ": " + systemMessage(errno));
  std::string buffer(1 << 20, '\0');
  ssize_t count;
  int code = 0;
  try {
    while ((count = ::read(source, buffer.data(), buffer.size())) != 0) {
      if (count > 0)
        write(buffer.data(), size_t(count));
      else if (errno != EINTR) {
        code = errno;
        break;
      }
    }
  } catch (...) {
    ::close(source);
    throw;
  }
  ::close(source);
  if (code)
    throw UserError("cannot read " + from + ": " + systemMessage(code));
}

void OutputFile::commit() {
  bool renames = !temporary.empty();
  if (renames && ::fsync(descriptor) != 0)
    fail(errno);
  if (renames && ::rename(temporary.c_str(), target.c_str()) != 0)
    fail(errno);
  temporary.clear();
  int closing = ::close(descriptor);
  descriptor = -1;
  if (closing != 0 && !renames)
    fail(errno);
  if (renames)
    syncFolder(folderOf(target));
}

void writeFile(const std::string &path, std::string_view content) {
  OutputFile file(path);
  file.write(content);
  file.commit();
}

} // namespace quern::support
