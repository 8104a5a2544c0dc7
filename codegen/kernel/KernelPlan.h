// How one kernel is made: by whom, and with which numbers. Chosen before anything is built.
#ifndef QUERN_CODEGEN_KERNEL_KERNELPLAN_H
#define QUERN_CODEGEN_KERNEL_KERNELPLAN_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace quern::codegen {

/// What one family does in a kernel: a contraction, an attention, or all rows.
struct PlanPart {
  std::string family;
  std::map<std::string, int64_t> numbers;

  /// Throws std::logic_error for a number that the family's space does not have: plans are checked before they are used.
  int operator[](const std::string &name) const;
  /// AMX's tiles of rows at a time; 0: none, or a family that has no such number.
  int tiles() const;
  bool operator==(const PlanPart &) const = default;
};

struct KernelPlan {
  std::string producer;
  std::vector<PlanPart> parts; ///< one for each of the kernel's anchors (KernelMatch.h), in their order

  /// `halide: contract(columns = 64, rows = 6), map(work = 32768)`: equal texts are equal plans.
  std::string text() const;
  bool operator==(const KernelPlan &) const = default;
};

} // namespace quern::codegen
#endif
