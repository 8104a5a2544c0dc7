// Searches the plans of a program's kernels by measuring them in the program.
#ifndef QUERN_TOOLS_TUNE_TUNER_H
#define QUERN_TOOLS_TUNE_TUNER_H

#include "codegen/Compiler.h"
#include "tools/tune/TuningDatabase.h"

#include "mlir/IR/BuiltinOps.h"

#include <functional>

namespace quern::tools {

struct TuneOptions {
  codegen::CompileOptions compile;   ///< of programs; `output` and `emit` do not matter
  TuningConditions where;            ///< what the workload below means
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

/// Of a part of the workload (prefill, decode, step): the program with all default plans and with all tuned ones, call by
/// call in turns.
struct TunedPart {
  std::string name;
  double before = 0, after = 0; ///< nanoseconds of a call, medians
  double ratio = 1, error = 0;  ///< after by before, the median of pairs; its standard error
  int64_t pairs = 0;
};

struct TuneReport {
  std::vector<TunedKernel> kernels; ///< those that take most first
  std::vector<TunedPart> parts;     ///< empty: nothing changed, or nothing was measured
  int64_t measured = 0;             ///< trials of this run
  bool finished = false;            ///< nothing is left to try
  double seconds = 0;
};

/// `scheduled`: a module in phase `scheduled` with default plans. `planned`: the same in phase `planned`. Keeps every trial
/// and every plan that won in the database as soon as it is known; what is there already is not measured again. Throws
/// std::runtime_error where the program cannot be compiled or run.
TuneReport tune(mlir::ModuleOp scheduled, mlir::ModuleOp planned, const TuneOptions &options, TuningDatabase &database);

/// The report as a table.
std::string tuneTable(const TuneReport &report);

// What the table and the page both say.

/// `1.028 times as fast (+- 0.003, 9 pairs)`. `ratio`: the later time by the earlier one.
std::string speedText(double ratio, double error, int64_t pairs);
/// The change of a kernel's plan, or that it keeps the default.
std::string planText(const TunedKernel &kernel);
/// Whether anything is left to try.
const char *endText(const TuneReport &report);
/// `rows 6 -> 8, unroll 4 -> 2`: how a plan differs from another one.
std::string planChange(const std::string &before, const std::string &after);

} // namespace quern::tools
#endif
