// Takes: how factors are stored, or what is to be timed. Gives: the limit of products of these, by the runtime's probe; the best time.
#include "tests/codegen/support/BenchLimits.h"

#include "support/Error.h"

#include "runtime/machine/Probe.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

namespace quern::codegen {

double bandwidth() {
  static runtime::BandwidthProbe probe;
  return probe.measure() / 1e9;
}

/// Writes what fills all caches several times over.
static void evict() {
  static std::vector<uint64_t> memory(32 << 20, 1);
  for (uint64_t &v : memory)
    ++v;
}

/// Instructions that do nothing, in a millisecond or so: nothing but the core's front end bounds them.
static double instructionsBegun() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  double count = 0;
  do {
    for (int i = 0; i < 1000; ++i)
      asm volatile("nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop");
    count += 16000;
  } while (Clock::now() - begin < std::chrono::milliseconds(1));
  return count / std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Another thread of the core then begins half of its instructions. At the first call it is watched for two seconds.
static bool coreIsShared() {
  static double most = [] {
    double found = 0;
    for (int i = 0; i < 2000; ++i)
      found = std::max(found, instructionsBegun());
    return found;
  }();
  const double begun = instructionsBegun();
  most = std::max(most, begun);
  return begun < 0.85 * most;
}

static double bestOfRuns(bool cold, const std::function<void()> &run) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(500);
  double best = std::numeric_limits<double>::infinity();
  for (int runs = 0; runs < 3 || Clock::now() < end; ++runs) {
    if (cold)
      evict();
    const Clock::time_point start = Clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

double bestTime(bool alone, bool cold, const std::function<void()> &run) {
  if (!alone)
    return bestOfRuns(cold, run);
  double best = 0;
  for (int tries = 0; tries < 20; ++tries) {
    for (int waits = 0; waits < 2000 && coreIsShared(); ++waits)
      ;
    best = bestOfRuns(cold, run);
    if (!coreIsShared())
      break;
  }
  return best;
}

static runtime::Multiplied multiplied(Storage factors, const CpuTarget &target) {
  const bool narrow = factors == Storage::BF16,
             bytes = bitsOfCode(factors) && byteProducts(target) == ByteProducts::Fours;
  return {bytes, (narrow || bytes) && multipliesTiles(target), narrow && multipliesBF16(target)};
}

double peak(Storage factors, const CpuTarget &target) {
  static std::map<std::tuple<bool, bool, bool>, double> found;
  const runtime::Multiplied what = multiplied(factors, target);
  double &most = found[{what.bytes, what.tiles, what.pairs}];
  return most = std::max(most, runtime::measureFlops(what, target.vector) / 1e9);
}

std::string besideMultiplyAdds(double reached, const CpuTarget &target) {
  const double most = peak(Storage::F32, target);
  return support::format(", %.0f%% of %.1f by multiply-adds", 100 * reached / most, most);
}

} // namespace quern::codegen
