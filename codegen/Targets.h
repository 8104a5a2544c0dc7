// CPU targets by name.
#ifndef QUERN_CODEGEN_TARGETS_H
#define QUERN_CODEGEN_TARGETS_H

#include <string>
#include <vector>

namespace quern::codegen {

struct CpuTarget {
  std::string name;    ///< as given: native, x86-64-v3 ...
  std::string halide;  ///< for Halide::Target
  std::string llvmCpu; ///< for LLVM's -mcpu of the host program
  std::vector<std::string>
      features;  ///< what the code uses, by the names of /proc/cpuinfo ("avx512f"); the program checks them
  int vector;    ///< floats in a register
  int registers; ///< of that size
};

/// Throws std::runtime_error that lists the known names.
CpuTarget cpuTarget(const std::string &name);
/// Whether this machine can run the target's code.
bool machineRuns(const CpuTarget &target);
std::vector<std::string> cpuTargetNames();

} // namespace quern::codegen
#endif
