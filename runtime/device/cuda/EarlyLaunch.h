// Launches that begin before the one before them has ended (programmatic dependent launch, capability 9.0).
#ifndef QUERN_RUNTIME_DEVICE_CUDA_EARLYLAUNCH_H
#define QUERN_RUNTIME_DEVICE_CUDA_EARLYLAUNCH_H

#include <set>
#include <string>

namespace quern::runtime::cuda {

/// A module's PTX, whose kernels wait for what was launched before them and let the next one begin.
struct WaitingPtx {
  std::string ptx;
  /// Kernels that say where they first need that, or where they have read (codegen/tile/ptx/PtxModule.h): it is worth beginning
  /// them early, or what follows them. The others wait in their first instruction, and let the next begin then.
  std::set<std::string, std::less<>> eager;
};
WaitingPtx withWaits(std::string ptx);

} // namespace quern::runtime::cuda

#endif
