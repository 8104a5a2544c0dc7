// Targets by name: CPUs, and the interfaces to GPUs.
#ifndef QUERN_CODEGEN_TARGETS_H
#define QUERN_CODEGEN_TARGETS_H

#include "support/Machine.h"

#include <string>
#include <vector>

namespace quern::codegen {

struct CpuTarget {
  std::string name;     ///< as given: native, x86-64-v3, cuda ...
  std::string resolved; ///< the same, but for native what that is here: objects and tuned plans are kept by it
  std::string halide;   ///< for Halide::Target
  std::string llvmCpu;  ///< for LLVM's -mcpu: of the host program, and of kernels that Halide does not finish itself
  std::vector<std::string>
      features;  ///< what the code uses, by the names of /proc/cpuinfo ("avx512f"); the program checks them
  int vector;    ///< floats in a register
  int registers; ///< of that size
  /// The interface through which kernels reach a device of their own (`opencl`, `cuda`), which then runs all of them; what launches
  /// them is code for the CPU that the fields above describe. Empty: the CPU runs them.
  std::string device{};
  /// What choices of passes count with (for a device: of the CPU that launches, as nothing is known about it).
  support::Machine machine{};
};

/// Whether an instruction makes f32 of f16: processors with AVX have F16C; a device's language may have no f16.
inline bool widensHalves(const CpuTarget &target) {
  return target.device.empty() && target.vector >= 8;
}
/// Throws std::runtime_error that lists the known names.
CpuTarget cpuTarget(const std::string &name);
/// Whether this machine's processor can run the target's code; what is for a device runs only in a whole program.
bool machineRuns(const CpuTarget &target);
/// How a target multiplies integers of few bits, u8 by i8.
enum class ByteProducts {
  None,
  Pairs, ///< two products summed in an instruction: of bytes in 16 bits, which saturate, of 16 bits in 32 (vpmaddubsw, vpmaddwd)
  Fours ///< four products of bytes added to 32 bits (vpdpbusd)
};
ByteProducts byteProducts(const CpuTarget &target);
/// Multiply-adds of whole vectors that a core of it begins in a cycle.
int productUnits(const CpuTarget &target);
/// Whether it multiplies two pairs of bf16 and adds both products to an f32 in an instruction (vdpbf16ps).
bool multipliesBF16(const CpuTarget &target);
/// Whether that is twice as many as of f32: on Intel's processors, as far as they were here, such an instruction takes as long as two of f32.
bool gainsByBF16(const CpuTarget &target);
/// Whether it has AMX's registers of 16 rows and columns, and multiplies tiles of bf16 and of int8 in them.
bool multipliesTiles(const CpuTarget &target);
/// Which cache, 1 or 2, takes the lines of memory that a loop asks for before it reads them.
int cacheAhead(const CpuTarget &target);
/// How many bytes ahead a tile of f32 asks for the columns, and copied rows, that it reads from the second cache; 0: not at all.
int aheadInTiles(const CpuTarget &target);
/// Whether tiles ask for the lines of their results, and of later tasks' columns, while they are summed.
bool asksBesideSums(const CpuTarget &target);
/// Whether kernels can call functions of doubles (floor, pow): SPIR-V as Halide makes it has none.
bool callsDoubles(const CpuTarget &target);
/// For Halide::Target, of a kernel that multiplies bytes. Where it is another than target.halide, LLVM finishes the kernel for the
/// processor (llvm/Bitcode.h).
std::string halideOfProducts(const CpuTarget &target);

std::vector<std::string> cpuTargetNames();
std::vector<std::string> deviceTargetNames();

} // namespace quern::codegen
#endif
