// What this machine can do, for the benchmark of kernels.
#ifndef QUERN_TESTS_CODEGEN_SUPPORT_BENCHLIMITS_H
#define QUERN_TESTS_CODEGEN_SUPPORT_BENCHLIMITS_H

#include "codegen/Targets.h"
#include "codegen/kernel/Storage.h"

#include <functional>

namespace quern::codegen {

/// GB/s that all threads read together.
double bandwidth();
/// GFLOP/s of code for a target that multiplies two factors which are stored so, in registers: the most that any probe of this run
/// found, as other work only ever lowers it.
double peak(Storage factors, const CpuTarget &target);
/// ", 120% of 437.0 by multiply-adds": of what tiles multiply as pieces of f32.
std::string besideMultiplyAdds(double reached, const CpuTarget &target);
/// Seconds of the best of the runs of about half a second, three at least. `cold`: caches are filled with something else before each.
/// `alone`: such a half second counts only if nobody shares this thread's core before and after it; after twenty of them, whatever it is.
double bestTime(bool alone, bool cold, const std::function<void()> &run);

} // namespace quern::codegen
#endif
