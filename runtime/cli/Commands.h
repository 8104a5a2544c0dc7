// The subcommands of an emitted program.
#ifndef QUERN_RUNTIME_CLI_COMMANDS_H
#define QUERN_RUNTIME_CLI_COMMANDS_H

#include "runtime/abi/Abi.h"
#include "runtime/cli/Options.h"
#include "runtime/engine/Session.h"
#include "runtime/tokenizer/Tokenizer.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace quern::runtime {

/// Everything that main does: chooses the subcommand, turns exceptions into messages and exit statuses (0 done, 1 the
/// input was wrong, 2 the machine cannot).
int runProgram(const quern_program_table &table, int argumentCount, char **arguments);

// Options of all commands that read a checkpoint.
inline constexpr Options::Known weightsOption = {
    "--weights", "PATH", "a .safetensors or .gguf file, an index of shards, or a folder with one"};
inline constexpr Options::Known adapterOption = {
    "--adapter", "FOLDER", "a LoRA adapter as PEFT writes it, added to the weights (may be repeated)"};

/// What subcommands share.
struct Command {
  const Program &program;
  std::string executable; // its path, to find what is in its tail or beside it
  std::vector<std::string> arguments;

  /// Tensors as --weights says, or the program's own, or those beside it. Throws UserError if there are none.
  std::unique_ptr<TensorSource> openTensors(const Options &options) const;
  /// The same, with each --adapter added, laid out for the kernels.
  std::unique_ptr<Weights> openWeights(const Options &options) const;
  /// --tokenizer, or tokenizer.json beside the weights, in the program's tail or beside it; nothing if there is none.
  std::optional<Tokenizer> openTokenizer(const Options &options) const;
  /// The same, or a UserError about where it was looked for.
  Tokenizer needTokenizer(const Options &options) const;
  /// The content of a file beside the tokenizer or the weights, or among those that the program carries.
  std::optional<std::string> readBeside(const Options &options, const std::string &name) const;
  /// A file that is beside the tokenizer or the weights; empty if there is none.
  std::string findBeside(const Options &options, const std::string &name) const;
};

int generateCommand(const Command &command);
int chatCommand(const Command &command);
int evalCommand(const Command &command);
int embedCommand(const Command &command);
int benchCommand(const Command &command);
int packCommand(const Command &command);
int infoCommand(const Command &command);
int tuneCommand(const Command &command);

class Workload; // Workload.h

/// What only programs compiled with --train have (runtime/training).
struct TrainingCommands {
  int (*grad)(const Command &command);
  int (*train)(const Command &command);
  int (*bench)(const Command &command, const Options &options);
  std::unique_ptr<Workload> (*workload)(const Command &command, const Options &options);
};
int trainBenchCommand(const Command &command, const Options &options);
/// Steps of training on --batch rows of -p tokens.
std::unique_ptr<Workload> trainingWorkload(const Command &command, const Options &options);

/// What only programs have that `quern tune` makes (runtime/tuning).
struct TuningCommands {
  int (*measure)(const Command &command);
  int (*tune)(const Command &command);
};

/// What `eval` and `grad` begin with: reads the options, checks that --input and --output are there, sets the threads.
/// False where only help was asked for.
bool openFileCommand(Options &options, const std::string &name, const Command &command);

/// Starts the threads that --threads asks for; a warning where the system starts fewer.
void configureThreads(const Options &options);

/// "1,2,3". Throws UserError for anything else.
std::vector<int> parseTokens(const std::string &text);
/// Standard input to its end.
std::string readStandardInput();

} // namespace quern::runtime

/// Absent (their addresses are null) where the libraries are not linked.
extern "C" __attribute__((weak)) const quern::runtime::TrainingCommands quern_training_commands;
extern "C" __attribute__((weak)) const quern::runtime::TuningCommands quern_tuning_commands;
/// Of `quern tune --bundle` alone: what its versions of kernels are, as JSON (runtime/tuning/Bundle.cpp).
extern "C" __attribute__((weak)) const char quern_bundle[];
#endif
