// Who makes machine code of kernels. The compiler knows producers by these questions alone.
#ifndef QUERN_CODEGEN_KERNEL_KERNELPRODUCER_H
#define QUERN_CODEGEN_KERNEL_KERNELPRODUCER_H

#include "codegen/Targets.h"
#include "codegen/kernel/KernelMatch.h"
#include "codegen/kernel/KernelPlan.h"
#include "codegen/kernel/Scratch.h"

#include <optional>

namespace quern::codegen {

class ScheduleTable;

enum class EmitForm { Object, Assembly, Llvm };

class KernelProducer {
public:
  virtual ~KernelProducer() = default;

  /// As plans name it.
  virtual std::string name() const = 0;
  /// Changes whenever it makes another object of the same kernel, plan and target.
  virtual std::string revision() const = 0;

  /// Why it cannot make the kernel for the target; nothing: it can.
  virtual std::optional<std::string> refuses(const KernelGraph &graph, const CpuTarget &target) const = 0;

  /// The parts of a kernel that its plans have numbers for, in their order.
  virtual std::vector<Anchor> anchors(const KernelGraph &graph, const CpuTarget &target) const = 0;
  /// The plan where nobody says otherwise. Throws std::runtime_error for schedules that cannot be.
  virtual KernelPlan choose(const KernelGraph &graph, const CpuTarget &target,
                            const ScheduleTable &schedules) const = 0;
  /// Why a plan is none of the kernel's; nothing: it is one of its space.
  virtual std::optional<std::string> refuses(const KernelPlan &plan, const KernelGraph &graph,
                                             const CpuTarget &target) const = 0;

  /// Writes the C function `symbol` (codegen/README.md says its arguments) and `symbol`_argv, which takes pointers to them,
  /// to `path` as the form says. `plan`: not refused.
  /// Returns the memory that it asks the runtime for. Throws std::runtime_error that names the kernel.
  virtual Scratch make(const KernelGraph &graph, const KernelPlan &plan, const CpuTarget &target,
                       const std::string &symbol, EmitForm form, const std::string &path) const = 0;
  /// Whether all kernels of a program share an object; `makeShared` writes it to a path.
  virtual bool shares() const { return false; }
  virtual void makeShared(const CpuTarget &, const std::string &) const {}
  /// What a reader wants to know of the loops; may be empty.
  virtual std::string loops(const KernelGraph &graph, const KernelPlan &plan, const CpuTarget &target) const = 0;
};

} // namespace quern::codegen
#endif
