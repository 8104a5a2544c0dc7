// What all commands that read a spec have in common: their options, the diagnostics on stderr, the module.
#ifndef QUERN_TOOLS_SPEC_SPECOPTIONS_H
#define QUERN_TOOLS_SPEC_SPECOPTIONS_H

#include "codegen/schedule/Schedule.h"
#include "frontend/Frontend.h"
#include "passes/Phases.h"
#include "tools/Arguments.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <boost/program_options.hpp>

namespace quern::tools {

struct SpecOptions {
  std::string spec, config;
  std::string_view builtin;          // the spec's text, where `spec` names one of the compiler's own
  std::vector<std::string> settings; // NAME=VALUE
  bool train = false;
  bool warnings = true;          // false: of a spec that was read before
  std::string precision = "f32"; // of weights, and what training keeps: f32 or bf16
  std::string kvCache;           // of what generation keeps of each position: f32, bf16, int8; empty: by the weights
  std::string quantize;          // of weights: FORMAT[,GLOB=FORMAT]...; empty: as a quantised folder's config says
  std::string lora;              // "RANK[,GLOB]...": adapters beside products with weights
  double loraScale = 2;          // what their products are multiplied by
  std::string activations = "exact"; // exact, int8 or bf16: of what multiplies weights in codes, or in bf16
  bool roundsRows = false;           // as bf16 there, if formats leave it open and some weights are multiplied so
};

/// Adds --config, --set and the positional SPEC.
void addSpecOptions(boost::program_options::options_description &options, SpecOptions &spec);

/// Where --config named none, that of a checkpoint: config.json in its folder, or what a GGUF file says.
void takeConfig(SpecOptions &spec, const std::string &weights);

/// Adds --quantize. A file's name that it was given becomes the file's formats when the options are parsed.
void addQuantize(boost::program_options::options_description &options, SpecOptions &spec);

/// Adds --lora and --lora-scale.
void addLora(boost::program_options::options_description &options, SpecOptions &spec);

/// Adds --train, --lora, --precision, --quantize, --activations and --kv-cache.
void addTrain(boost::program_options::options_description &options, SpecOptions &spec);

/// Parses `arguments`; prints help and returns false where that was asked for. Throws with a clear message otherwise.
/// `usage` is the first line of the help.
bool parseOptions(const Arguments &arguments, const std::string &usage,
                  boost::program_options::options_description &options, boost::program_options::variables_map &values,
                  const char *positional = "spec");

/// Reads the spec and the config that the options name. False, with diagnostics, where something cannot be read.
bool readInput(const SpecOptions &options, frontend::SpecInput &input, frontend::Diagnostics &diagnostics);

/// The module of a spec, or of an `.mlir` file that `quern dump` wrote. Mistakes are printed; then the result is null.
/// `names` receives what the spec's statements name (nothing of an `.mlir` file).
mlir::OwningOpRef<mlir::ModuleOp> readModule(mlir::MLIRContext &context, const SpecOptions &options,
                                             std::vector<frontend::NamedValue> *names = nullptr);

/// Takes `--compile-from FILE` as the file to read, and leaves `--compile-from PHASE` as it is.
Arguments withCompileFrom(const Arguments &arguments);

/// The phase or pass that the compiler goes on from: `given` (--compile-from), else what a dump's first line says, else
/// `resolved`. Throws std::runtime_error for a name that is none, and for a file of several dumps.
std::string startOf(const SpecOptions &options, const std::string &given);
/// The first line of a dump that the compiler reads again.
std::string dumpHeader(const std::string &after);

/// What passes must know of a target: its name as --target takes it, and a file of schedules (or an empty name).
passes::PassOptions passOptions(const std::string &target, const std::string &schedules = "",
                                const std::vector<std::string> &without = {});

/// The built-in schedules, overridden by those of a file (or an empty name).
codegen::ScheduleTable scheduleTable(const std::string &path);

/// How far the compiler is after a phase or pass: a phase is as far as its last pass, or the one before it.
int orderOf(llvm::StringRef name);
/// Throws unless `to` is a phase or pass (with what it may have meant) and not earlier than `from`.
void checkGoal(const std::string &from, const std::string &to);

/// Adds --without: passes and rules that are left out.
void addWithout(boost::program_options::options_description &options, std::vector<std::string> &without);

/// True if stderr is a terminal and NO_COLOR is not set.
bool useColour();

} // namespace quern::tools
#endif
