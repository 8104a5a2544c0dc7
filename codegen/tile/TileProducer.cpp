// The questions of KernelProducer.h, answered for NVIDIA's tensor cores: divided into a tile program by Divide.cpp, written
// as PTX by PtxModule.cpp, launched by LaunchIr.cpp.
#include "codegen/tile/TileProducer.h"

#include "codegen/kernel/ContractionPattern.h"
#include "codegen/llvm/Backend.h"
#include "codegen/schedule/ChoosePlan.h"
#include "codegen/tile/Divide.h"
#include "codegen/tile/LaunchIr.h"
#include "codegen/tile/attend/DivideAttention.h"
#include "codegen/tile/products/Products.h"
#include "codegen/tile/ptx/PtxModule.h"
#include "codegen/tile/ptx/TensorProbe.h"
#include "support/OutputFile.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/IR/Constants.h"

#include <fstream>
#include <sstream>

namespace quern::codegen {

static const char sources[] =
#include "codegen/tile/Revision.inc"
    ;

tile::Program tile::programOf(const KernelGraph &graph, const KernelPlan &plan) {
  const PlanPart &part = plan.parts.at(0);
  Numbers numbers;
  if (holdsAttention(graph)) {
    numbers.attend = {part["rows"],   part["keys"],   part["stages"], part["warps"], part["few"],  part["split"],
                      part["pieces"], part["groups"], part["wide"],   part["ring"],  part["turns"]};
  } else {
    numbers.cut = {part["rows"],   part["columns"],   part["depth"],
                   part["stages"], part["warp_rows"], part["warp_columns"]};
    numbers.few = part["few"], numbers.split = part["split"], numbers.slice = part["slice"];
    numbers.ahead = part["ahead"];
    numbers.groups = part["groups"], numbers.wide = part["wide"], numbers.ring = part["ring"];
    numbers.some = part["some"], numbers.exact = part["exact"];
  }
  Program program;
  if (std::optional<std::string> refused = divide(graph, numbers, program))
    throw std::runtime_error("kernel " + graph.name + ": " + *refused);
  return program;
}

static std::string commented(const std::string &text) {
  std::string lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    lines += "; " + line + "\n";
  return lines;
}

namespace {
class TileProducer : public KernelProducer {
public:
  std::string name() const override { return "tile"; }
  std::string revision() const override { return LLVM_VERSION_STRING " " + std::string(sources); }

  std::optional<std::string> refuses(const KernelGraph &graph, const CpuTarget &target) const override {
    if (target.device != "cuda")
      return "it makes kernels for NVIDIA GPUs";
    if (std::any_of(graph.nodes.begin(), graph.nodes.end(),
                    [](const Node &node) { return node.op == Op::Attention && node.integer; }))
      return "its attention rounds weights by a rule of its own"; // ir/AttentionOps.td, narrow
    tile::Program program;
    if (std::optional<std::string> refused = divide(graph, tile::Numbers(), program);
        refused || !tile::holdsAttention(graph))
      return refused;
    try { // wide heads may fit no block
      chooseParts(anchors(graph, target), ScheduleTable::standard());
    } catch (const std::runtime_error &error) {
      return error.what();
    }
    return std::nullopt;
  }

  std::vector<Anchor> anchors(const KernelGraph &graph, const CpuTarget &target) const override {
    if (tile::holdsAttention(graph)) {
      Anchor anchor{"attend", -1, factsOf(target)};
      for (const auto &[name, fact] : tile::factsOfAttention(graph))
        anchor.facts[name] = fact;
      return {anchor};
    }
    for (int i = 0; i < int(graph.nodes.size()); ++i) {
      if (graph.nodes[i].op != Op::Contract)
        continue;
      tile::Factors f = tile::factorsOf(graph, i);
      std::optional<tile::Fusion> fusion = tile::fusionOf(graph, f);
      Anchor anchor{"tile", i, factsOf(target)};
      auto count = [](const std::vector<Dim> &dims) { return tile::Axis{dims}.extent().constant().value_or(0); };
      anchor.facts["outer"] = count(f.columns);
      anchor.facts["inner"] = count(f.depth);
      anchor.facts["rows"] = count(f.rows);
      anchor.facts["bits"] = support::formOf(storedAs(graph, f.w)).bits;
      anchor.facts["parts"] = fusion ? int64_t(fusion->parts.size()) : 1;
      return {anchor}; // the numbers hold for all products of the kernel
    }
    return {};
  }

  KernelPlan choose(const KernelGraph &graph, const CpuTarget &target, const ScheduleTable &schedules) const override {
    return {name(), chooseParts(anchors(graph, target), schedules)};
  }

  std::optional<std::string> refuses(const KernelPlan &plan, const KernelGraph &graph,
                                     const CpuTarget &target) const override {
    return checkParts(plan.parts, anchors(graph, target));
  }

  /// No scratch: what is kept between launches is the device's.
  Scratch make(const KernelGraph &graph, const KernelPlan &plan, const CpuTarget &target, const std::string &symbol,
               EmitForm form, const std::string &path) const override {
    tile::Program program = tile::programOf(graph, plan);
    llvm::LLVMContext context;
    llvm::Module module(symbol, context);
    std::unique_ptr<llvm::TargetMachine> machine = machineFor(target);
    aimAt(module, *machine);
    std::vector<tile::PtxModule> images;
    std::map<int, std::string> texts;
    for (int capability : tile::capabilitiesOf(program)) {
      images.push_back(tile::ptxOf(program, capability));
      texts[capability] = images.back().ptx;
    }
    if (form == EmitForm::Assembly) { // what computes, instead of what launches it
      std::string text;
      for (const tile::PtxModule &image : images)
        text += image.ptx;
      support::writeFile(path, text);
      return {};
    }
    emitLaunches(program, texts, symbol, module);
    std::string what = "kernel " + graph.name;
    optimize(module, *machine, what);
    write(module, *machine, form, path, what);
    if (form == EmitForm::Llvm) { // for readers: what the device is given, as comments
      std::ofstream file(path, std::ios::app);
      for (const tile::PtxModule &image : images)
        file << commented(image.llvm);
      if (!file.flush())
        throw std::runtime_error(what + ": cannot write " + path);
    }
    return {};
  }

  /// What measures tensor cores, as a text for the runtime (runtime/device/cuda/TensorProbe.cpp).
  bool shares() const override { return true; }
  void makeShared(const CpuTarget &target, const std::string &path) const override {
    llvm::LLVMContext context;
    llvm::Module module("quern_tensor_probe", context);
    std::unique_ptr<llvm::TargetMachine> machine = machineFor(target);
    aimAt(module, *machine);
    llvm::Constant *text = llvm::ConstantDataArray::getString(context, tile::tensorProbe().ptx);
    new llvm::GlobalVariable(module, text->getType(), /*isConstant=*/true, llvm::GlobalValue::ExternalLinkage, text,
                             "quern_tensor_probe");
    write(module, *machine, EmitForm::Object, path, "the probe of tensor cores");
  }

  std::string loops(const KernelGraph &graph, const KernelPlan &plan, const CpuTarget &) const override {
    return text(tile::programOf(graph, plan));
  }
};
} // namespace

const KernelProducer &tileProducer() {
  static const TileProducer producer;
  return producer;
}

} // namespace quern::codegen
