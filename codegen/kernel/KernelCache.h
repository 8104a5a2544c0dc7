// Compiled kernels that stay between compilations, by content.
#ifndef QUERN_CODEGEN_KERNEL_KERNELCACHE_H
#define QUERN_CODEGEN_KERNEL_KERNELCACHE_H

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::codegen {

/// A folder of entries, each several parts (an object, its scratch) under a key. Compilations in other processes may use
/// the same folder at the same time: an entry is one file, which appears whole or not at all.
class KernelCache {
public:
  using Parts = std::vector<std::string>;

  /// Makes the folder; removes what was left by killed compilations. `most`: bytes that entries may have together when
  /// the cache is closed. Throws std::runtime_error.
  explicit KernelCache(const std::filesystem::path &folder, uint64_t most = sizeLimit());
  /// Removes the entries that were not used for longest, as long as all are too large.
  ~KernelCache();
  KernelCache(const KernelCache &) = delete;

  /// The key of all that decides an entry's content.
  static std::string keyOf(std::string_view text);

  /// What was kept, if it is there and as it was written: each entry carries a checksum of its content.
  std::optional<Parts> find(const std::string &key) const;
  /// Keeps the parts. Throws std::runtime_error where the disk is full or the folder cannot be written.
  void keep(const std::string &key, const Parts &parts) const;
  /// The parts, made and kept if they are not there; `found`: whether they were.
  Parts get(const std::string &key, const std::function<Parts()> &make, bool *found = nullptr) const;

  /// $QUERN_CACHE_SIZE in MiB, else 2 GiB.
  static uint64_t sizeLimit() { return sizeLimit("QUERN_CACHE_SIZE", 2048); }
  /// In bytes, what a variable of the environment says in MiB, as is the other number. Throws std::runtime_error where it says
  /// something else.
  static uint64_t sizeLimit(const char *variable, uint64_t otherwise);

private:
  std::filesystem::path pathOf(const std::string &key) const;
  void evict() const;

  std::filesystem::path folder;
  uint64_t most;
};

/// Writes the bytes of a file of the compiler's own, which need not outlive the machine. Throws std::runtime_error where not all of them reach the file.
void writeWhole(const std::filesystem::path &path, const std::string &bytes);

} // namespace quern::codegen
#endif
