// A file, or a part of one, mapped for reading.
#ifndef QUERN_RUNTIME_FILES_MAPPEDFILE_H
#define QUERN_RUNTIME_FILES_MAPPEDFILE_H

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace quern::runtime {

/// Bytes of a file on disk, read only. Shared, as tensors point into it.
class MappedFile {
public:
  /// Throws UserError naming the path and the reason.
  static std::shared_ptr<const MappedFile> open(const std::string &path);
  /// `bytes` bytes from `offset`; for what an executable carries in its tail.
  static std::shared_ptr<const MappedFile> open(const std::string &path, uint64_t offset, uint64_t bytes);
  /// Bytes in memory (tests, fuzzing).
  static std::shared_ptr<const MappedFile> copy(std::string_view content, std::string label);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  const uint8_t *data() const { return begin; }
  uint64_t size() const { return length; }
  std::string_view text() const { return {reinterpret_cast<const char *>(begin), length}; }
  /// For messages.
  const std::string &name() const { return label; }
  /// The pages of [from, from + bytes) are not needed soon: after packing they would only fill memory.
  void release(const uint8_t *from, uint64_t bytes) const;

private:
  MappedFile() = default;
  const uint8_t *begin = nullptr;
  uint64_t length = 0;
  void *mapping = nullptr;
  uint64_t mappingBytes = 0;
  std::string owned, label;
};

} // namespace quern::runtime
#endif
