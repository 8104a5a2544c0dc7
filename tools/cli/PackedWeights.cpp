// Takes: a program and its checkpoint. Gives: a folder in which the weights are as the program's kernels read them.
// Why no checksum at each start: reading all of a file takes as long as the start may. The file's size and time stand beside
// it; where they differ, the checksum of its content decides.
#include "tools/cli/PackedWeights.h"

#include "codegen/kernel/KernelCache.h"
#include "support/CheckpointFiles.h"
#include "support/Files.h"
#include "support/OutputFile.h"
#include "support/TemporaryFolder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <iostream>
#include <optional>
#include <spawn.h>
#include <sstream>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace quern::tools {

static constexpr char weightsFile[] = "/model.safetensors", stampFile[] = "/packed.txt";

uint64_t PackedWeights::sizeLimit() {
  return codegen::KernelCache::sizeLimit("QUERN_PACKED_SIZE", 16384);
}

/// Size and time of a file; nothing if there is none.
static std::optional<std::string> stateOf(const std::string &path) {
  struct stat status{};
  if (stat(path.c_str(), &status) || !S_ISREG(status.st_mode))
    return std::nullopt;
  return std::to_string(status.st_size) + " " + std::to_string(status.st_mtim.tv_sec) + "." +
         std::to_string(status.st_mtim.tv_nsec);
}

namespace {
struct Stored {
  std::string state; ///< names, sizes and times of all that a checkpoint is read from
  uint64_t bytes = 0;
};
} // namespace

static Stored stateOfCheckpoint(const std::string &checkpoint) {
  Stored stored{fs::weakly_canonical(checkpoint).string() + "\n", 0};
  std::vector<std::string> files;
  if (support::isFolder(checkpoint)) {
    for (const std::string &name : support::namesIn(checkpoint))
      files.push_back(checkpoint + "/" + name);
    for (const std::string &module : support::modulesWithWeights(checkpoint))
      files.push_back(checkpoint + "/" + module + "/model.safetensors");
  } else {
    files = support::ggufParts(checkpoint);
    for (const char *name : support::filesBesideWeights)
      files.push_back(support::folderOf(checkpoint) + "/" + name);
    for (const char *name : support::vocabulariesBesideWeights)
      files.push_back(support::folderOf(checkpoint) + "/" + name);
  }
  for (const std::string &file : files)
    if (std::optional<std::string> state = stateOf(file)) {
      stored.state += support::nameOf(file) + " " + *state + "\n";
      stored.bytes += std::stoull(*state);
    }
  return stored;
}

/// The checksum of a file that may be larger than what is read at once.
static std::string digestOf(const std::string &path) {
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status{};
  if (file < 0 || fstat(file, &status) || status.st_size == 0) {
    if (file >= 0)
      close(file);
    return "";
  }
  auto bytes = size_t(status.st_size);
  void *data = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (data == MAP_FAILED)
    return "";
  std::string digest = codegen::KernelCache::keyOf(std::string_view(static_cast<const char *>(data), bytes));
  munmap(data, bytes);
  return digest;
}

/// Three lines: size and time of the packed file, its checksum, the checkpoint that it was made of.
static std::array<std::string, 3> stampOf(const std::string &entry) {
  std::istringstream text(support::readSmallFile(entry + stampFile));
  std::array<std::string, 3> lines;
  for (std::string &line : lines)
    std::getline(text, line);
  return lines;
}

static void writeStamp(const std::string &entry, const std::string &digest, const std::string &checkpoint) {
  std::optional<std::string> state = stateOf(entry + weightsFile);
  support::writeFile(entry + stampFile, state.value_or("") + "\n" + digest + "\n" + checkpoint + "\n");
}

/// Whether the packed file is the one that was written.
static bool isWhole(const std::string &entry) {
  std::array<std::string, 3> stamp = stampOf(entry);
  std::optional<std::string> state = stateOf(entry + weightsFile);
  if (!state || stamp[1].empty())
    return false;
  if (*state == stamp[0])
    return true;
  if (digestOf(entry + weightsFile) != stamp[1])
    return false;
  writeStamp(entry, stamp[1], stamp[2]); // moved or touched
  return true;
}

