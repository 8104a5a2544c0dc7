// Takes: the state of a run. Gives: files that a kill or a full disk leaves either whole or absent.
//
// A checkpoint is a folder: it is written under a name that nothing reads (checkpoint-N.tmp), every file synced, then
// renamed. What a killed run left under such a name is removed by the next one.
#include "runtime/training/RunFolder.h"

#include "runtime/Error.h"
#include "support/Json.h"
#include "support/OutputFile.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace quern::runtime {

namespace {

const std::string prefix = "checkpoint-", unfinished = ".tmp";

/// Checkpoints are flat folders.
void removeFolder(const std::string &path) {
  for (const std::string &name : namesIn(path))
    ::unlink((path + "/" + name).c_str());
  if (::rmdir(path.c_str()) != 0)
    throw UserError("cannot remove " + path + ": " + systemMessage(errno));
}

/// With the folders above it.
void makeFolder(const std::string &path) {
  if (size_t slash = path.find_last_of('/');
      slash != std::string::npos && slash > 0 && !isFolder(path.substr(0, slash)))
    makeFolder(path.substr(0, slash));
  if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST)
    throw UserError("cannot make " + path + ": " + systemMessage(errno));
}

/// What `xxh128sum -c` reads, so that people can check a checkpoint, too.
const std::string checksums = "checksums.xxh128";

std::string hashOf(const std::string &path) {
  std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  XXH128_hash_t hash = XXH3_128bits(file->data(), file->size());
  return format("%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
}

} // namespace

RunFolder::RunFolder(const std::string &path, bool resume) : folder(path) {
  if (!resume)
    makeFolder(folder);
  if (!isFolder(folder))
    throw UserError(folder + (resume ? ": there is no run to resume" : " is no folder"));
  held = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  try {
    if (held >= 0 && ::flock(held, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      throw UserError(folder + " is in use: another training writes there");
    for (const std::string &name : namesIn(folder))
      if (name.starts_with(prefix) && name.ends_with(unfinished))
        removeFolder(folder + "/" + name);
    if (!resume && !steps().empty())
      throw UserError(folder + " holds a run already: --resume continues it, another --output starts a new run");
    if (resume && steps().empty())
      throw UserError("there is no checkpoint in " + folder + " to resume from; without --resume a run begins there");
    if (!resume) // of a run that was killed before its first checkpoint
      ::unlink((folder + "/train.jsonl").c_str());
  } catch (...) {
    ::close(held);
    throw;
  }
}

RunFolder::~RunFolder() {
  if (held >= 0)
    ::close(held);
}

void verifyCheckpoint(const std::string &path) {
  std::string text = readFile(path + "/" + checksums);
  size_t files = 0;
  for (size_t at = 0; at < text.size(); ++files) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.size() < 35 || line.substr(32, 2) != "  " || line.find('/') != std::string::npos)
      throw UserError(path + "/" + checksums + " is damaged");
    std::string file = path + "/" + line.substr(34);
    if (hashOf(file) != line.substr(0, 32))
      throw UserError(file + " is damaged: it is not what was written; resume from an older checkpoint by removing " +
                      path);
  }
  if (files == 0)
    throw UserError(path + "/" + checksums + " is damaged");
}

std::vector<uint64_t> RunFolder::steps() const {
  std::vector<uint64_t> found;
  for (const std::string &name : namesIn(folder)) {
    if (!name.starts_with(prefix))
      continue;
    std::string digits = name.substr(prefix.size());
    if (!digits.empty() && digits.size() < 19 &&
        std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; }))
      found.push_back(std::stoull(digits));
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string RunFolder::checkpoint(uint64_t step) const {
  return folder + "/" + prefix + std::to_string(step);
}

std::string RunFolder::newest() const {
  std::vector<uint64_t> all = steps();
  return all.empty() ? "" : checkpoint(all.back());
}

void RunFolder::save(const Trainer &trainer, const std::map<std::string, std::string> &files, size_t keep,
                     uint64_t keptStep) {
  std::string place = checkpoint(trainer.steps()), temporary = place + unfinished;
  if (isFolder(place)) // saved already, by a run that was resumed at this very step
    return;
  try {
    makeFolder(temporary);
    writeSafetensors(temporary + (trainer.trainsAdapters() ? "/adapter_model.safetensors" : "/model.safetensors"),
                     trainer.tensors());
    writeSafetensors(temporary + "/optimizer.safetensors", trainer.optimizerTensors());
    for (const auto &[name, text] : files)
      writeFile(temporary + "/" + name, text);
    std::string sums;
    for (const std::string &name : namesIn(temporary))
      sums += hashOf(temporary + "/" + name) + "  " + name + "\n";
    writeFile(temporary + "/" + checksums, sums);
    if (::rename(temporary.c_str(), place.c_str()) != 0)
      throw UserError("cannot write " + place + ": " + systemMessage(errno));
    syncFolder(folder);
  } catch (const UserError &) {
    if (isFolder(temporary))
      removeFolder(temporary);
    throw;
  }
  std::vector<uint64_t> all = steps();
  for (size_t i = 0; i + keep < all.size(); ++i)
    if (all[i] != keptStep) {
      // Renamed first: a kill in between must not leave half a checkpoint under its name.
      std::string old = checkpoint(all[i]) + unfinished;
      if (::rename(checkpoint(all[i]).c_str(), old.c_str()) == 0)
        removeFolder(old);
    }
}

std::vector<std::string> storedArguments(const std::string &path) {
  std::string file = RunFolder(path, true).newest() + "/train.json";
  nlohmann::json stored = nlohmann::json::parse(readFile(file), nullptr, /*allow_exceptions=*/false);
  std::vector<std::string> arguments;
  if (!stored.is_object() || !stored.contains("arguments") || !stored["arguments"].is_array())
    throw UserError(file + " does not say how the run was started");
  for (const nlohmann::json &word : stored["arguments"])
    arguments.push_back(word.is_string() ? word.get<std::string>() : "");
  return arguments;
}

// ---- the log

RunLog::RunLog(const std::string &path, uint64_t step) : path(path) {
  if (fileExists(path)) {
    std::string text = readFile(path), kept;
    for (size_t at = 0; at < text.size();) {
      size_t end = text.find('\n', at);
      if (end == std::string::npos)
        break; // a line that a kill cut
      std::string line = text.substr(at, end - at);
      at = end + 1;
      nlohmann::json entry = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!entry.is_object() ||
          (entry.contains("step") && entry["step"].is_number() && entry["step"].get<uint64_t>() > step))
        continue;
      all.push_back(line);
      kept += line + "\n";
    }
    writeFile(path, kept);
  }
  file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0)
    throw UserError("cannot write " + path + ": " + systemMessage(errno));
}

RunLog::~RunLog() {
  ::close(file);
}

void RunLog::write(const std::string &line) {
  all.push_back(line);
  std::string text = line + "\n";
  for (size_t at = 0; at < text.size();) {
    ssize_t written = ::write(file, text.data() + at, text.size() - at);
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      throw UserError("cannot write " + path + ": " + systemMessage(errno));
    at += size_t(written);
  }
}

} // namespace quern::runtime
