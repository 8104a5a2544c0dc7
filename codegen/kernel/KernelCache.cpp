// Takes: keys and what was compiled under them. Gives: the same again, or nothing.
//
//   quern-kernel 1\n   checksum of the rest (16 bytes)   count   length, bytes of each part ...
//
// Why a checksum: a flipped bit in machine code would compute wrong numbers, or crash, without a word. Why one file for
// all parts: no two of them can come from different compilations. OutputFile writes it: whole or not at all.
#include "codegen/kernel/KernelCache.h"

#include "support/Error.h"
#include "support/OutputFile.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <stdexcept>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace fs = std::filesystem;

namespace quern::codegen {

static constexpr char magic[] = "quern-kernel 1\n";
static constexpr char suffix[] = ".kernel";

static std::string digestOf(const char *bytes, size_t count) {
  XXH128_canonical_t digest;
  XXH128_canonicalFromHash(&digest, XXH3_128bits(bytes, count));
  return std::string(reinterpret_cast<const char *>(digest.digest), sizeof digest.digest);
}

std::string KernelCache::keyOf(std::string_view text) {
  std::string key;
  for (unsigned char byte : digestOf(text.data(), text.size())) {
    key += "0123456789abcdef"[byte >> 4];
    key += "0123456789abcdef"[byte & 15];
  }
  return key;
}

uint64_t KernelCache::sizeLimit(const char *variable, uint64_t otherwise) {
  const char *text = std::getenv(variable);
  char *end = nullptr;
  uint64_t mebibytes = text ? std::strtoull(text, &end, 10) : otherwise;
  if (text && (end == text || *end || mebibytes > (1u << 30)))
    throw std::runtime_error(std::string(variable) + " is '" + text + "'; a number of MiB is needed");
  return mebibytes << 20;
}

KernelCache::KernelCache(const fs::path &folder, uint64_t most) : folder(folder), most(most) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw std::runtime_error("cannot make the folder " + folder.string() + ": " + error.message() +
                             "; name another with --cache-dir");
  support::removeAbandoned(folder.string());
}

KernelCache::~KernelCache() {
  evict();
}

fs::path KernelCache::pathOf(const std::string &key) const {
  return folder / (key + suffix);
}

/// Calls `visit` for each file; files that go away meanwhile are left out.
template <class Visit> static void forEachFile(const fs::path &folder, Visit visit) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (struct stat status{}; !lstat(at->path().c_str(), &status) && S_ISREG(status.st_mode))
      visit(at->path(), status);
}

/// By the time of the last use, which `find` notes. Whatever else is in the folder (entries of older versions) is
/// counted, too; what another process writes is not.
void KernelCache::evict() const {
  struct File {
    fs::path path;
    timespec used;
    uint64_t bytes;
  };
  std::vector<File> files;
  uint64_t all = 0;
  forEachFile(folder, [&](const fs::path &path, const struct stat &status) {
    if (support::isUnfinished(path.filename().string()))
      return;
    files.push_back({path, status.st_mtim, static_cast<uint64_t>(status.st_size)});
    all += status.st_size;
  });
  if (all <= most)
    return;
  std::sort(files.begin(), files.end(), [](const File &a, const File &b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  for (const File &file : files) {
    if (all <= most)
      return;
    unlink(file.path.c_str());
    all -= file.bytes;
  }
}

static void append(std::string &out, uint64_t number) {
  for (int byte = 0; byte < 8; ++byte)
    out += static_cast<char>(number >> (8 * byte));
}

static std::optional<uint64_t> take(std::string_view &in) {
  if (in.size() < 8)
    return std::nullopt;
  uint64_t number = 0;
  for (int byte = 0; byte < 8; ++byte)
    number |= static_cast<uint64_t>(static_cast<unsigned char>(in[byte])) << (8 * byte);
  in.remove_prefix(8);
  return number;
}

static std::optional<KernelCache::Parts> partsOf(std::string_view file) {
  constexpr size_t magicSize = sizeof magic - 1, digestSize = 16;
  if (file.size() < magicSize + digestSize || file.substr(0, magicSize) != magic)
    return std::nullopt;
  std::string_view digest = file.substr(magicSize, digestSize), rest = file.substr(magicSize + digestSize);
  if (digestOf(rest.data(), rest.size()) != digest)
    return std::nullopt;
  KernelCache::Parts parts;
  std::optional<uint64_t> count = take(rest);
  for (uint64_t i = 0; count && i < *count; ++i) {
    std::optional<uint64_t> size = take(rest);
    if (!size || *size > rest.size())
      return std::nullopt;
    parts.emplace_back(rest.substr(0, *size));
    rest.remove_prefix(*size);
  }
  return parts;
}

std::optional<KernelCache::Parts> KernelCache::find(const std::string &key) const {
  fs::path path = pathOf(key);
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return std::nullopt;
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::optional<Parts> parts = partsOf(bytes);
  if (parts)
    utimensat(AT_FDCWD, path.c_str(), nullptr, 0); // used now
  return parts;
}

void KernelCache::keep(const std::string &key, const Parts &parts) const {
  std::string content;
  append(content, parts.size());
  for (const std::string &part : parts) {
    append(content, part.size());
    content += part;
  }
  content = magic + digestOf(content.data(), content.size()) + content;
  try {
    support::writeFile(pathOf(key).string(), content);
  } catch (const support::UserError &error) {
    throw support::UserError(std::string(error.what()) + "; name another folder with --cache-dir");
  }
}

KernelCache::Parts KernelCache::get(const std::string &key, const std::function<Parts()> &make, bool *found) const {
  std::optional<Parts> parts = find(key);
  if (found)
    *found = parts.has_value();
  if (!parts) {
    parts = make();
    keep(key, *parts);
  }
  return std::move(*parts);
}

void writeWhole(const fs::path &path, const std::string &bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file)
    throw std::runtime_error("cannot write " + path.string() + "; is the disk full?");
}

} // namespace quern::codegen