/// Runs `PROGRAM pack`; false where it fails, without a word: the program says the same when it reads the checkpoint.
static bool runPack(const std::string &program, const std::string &checkpoint, const std::string &into) {
  std::vector<std::string> words = {program, "pack", "--weights", checkpoint, "-o", into};
  std::vector<char *> argv;
  for (std::string &word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (int descriptor : {STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  int failed = posix_spawn(&child, program.c_str(), &actions, nullptr, argv.data(), environ), status = -1;
  posix_spawn_file_actions_destroy(&actions);
  if (failed)
    return false;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool PackedWeights::make(const std::string &program, const std::string &checkpoint, const std::string &entry) const {
  support::TemporaryFolder work(folder, "unfinished-");
  const std::string made = work.path() + "/packed";
  if (!runPack(program, checkpoint, made))
    return false;
  std::string digest = digestOf(made + weightsFile);
  std::error_code code;
  if (digest.empty() || fs::file_size(made + weightsFile, code) > most || code)
    return false;
  writeStamp(made, digest, fs::weakly_canonical(checkpoint).string());
  fs::remove_all(entry, code);
  fs::rename(made, entry, code); // another process may have been first: then its entry stays
  return fs::exists(entry + stampFile, code);
}

/// Removes what was packed from the checkpoint before it changed and for programs that are gone, then what was not used for
/// longest.
void PackedWeights::evict(const std::string &kept, const std::string &program, const std::string &checkpoint) const {
  struct Entry {
    fs::file_time_type used;
    std::string path;
    uint64_t bytes;
  };
  std::vector<Entry> entries;
  uint64_t all = 0;
  const std::string from = fs::weakly_canonical(checkpoint).string(), state = kept.substr(kept.rfind('-'));
  for (const std::string &name : support::namesIn(folder)) {
    std::error_code code;
    const std::string path = folder + "/" + name;
    fs::file_time_type used = fs::last_write_time(path + stampFile, code);
    uint64_t bytes = code ? 0 : fs::file_size(path + weightsFile, code);
    if (code)
      continue;
    const std::string itsProgram = support::folderOf(program) + "/" + name.substr(0, name.rfind('-'));
    if (path != kept && ((stampOf(path)[2] == from && !path.ends_with(state)) || !support::fileExists(itsProgram))) {
      fs::remove_all(path, code);
      continue;
    }
    entries.push_back({used, path, bytes});
    all += bytes;
  }
  std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) { return a.used < b.used; });
  for (const Entry &entry : entries)
    if (all > most && entry.path != kept) {
      std::error_code ignored;
      fs::remove_all(entry.path, ignored);
      all -= entry.bytes;
    }
}

std::string PackedWeights::get(const std::string &program, const std::string &checkpoint, bool report) const {
  std::error_code code;
  fs::create_directories(folder, code);
  Stored stored = stateOfCheckpoint(checkpoint);
  if (code || most == 0)
    return "";
  const std::string entry =
      folder + "/" + support::nameOf(program) + "-" + codegen::KernelCache::keyOf(stored.state).substr(0, 16);
  if (support::fileExists(entry + stampFile)) {
    if (isWhole(entry)) {
      fs::last_write_time(entry + stampFile, fs::file_time_type::clock::now(), code);
      return entry;
    }
    std::cerr << entry << weightsFile << " is not what was packed there (its checksum differs); it is packed again\n";
  }
  // Packed weights may have twice the bytes of stored ones (f16 as f32), and the disk keeps a tenth.
  fs::space_info space = fs::space(folder, code);
  if (code || stored.bytes > most ||
      2 * stored.bytes > space.available - std::min(space.available, space.capacity / 10))
    return "";
  if (report)
    std::cerr << "packing its weights, " << stored.bytes / 1000000 << " MB (--no-pack leaves that)\n";
  if (!make(program, checkpoint, entry))
    return "";
  evict(entry, program, checkpoint);
  return entry;
}

} // namespace quern::tools
