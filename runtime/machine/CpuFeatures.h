// What the processor can do, by cpuid.
#ifndef QUERN_RUNTIME_MACHINE_CPUFEATURES_H
#define QUERN_RUNTIME_MACHINE_CPUFEATURES_H

#include <string>
#include <vector>

namespace quern::runtime {

/// Whether processor and system support the feature of LLVM's or Linux's name ("avx512f", "sse4_1"). Names that this
/// table does not know count as absent: better a refusal than an illegal instruction.
bool hasCpuFeature(const std::string &name);

/// Throws MachineError, naming all that is missing.
void requireCpuFeatures(const std::vector<std::string> &names);

/// Numbers below 1.2e-38 become 0 in this thread and in those that it begins from now on. Processors take a hundred
/// cycles and more for an operation on one, and a trained model's attention is full of them: half of the time of a
/// step.
void flushDenormals();

/// "Intel(R) Xeon(R) ...".
std::string cpuName();
/// The processor as tuning knows it: name, family and model, caches.
std::string machineName();

} // namespace quern::runtime
#endif
