// What the machine can do at most: arithmetic in registers, reading memory.
#ifndef QUERN_RUNTIME_MACHINE_PROBE_H
#define QUERN_RUNTIME_MACHINE_PROBE_H

#include <cstdint>
#include <string>

namespace quern::runtime {

/// What is multiplied: f32, or numbers of fewer bits where there are instructions for these.
struct Multiplied {
  bool bytes = false; ///< integers of 8 bits
  bool tiles = false; ///< by AMX: those, or bf16
  bool pairs = false; ///< bf16, two products an instruction
};
/// Operations a second (a multiply-add counts two) on all threads of the pool, with the widest vectors there are and
/// nothing but registers; `mostFloats`: of a vector, for code that has no wider ones. The best of many short tries, about
/// 0.2 s. What a program did is a limit too, if it is more: tries may meet other work.
double measureFlops(Multiplied what = {}, int mostFloats = 16);
/// "AVX-512", "AVX2", "SSE2": what measureFlops used.
std::string vectorName();

/// Bytes a second that all threads of the pool read together, again and again, of so much memory, in one stream each or in several.
/// The best of several tries. `most`: what is not more than a cache holds is read from there.
class BandwidthProbe {
public:
  static constexpr uint64_t largest = uint64_t(512) << 20;
  explicit BandwidthProbe(uint64_t most = largest);
  ~BandwidthProbe();
  double measure();
  /// The same in 10 ms, between other work.
  double measureBriefly();

private:
  struct Memory;
  double read(int from, int pieces, int way);
  Memory *memory;
  int next = 0;
};

} // namespace quern::runtime
#endif
