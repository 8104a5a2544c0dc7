// Compiles one kernel to a shared library, loads it and runs it on given tensors. There are two of it: for the processor, and
// (DeviceKernelRunner.cpp) for an OpenCL device, whatever target it is asked for; so the same tests are both's.
#ifndef QUERN_TESTS_CODEGEN_SUPPORT_KERNELRUNNER_H
#define QUERN_TESTS_CODEGEN_SUPPORT_KERNELRUNNER_H

#include "codegen/halide/EmitKernel.h"
#include "codegen/schedule/Schedule.h"
#include "tests/codegen/support/KernelCall.h"

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
  /// A result is where this argument is.
  void shareResult(int argument, int result = 0);
  int run();
  DenseTensor result(size_t i) const;
  /// What its plan rounds beyond what the graph says: of CUDA's attention.
  Rounding rounding(const Lengths &lengths) const;
  double compileSeconds = 0;
  /// Whether its plan multiplies by AMX's tiles.
  bool usesTiles() const;

  /// The kernel's loops run in the calling thread alone.
  void useOneThread();
  /// Scratch that was planned for the lengths bound, and the most that was in use at one time in the last run: in the
  /// calling thread, and in any other.
  ScratchBytes planned() const;
  const Scratch &scratch() const { return memory; } ///< the plan for any lengths
  ScratchBytes used() const { return peak; }

private:
  const KernelGraph &graph;
  const KernelPlan plan;
  std::string folder;
  void *library = nullptr, *function = nullptr;
  Scratch memory;
  ScratchBytes peak;
  Lengths lengths;
  KernelBuffers buffers; ///< arguments, then results
};

} // namespace quern::codegen
#endif
