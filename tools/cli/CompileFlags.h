// What `quern compile` and `quern run` have in common.
#ifndef QUERN_TOOLS_CLI_COMPILEFLAGS_H
#define QUERN_TOOLS_CLI_COMPILEFLAGS_H

#include "frontend/Architectures.h"
#include "tools/spec/SpecOptions.h"
#include "tools/spec/TrainingMemory.h"
#include "tools/tune/TuningDatabase.h"

namespace quern::tools {

struct CompileFlags {
  SpecOptions spec;
  MemoryOptions memory;
  std::string output, emit = "exe", target = "native", schedules, cache, from, to, weights, adapter, plans, database;
  int jobs = 0;
  std::vector<std::string> without;
  bool quiet = false, embed = false, symbols = false, remarks = false, locations = false, untuned = false;

  void add(boost::program_options::options_description &options);

  /// Where the spec's word leads to a checkpoint: its spec, config and weights are taken (and the adapter, if it is
  /// one, whose base model the rest is then), and its architecture is the result. Null, and nothing changes, where it names a spec. Throws std::runtime_error (tools/spec/ModelPath.h).
  const frontend::Architecture *takeCheckpoint();

  /// --precision stored: the formats that the weights have. Throws std::runtime_error without weights, and beside options that
  /// say otherwise. What f32 takes more bytes for is said on stderr.
  void takeStored();
};

/// Plans that tuning found: of the file that was named, else those of this machine, and imported ones; of several for a
/// kernel the last counts. A broken database is a warning: a program can be compiled without.
std::vector<TunedPlan> tunedPlans(const CompileFlags &flags);

/// Everything between a spec and `flags.output`. Returns the exit status.
int compile(CompileFlags &flags);

} // namespace quern::tools
#endif
