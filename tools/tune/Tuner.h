// Searches the plans of a program's kernels by measuring them in the program.
#ifndef QUERN_TOOLS_TUNE_TUNER_H
#define QUERN_TOOLS_TUNE_TUNER_H

#include "codegen/Compiler.h"
#include "runtime/tuning/TuneTable.h"
#include "tools/tune/TuningDatabase.h"

#include "mlir/IR/BuiltinOps.h"

#include <functional>

namespace quern::tools {

struct TuneOptions {
  codegen::CompileOptions compile;   ///< of programs; `output` and `emit` do not matter
  TuningConditions where;            ///< what the workload below means
  std::string lengths;               ///< of `where.work`, without the threads
  std::vector<std::string> workload; ///< words for a program's command `measure`
  double budget = 60;                ///< seconds for the search
  int draws = 16;                    ///< plans that differ in several numbers, for each kernel
  double tolerance = 1e-4;           ///< of results, relative to the largest number
  double least = 0.005;              ///< kernels that take less of a program than this part stay as they are
  /// Called as it goes on.
  std::function<void(const std::string &line)> progress = [](const std::string &) {};
};

struct TriedPlan {
  std::string incumbent, candidate;
  Trial trial;
};

struct TunedKernel {
  std::string name, key, title, at;
  double share = 0;          ///< of the program's time in kernels
  std::string before, after; ///< plans
  double gain = 1;           ///< the default's time by the tuned one's; measured against each other
  int trials = 0, wrong = 0;
  std::vector<TriedPlan> tried; ///< in this run and before
  bool finished = false;        ///< nothing is left to try
};

using runtime::speedText, runtime::TunedPart;

struct TuneReport {
  std::vector<TunedKernel> kernels; ///< those that take most first
  std::vector<TunedPart> parts;     ///< empty: nothing changed, or nothing was measured
  int64_t measured = 0;             ///< trials of this run
  bool finished = false;            ///< nothing is left to try
  double seconds = 0;
};

/// The name of the device on which the program computes here, for TuningConditions::machine. Throws std::runtime_error where
/// it does not run.
std::string deviceOf(mlir::ModuleOp planned, const TuneOptions &options);

/// `scheduled`: a module in phase `scheduled` with default plans. `planned`: the same in phase `planned`. Keeps every trial
/// and every plan that won in the database as soon as it is known; what is there already is not measured again. Throws
/// std::runtime_error where the program cannot be compiled or run.
TuneReport tune(mlir::ModuleOp scheduled, mlir::ModuleOp planned, const TuneOptions &options, TuningDatabase &database);

/// Makes the executable options.compile.output with default plans and others of the kernels that take time, and the
/// command `tune` (runtime/tuning/Bundle.cpp), which finds the best of them on a machine that has no compiler. What kernels
/// take is measured here where this machine runs the target's code; else all of them have other plans. The number of those.
int64_t bundle(mlir::ModuleOp scheduled, mlir::ModuleOp planned, const TuneOptions &options, TuningDatabase &database);

/// The report as a table.
std::string tuneTable(const TuneReport &report);

// What the table and the page both say.

/// The change of a kernel's plan, or that it keeps the default.
std::string planText(const TunedKernel &kernel);
/// Whether anything is left to try.
const char *endText(const TuneReport &report);
/// `rows 6 -> 8, unroll 4 -> 2`: how a plan differs from another one.
std::string planChange(const std::string &before, const std::string &after);

} // namespace quern::tools
#endif
