// Takes: a path. Gives: its bytes through mmap.
// Why: weights are used where they are stored in the page cache; nothing is read that no kernel asks for.
#include "runtime/files/MappedFile.h"

#include "runtime/Error.h"
#include "runtime/files/MappingFaults.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace quern::runtime {

namespace {
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0)
      ::close(number);
  }
};
} // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string &path) {
  return open(path, 0, UINT64_MAX);
}

std::shared_ptr<const MappedFile> MappedFile::open(const std::string &path, uint64_t offset, uint64_t bytes) {
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)}; // a pipe without a writer must not hang
  if (file.number < 0)
    throw UserError("cannot open " + path + ": " + systemMessage(errno));
  struct stat status;
  if (::fstat(file.number, &status) != 0)
    throw UserError("cannot read " + path + ": " + systemMessage(errno));
  if (S_ISDIR(status.st_mode))
    throw UserError("cannot read " + path + ": it is a folder");
  if (!S_ISREG(status.st_mode))
    throw UserError("cannot map " + path + ": it is no regular file");
  uint64_t size = uint64_t(status.st_size);
  if (offset > size || (bytes != UINT64_MAX && bytes > size - offset))
    throw UserError(path + " is shorter than its table says");
  if (bytes == UINT64_MAX)
    bytes = size - offset;

  std::shared_ptr<MappedFile> result(new MappedFile());
  result->label = path;
  result->length = bytes;
  if (bytes == 0)
    return result;
  uint64_t page = uint64_t(::sysconf(_SC_PAGESIZE)), start = offset / page * page;
  result->mappingBytes = bytes + (offset - start);
  result->mapping = ::mmap(nullptr, result->mappingBytes, PROT_READ, MAP_PRIVATE, file.number, off_t(start));
  if (result->mapping == MAP_FAILED) {
    result->mapping = nullptr;
    throw MachineError("cannot map " + path + ": " + systemMessage(errno));
  }
  result->begin = static_cast<const uint8_t *>(result->mapping) + (offset - start);
  noteMapping(result->mapping, result->mappingBytes, result->label.c_str());
  return result;
}

std::shared_ptr<const MappedFile> MappedFile::copy(std::string_view content, std::string label) {
  std::shared_ptr<MappedFile> result(new MappedFile());
  result->owned = std::string(content);
  result->label = std::move(label);
  result->begin = reinterpret_cast<const uint8_t *>(result->owned.data());
  result->length = content.size();
  return result;
}

MappedFile::~MappedFile() {
  if (!mapping)
    return;
  forgetMapping(mapping);
  ::munmap(mapping, mappingBytes);
}

void MappedFile::release(const uint8_t *from, uint64_t bytes) const {
  if (!mapping)
    return;
  uintptr_t page = uintptr_t(::sysconf(_SC_PAGESIZE));
  uintptr_t first = (uintptr_t(from) + page - 1) / page * page, last = (uintptr_t(from) + bytes) / page * page;
  if (first < last)
    ::madvise(reinterpret_cast<void *>(first), last - first, MADV_DONTNEED);
}

} // namespace quern::runtime
