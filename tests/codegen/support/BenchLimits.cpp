// Takes: how factors are stored. Gives: the limit of products of these, by the runtime's probe.
#include "tests/codegen/support/BenchLimits.h"

#include "runtime/machine/Probe.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

namespace quern::codegen {

double bandwidth() {
  static runtime::BandwidthProbe probe;
  return probe.measure() / 1e9;
}

void evict() {
  static std::vector<uint64_t> memory(32 << 20, 1);
  for (uint64_t &v : memory)
    ++v;
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

} // namespace quern::codegen
