// What a machine can do: what choices count with when a program is compiled, and what reports compare a run with. One type, so
// that a pass, a schedule and a page never disagree on how fast memory is.
#ifndef QUERN_SUPPORT_MACHINE_H
#define QUERN_SUPPORT_MACHINE_H

#include <cstdint>
#include <string>

namespace quern::support {

struct Machine {
  std::string name;    ///< of the processor or the target
  std::string vectors; ///< "AVX-512"; empty: not known
  int threads = 1;
  /// Of all threads together, a second. A multiply-add counts two.
  double products = 0;    ///< operations of f32 products in registers, the peak
  double operations = 0;  ///< additions of numbers that are at hand, element by element; 0: not known
  double ofOneRow = 0;    ///< operations of products that share nothing, as in a step of one text; 0: not known
  double bandwidth = 0;   ///< bytes read from memory
  int64_t caches[3] = {}; ///< bytes of a core's first and second, and of the shared third; 0: not known
  /// Whose numbers these are.
  enum class Known { Assumed, Given, Measured, Profiled } known = Known::Assumed;
};

/// Two threads of a processor with AVX-512: what a compilation counts with, whatever machine it runs on, so that its
/// result is always the same.
Machine assumedMachine();

/// This machine's name, threads and caches, as Linux says them; nothing is measured.
Machine thisMachine(const std::string &name);

/// "420,20": GFLOP/s and GB/s. Throws UserError otherwise.
Machine machineFrom(const std::string &text);

} // namespace quern::support
#endif
