// A search's state: a program's kernels with what is known about their plans. For Tuner.cpp and TuneBundle.cpp alone.
#ifndef QUERN_TOOLS_TUNE_KERNELTUNER_H
#define QUERN_TOOLS_TUNE_KERNELTUNER_H

#include "codegen/kernel/KernelGraph.h"
#include "codegen/schedule/PlanSearch.h"
#include "tools/tune/Measured.h"
#include "tools/tune/Tuner.h"

#include <map>
#include <memory>

namespace quern::tools {

using codegen::KernelGraph, codegen::KernelPlan, codegen::PlanSearch, codegen::TrialResult;

struct TunableKernel {
  KernelGraph graph;
  std::string key;
  KernelPlan first;
  PlanSearch search;
  std::map<std::pair<std::string, std::string>, Trial> trials;
  TunedKernel report;
  bool used = false; ///< in the workload, and for long enough
};

/// A comparison to make: of the kernel's incumbent, or its default plan, with another one.
struct Comparing {
  TunableKernel *kernel;
  KernelPlan incumbent, candidate;
};

class KernelTuner {
public:
  KernelTuner(mlir::ModuleOp scheduled, mlir::ModuleOp planned, const TuneOptions &options, TuningDatabase &database);
  TuneReport run();
  int64_t bundle();

private:
  using Clock = runtime::MeasuredProgram::Clock;
  mlir::ModuleOp planned;
  const TuneOptions &options;
  TuningDatabase &database;
  std::vector<std::unique_ptr<TunableKernel>> kernels;
  std::string programKey; ///< its kernels' keys as one
  Measured program;
  Clock::time_point begin = Clock::now();
  int64_t measured = 0;

  double spent() const { return std::chrono::duration<double>(Clock::now() - begin).count(); }
  bool isOver() const { return spent() >= options.budget; }

  std::optional<TrialResult> known(const TunableKernel &kernel, const KernelPlan &incumbent,
                                   const KernelPlan &candidate) const;
  std::vector<KernelPlan> candidatesOf(TunableKernel &kernel);
  bool findShares();
  void measureShares();
  std::vector<Comparing> nextRound();
  void measure(std::vector<Comparing> round, Clock::time_point deadline);
  std::vector<VersionTrial> build(const std::vector<Comparing> &round);
  void dropRefused(std::vector<Comparing> &round);
  void findUsed();
  std::vector<KernelPlan> allCandidates(TunableKernel &kernel) const;
  void keep(TunableKernel &kernel, const KernelPlan &incumbent, const KernelPlan &candidate, const Trial &trial);
  void keepPlan(TunableKernel &kernel, double gain);
  void confirm();
  std::vector<TunedPart> compareWhole();
};

} // namespace quern::tools
#endif
