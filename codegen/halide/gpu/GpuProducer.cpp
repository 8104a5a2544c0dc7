// The questions of KernelProducer.h, answered for Halide on GPUs: an object holds the source of a kernel's launches, and
// code for the host that hands it to the device's driver (runtime/device). Nothing of a kernel is computed on the host.
#include "codegen/halide/gpu/GpuProducer.h"

#include "codegen/halide/EmitKernel.h"
#include "codegen/halide/HalideBase.h"
#include "codegen/halide/HalideError.h"
#include "codegen/halide/contraction/TakeContractions.h"
#include "codegen/halide/gpu/GeneralAttention.h"
#include "codegen/halide/gpu/GeneralScan.h"
#include "codegen/halide/gpu/GpuScheduler.h"
#include "codegen/halide/gpu/JoinModules.h"
#include "codegen/halide/gpu/Probes.h"
#include "codegen/halide/gpu/Sampling.h"
#include "support/OutputFile.h"

#include <cstring>

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

/// What the driver gets: PTX or OpenCL C. Empty for SPIR-V, which is no text.
std::string deviceCode(const Halide::Module &module) {
  std::string text;
  for (const Halide::Buffer<> &table : module.buffers())
    if (table.name().find("gpu_source") != std::string::npos) {
      const auto *begin = static_cast<const char *>(table.data());
      std::string one(begin, strnlen(begin, table.size_in_bytes()));
      if (one.size() + 8 >= table.size_in_bytes()) // else binary
        text += one;
    }
  return text;
}

class GpuProducer : public HalideBase {
public:
  GpuProducer() : HalideBase("gpu", sources, {{takeContractions, takeGeneralAttention, takeScans}, scheduleLaunches}) {}

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
      Halide::Module module = lowerKernel(withScanBody(graph, target), symbol, plan, target, families);
      HostStores host;
      module.get_conceptual_stmt().accept(&host);
      if (!host.first.empty())
        throw std::runtime_error("kernel " + graph.name + ": " + host.first +
                                 " would be computed on the host, not on the " + target.device +
                                 " device; compile with --target native, and report this kernel");
      if (std::string code = form == EmitForm::Assembly ? deviceCode(module) : ""; !code.empty())
        support::writeFile(path, code); // what computes, instead of what launches it
      else
        writeKernel(module, form, path);
      return {};
    });
  }

  /// What chooses the next token, and what measures the device: no kernels of the model's. All that those call the runtime
  /// has.
  bool shares() const override { return true; }
  void makeShared(const CpuTarget &target, const std::string &path) const override {
    naming("sampling", [&] {
      Halide::Module own = joinModules("quern_device", {samplingModule(target), probeModule(target)});
      writeKernel(own, EmitForm::Object, path);
    });
  }
};
} // namespace

const KernelProducer &gpuProducer() {
  static const GpuProducer producer;
  return producer;
}

} // namespace quern::codegen
