// What producers through Halide have in common: plans of the families that match a graph.
#ifndef QUERN_CODEGEN_HALIDE_HALIDEBASE_H
#define QUERN_CODEGEN_HALIDE_HALIDEBASE_H

#include "codegen/halide/Family.h"
#include "codegen/kernel/KernelProducer.h"

namespace quern::codegen {

class HalideBase : public KernelProducer {
public:
  /// `sources`: a hash of all that makes its objects.
  HalideBase(std::string name, std::string sources, KernelFamilies families)
      : families(std::move(families)), title(std::move(name)), sourceHash(std::move(sources)) {}

  using KernelProducer::refuses;
  std::string name() const override { return title; }
  std::string revision() const override;
  std::vector<Anchor> anchors(const KernelGraph &graph, const CpuTarget &target) const override;
  KernelPlan choose(const KernelGraph &graph, const CpuTarget &target, const ScheduleTable &schedules) const override;
  std::optional<std::string> refuses(const KernelPlan &plan, const KernelGraph &graph,
                                     const CpuTarget &target) const override;
  std::string loops(const KernelGraph &graph, const KernelPlan &plan, const CpuTarget &target) const override;

protected:
  const KernelFamilies families;

private:
  std::string title, sourceHash;
};

} // namespace quern::codegen
#endif
