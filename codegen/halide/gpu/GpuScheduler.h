// Loops of a kernel on a device.
#ifndef QUERN_CODEGEN_HALIDE_GPU_GPUSCHEDULER_H
#define QUERN_CODEGEN_HALIDE_GPU_GPUSCHEDULER_H

#include "codegen/halide/KernelBuilder.h"

namespace quern::codegen {

void scheduleLaunches(KernelBuilder &builder);

class GpuScheduler {
public:
  explicit GpuScheduler(KernelBuilder &builder) : b(builder) {}
  void run();

private:
  struct Along { ///< a loop whose steps do not depend on each other
    Halide::VarOrRVar var;
    std::optional<int64_t> length;
  };
  void schedule(Stage &stage, bool concat);
  /// `within`: loops of a work-item. `sums`: it adds up. Returns the loop over the work-items of a group, within which a sum
  /// can live; nothing: there is one work-item.
  std::optional<Var> launch(Halide::Stage loops, const std::vector<Along> &along, std::vector<Halide::VarOrRVar> within,
                            bool sums);

  KernelBuilder &b;
};

} // namespace quern::codegen
#endif
