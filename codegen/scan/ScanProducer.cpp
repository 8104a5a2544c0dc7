// The questions of KernelProducer.h, answered for kernels with a recurrence: divided by ScanShape.cpp, recognised by
// ChunkForm.cpp, written by ScanEmitter.cpp, compiled by LLVM for the target's processor.
#include "codegen/scan/ScanProducer.h"

#include "codegen/llvm/Backend.h"
#include "codegen/scan/ScanEmitter.h"
#include "codegen/schedule/ChoosePlan.h"
#include "runtime/abi/Abi.h"

#include "llvm/Config/llvm-config.h"
#include <stdexcept>

namespace quern::codegen {

static const char sources[] =
#include "codegen/scan/Revision.inc"
    ;

/// Of threads that each ask for one block, and a caller that asks for the parts of totals besides.
static Scratch scratchOf(int64_t bytes, const scan::ScanShape &shape) {
  using Op = Scratch::Op;
  constexpr int64_t line = QUERN_SCRATCH_ALIGNMENT;
  ScratchBuilder builder;
  auto block = [&](int size) { // a header before and room after
    int lines = builder.make(Op::Div, builder.make(Op::Add, size, builder.number(line - 1)), builder.number(line));
    return builder.make(Op::Add, builder.make(Op::Mul, lines, builder.number(line)), builder.number(2 * line));
  };
  auto valueOf = [&](const ir::Size &size) {
    int sum = builder.number(0);
    for (const auto &[monomial, coefficient] : size.getTerms()) {
      int product = builder.number(coefficient);
      for (const std::string &symbol : monomial)
        product = builder.make(Op::Mul, product, builder.length(symbol));
      sum = builder.make(Op::Add, sum, product);
    }
    return sum;
  };
  int own = bytes ? block(builder.number(bytes)) : builder.number(0), parts = builder.number(0);
  for (int number : shape.totals) {
    int size = builder.make(Op::Mul, builder.number(4 * shape.parts()), valueOf(shape.body->dim.size));
    for (const Dim &dim : shape.body->nodes[shape.body->yields[number]].dims)
      size = builder.make(Op::Mul, size, valueOf(dim.size));
    parts = builder.make(Op::Add, parts, size);
  }
  if (!bytes && shape.totals.empty())
    return {};
  return builder.finish(shape.totals.empty() ? own : builder.make(Op::Add, own, block(parts)), own);
}

namespace {
class ScanProducer : public KernelProducer {
public:
  std::string name() const override { return "scan"; }
  std::string revision() const override { return LLVM_VERSION_STRING " " + std::string(sources); }

  std::optional<std::string> refuses(const KernelGraph &graph, const CpuTarget &target) const override {
    bool any = false;
    for (const Node &node : graph.nodes)
      any |= node.op == Op::Scan;
    if (!any)
      return "it makes nothing but recurrences";
    if (!target.device.empty())
      return "it makes recurrences for CPUs";
    scan::ScanShape shape;
    return scan::divide(graph, target, shape);
  }

  std::vector<Anchor> anchors(const KernelGraph &graph, const CpuTarget &target) const override {
    scan::ScanShape shape;
    scan::ChunkForm form;
    Anchor anchor{"scan", -1, factsOf(target)};
    bool chunks = !scan::divide(graph, target, shape) && !scan::recognise(graph, shape, form);
    anchor.facts["keys"] = chunks ? *form.keys.fixed() : 0;
    anchor.facts["values"] = chunks ? *shape.lane->fixed() : 0;
    return {anchor};
  }

  KernelPlan choose(const KernelGraph &graph, const CpuTarget &target, const ScheduleTable &schedules) const override {
    return {name(), chooseParts(anchors(graph, target), schedules)};
  }

