// The questions of KernelProducer.h, answered for Halide on GPUs: an object holds the source of a kernel's launches, and
// code for the host that hands it to the device's driver (runtime/device). Nothing of a kernel is computed on the host.
#include "codegen/halide/gpu/GpuProducer.h"

#include "codegen/halide/EmitKernel.h"
#include "codegen/halide/HalideBase.h"
#include "codegen/halide/HalideError.h"
#include "codegen/halide/gpu/GeneralScan.h"

namespace quern::codegen {

static const char sources[] =
#include "codegen/halide/RevisionGpu.inc"
    ;

namespace {
/// Looks for what a lowered kernel would compute on the host.
class HostStores : public Halide::Internal::IRVisitor {
public:
  std::string first;

private:
  using IRVisitor::visit;
  void visit(const Halide::Internal::For *loop) override {
    if (!Halide::Internal::is_gpu(loop->for_type))
      IRVisitor::visit(loop);
  }
  void visit(const Halide::Internal::Store *store) override {
    if (first.empty())
      first = store->name;
  }
};

class GpuProducer : public HalideBase {
public:
  GpuProducer() : HalideBase("gpu", sources) {}

  using HalideBase::refuses;
  std::optional<std::string> refuses(const KernelGraph &graph, const CpuTarget &target) const override {
    if (target.device.empty())
      return "it makes kernels for GPUs";
    return refusesScan(graph, target);
  }

  /// No scratch: what a kernel stores between its launches is the device's, which the runtime keeps for the next call.
  Scratch make(const KernelGraph &graph, const KernelPlan &plan, const CpuTarget &target, const std::string &symbol,
               EmitForm form, const std::string &path) const override {
    return naming("kernel " + graph.name, [&]() -> Scratch {
      Halide::Module module = lowerKernel(withScanBody(graph, target), symbol, plan, target);
      HostStores host;
      module.get_conceptual_stmt().accept(&host);
      if (!host.first.empty())
        throw std::runtime_error("kernel " + graph.name + ": " + host.first +
                                 " would be computed on the host, not on the " + target.device +
                                 " device; compile with --target native, and report this kernel");
      writeKernel(module, form, path);
      return {};
    });
  }

  /// The runtime has all that they call.
  bool makeShared(const CpuTarget &, const std::string &) const override { return false; }
};
} // namespace

const KernelProducer &gpuProducer() {
  static const GpuProducer producer;
  return producer;
}

} // namespace quern::codegen
