// The folder of a training run: checkpoints that are there whole or not at all, the log, the report.
#ifndef QUERN_RUNTIME_TRAINING_RUNFOLDER_H
#define QUERN_RUNTIME_TRAINING_RUNFOLDER_H

#include "runtime/training/Trainer.h"

#include <map>
#include <string>
#include <vector>

namespace quern::runtime {

/// OUT/checkpoint-STEP/ with model.safetensors, optimizer.safetensors and the small files given; OUT/train.jsonl.
class RunFolder {
public:
  /// Makes the folder. Throws UserError if it holds a run and `resume` is false, or none and it is true.
  /// Holds it while it lives: a second training there is a UserError, too.
  RunFolder(const std::string &path, bool resume);
  ~RunFolder();
  RunFolder(const RunFolder &) = delete;
  RunFolder &operator=(const RunFolder &) = delete;

  /// Writes a checkpoint beside its place, syncs it, then renames it; after that, drops older ones but `keep` and those
  /// in `kept`.
  void save(const Trainer &trainer, const std::map<std::string, std::string> &files, size_t keep, uint64_t keptStep);
  /// The newest checkpoint's folder; empty if there is none.
  std::string newest() const;
  const std::string &path() const { return folder; }
  std::string checkpoint(uint64_t step) const;

private:
  std::string folder;
  int held = -1;
  std::vector<uint64_t> steps() const; // of whole checkpoints, in order
};

/// Throws UserError where a file of the checkpoint is not what `save` wrote.
void verifyCheckpoint(const std::string &path);

/// The options that the newest checkpoint in `path` was made with. Throws UserError where there is none.
std::vector<std::string> storedArguments(const std::string &path);

/// train.jsonl: a JSON object a line, appended at once.
class RunLog {
public:
  /// Continues the log at `path`; lines of steps beyond `step` are dropped, as the run writes them again.
  RunLog(const std::string &path, uint64_t step);
  ~RunLog();
  void write(const std::string &line);
  const std::vector<std::string> &lines() const { return all; }

private:
  std::string path;
  int file = -1;
  std::vector<std::string> all;
};

} // namespace quern::runtime
#endif
