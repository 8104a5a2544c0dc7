// Takes: a target's vectors, Linux, or a person's word. Gives: a machine.
#include "support/Machine.h"

#include "support/Error.h"
#include "support/Processors.h"

#include <cstdlib>
#include <unistd.h>

namespace quern::support {

Machine assumedMachine() {
  Machine machine;
  machine.name = "two threads with 16 lanes";
  machine.threads = 2;
  // Measured on cloud machines (Ice Lake, Zen 5): 2.3 GHz, two multiply-adds of a vector each cycle; elementwise code
  // reaches a quarter of that.
  machine.products = 300e9;
  machine.operations = 80e9;
  machine.ofOneRow = 30e9;
  machine.bandwidth = 15e9;
  machine.caches[0] = int64_t(32) << 10, machine.caches[1] = int64_t(1) << 20, machine.caches[2] = int64_t(32) << 20;
  return machine;
}

Machine thisMachine(const std::string &name) {
  Machine machine;
  machine.name = name;
  machine.threads = availableThreads();
  const int levels[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
  for (int i = 0; i < 3; ++i)
    if (long bytes = sysconf(levels[i]); bytes > 0)
      machine.caches[i] = bytes;
  return machine;
}

Machine machineFrom(const std::string &text) {
  Machine machine;
  char *end = nullptr;
  machine.products = 1e9 * std::strtod(text.c_str(), &end);
  if (*end == ',')
    machine.bandwidth = 1e9 * std::strtod(end + 1, &end);
  if (*end || !(machine.products > 0) || !(machine.bandwidth > 0))
    throw UserError("--machine " + text + ": GFLOP/s and GB/s are needed, 420,20 for example");
  machine.name = "a machine as given";
  machine.known = Machine::Known::Given;
  return machine;
}

} // namespace quern::support