  std::optional<std::string> refuses(const KernelPlan &plan, const KernelGraph &graph,
                                     const CpuTarget &target) const override {
    std::vector<Anchor> parts = anchors(graph, target);
    std::optional<std::string> refused = checkParts(plan.parts, parts);
    parts[0].facts["keys"] = 1;
    if (!refused || checkParts(plan.parts, parts))
      return refused;
    scan::ScanShape shape; // only its form is in the way
    scan::ChunkForm form;
    if (auto why = scan::divide(graph, target, shape); why || (why = scan::recognise(graph, shape, form)))
      *refused += ": " + *why;
    return refused;
  }

  Scratch make(const KernelGraph &graph, const KernelPlan &plan, const CpuTarget &target, const std::string &symbol,
               EmitForm form, const std::string &path) const override {
    scan::ScanShape shape;
    if (auto why = scan::divide(graph, target, shape))
      throw std::runtime_error("kernel " + graph.name + ": " + *why);
    llvm::LLVMContext context;
    llvm::Module module(symbol, context);
    std::unique_ptr<llvm::TargetMachine> machine = machineFor(target);
    aimAt(module, *machine);
    std::optional<scan::ChunkPlan> chunks = chunksOf(plan, graph, shape, target);
    int64_t bytes = scan::emitScan(graph, shape, chunks ? &*chunks : nullptr, symbol, module);
    std::string bits = std::to_string(target.vector * 32);
    for (llvm::Function &function : module) {
      function.addFnAttr("prefer-vector-width", bits);
      function.addFnAttr("min-legal-vector-width", bits);
      function.addFnAttr(llvm::Attribute::NoUnwind);
    }
    std::string what = "kernel " + graph.name;
    optimize(module, *machine, what);
    write(module, *machine, form, path, what);
    return scratchOf(bytes, shape);
  }

  std::string loops(const KernelGraph &graph, const KernelPlan &plan, const CpuTarget &target) const override {
    scan::ScanShape shape;
    if (scan::divide(graph, target, shape))
      return "";
    auto names = [](const std::vector<Dim> &dims) {
      std::string text;
      for (const Dim &dim : dims)
        text += (text.empty() ? "" : ", ") + dim.name;
      return text;
    };
    std::string text = "parallel over " + names(shape.tasks);
    if (shape.lane)
      text += ", " + shape.lane->name + " by " + std::to_string(shape.width) + " lanes";
    text += ":\n  for " + shape.body->dim.name + (shape.body->fromEnd ? " from the end" : "") + ":\n";
    for (int node : shape.reductions)
      text += "    sum over " + names(scan::reducedDims(shape.body->nodes, shape.body->nodes[node])) + "\n";
    for (const scan::Nest &nest : shape.nests)
      text += "    " + (nest.dims.empty() ? "once" : "for " + names(nest.dims)) + ": " +
              std::to_string(nest.carried.size()) + " states, " + std::to_string(nest.sums.size()) +
              " sums in passing, " + std::to_string(nest.outputs.size()) + " outputs" +
              (nest.totals.empty() ? ""
                                   : ", " + std::to_string(nest.totals.size()) + " sums over " + shape.lane->name +
                                         " in " + std::to_string(shape.parts()) + " parts") +
              "\n";
    if (std::optional<scan::ChunkPlan> chunks = chunksOf(plan, graph, shape, target))
      text += "  of " + std::to_string(2 * chunks->size) + " positions or more: for chunks of " +
              std::to_string(chunks->size) + ": products of " + chunks->form.keys.name + " x " + shape.lane->name +
              (chunks->form.isDelta() ? ", a delta rule\n" : ", a memory\n");
    return text;
  }

private:
  /// Nothing: the plan asks for no chunks.
  static std::optional<scan::ChunkPlan> chunksOf(const KernelPlan &plan, const KernelGraph &graph,
                                                 const scan::ScanShape &shape, const CpuTarget &target) {
    scan::ChunkPlan chunks{{}, plan.parts.at(0)["chunk"], target.vector, target.registers};
    if (!chunks.size || scan::recognise(graph, shape, chunks.form))
      return std::nullopt;
    return chunks;
  }
};
} // namespace

const KernelProducer &scanProducer() {
  static const ScanProducer producer;
  return producer;
}

} // namespace quern::codegen
