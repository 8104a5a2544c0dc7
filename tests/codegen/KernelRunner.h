// Compiles one kernel to a shared library, loads it and runs it on given tensors.
#ifndef QUERN_TESTS_CODEGEN_KERNELRUNNER_H
#define QUERN_TESTS_CODEGEN_KERNELRUNNER_H

#include "codegen/halide/EmitKernel.h"
#include "codegen/schedule/Schedule.h"
#include "tests/codegen/Reference.h"

#include <memory>

namespace quern::codegen {

class KernelRunner {
public:
  /// Compiles; `graph` must outlive this. For a target by name by way of assembly, of which each instruction must be
  /// the target's (throws std::runtime_error). What the machine cannot run is only compiled.
  KernelRunner(const KernelGraph &graph, const CpuTarget &target = cpuTarget("native"),
               const ScheduleTable &schedules = ScheduleTable::standard());
  KernelRunner(const KernelGraph &graph, const CpuTarget &target, const KernelPlan &plan);
  ~KernelRunner();
  KernelRunner(const KernelRunner &) = delete;

  /// Gives room for arguments and results, in their layouts, and fills the arguments.
  void bind(const Lengths &lengths, const std::vector<DenseTensor> &arguments);
  /// The only result lies where this argument lies.
  void shareResult(int argument);
  int run();
  DenseTensor result(size_t i) const;
  double compileSeconds = 0;

  /// The kernel's loops run in the calling thread alone.
  void useOneThread();
  /// Scratch that was planned for the lengths bound, and the most that was in use at one time in the last run: in the
  /// calling thread, and in any other.
  ScratchBytes planned() const;
  const Scratch &scratch() const { return memory; } ///< the plan for any lengths
  ScratchBytes used() const { return peak; }

private:
  struct Buffer;
  const KernelGraph &graph;
  std::string folder;
  void *library = nullptr, *function = nullptr;
  Scratch memory;
  ScratchBytes peak;
  Lengths lengths;
  std::vector<std::unique_ptr<Buffer>> buffers; ///< arguments, then results
};

/// Deterministic values: reals in [-1, 1), ints in [0, 7), bools.
DenseTensor randomTensor(const Node &node, const Lengths &lengths, uint64_t seed);

} // namespace quern::codegen
#endif
