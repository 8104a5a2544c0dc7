// Takes: the launches of a planned module. Gives: their names, lines and lower bounds of their work, as polynomials over
// the caller's lengths. Why lower bounds: a rate made from them is never better than what was reached.
#include "codegen/LaunchCosts.h"

#include "codegen/ReadKernel.h"
#include "codegen/kernel/AttentionPattern.h"
#include "ir/Chunk.h"
#include "ir/analysis/SourceLines.h"
#include "ir/analysis/Views.h"
#include "ir/analysis/Weights.h"

#include <algorithm>

using namespace mlir;
using namespace quern::ir;
using namespace quern::codegen;

/// Twice the number of pairs of a query and a key that the mask lets see each other. Of a window only its upper end
/// counts: the polynomials have no minimum.
static Size seenPairsTwice(const AttentionPattern &attention) {
  Size queries = attention.query.size, keys = attention.key.size, all = Size(2) * queries * keys;
  if (!attention.upper || !attention.upper->terms.empty() || attention.ring)
    return all;
  // Query t sees keys up to t + upper, and all queries have that many.
  Size first = attention.upper->size + Size(1);
  if ((keys - queries - attention.upper->size) != Size(0))
    return all;
  return Size(2) * queries * first + queries * queries - queries;
}

static Size product(const std::vector<Dim> &dims) {
  Size result(1);
  for (const Dim &dim : dims)
    result = result * dim.size;
  return result;
}

/// The multiply-adds of a kernel's contractions and attentions, each as two, over the kernel's own lengths.
static Size workOf(KernelOp kernel) {
  Size work(0);
  for (auto contract : kernel.getBlock().getOps<ContractOp>()) {
    Size one(2);
    std::optional<SmallVector<DimAttr>> dims = unionDims({typeOf(contract.getA()), typeOf(contract.getB())});
    for (DimAttr dim : *dims)
      one = one * dim.getSize();
    work = work + one;
  }
  if (kernel.getBlock().getOps<AttentionOp>().empty())
    return work;
  for (const AttentionPattern &attention : readAttentions(readKernel(kernel))) {
    Size depth = attention.column.size;
    for (const AttentionDot &dot : attention.dots)
      depth = depth + product(dot.depth);
    work = work + seenPairsTwice(attention) * product(attention.heads) * product(attention.together) * depth;
  }
  return work;
}

/// "model.layers.0.self_attn.q_proj.weight" -> "q_proj".
static std::string shortName(StringRef tensor) {
  for (StringRef end : {".weight", ".bias"})
    tensor.consume_back(end);
  return tensor.rsplit('.').second.empty() ? tensor.str() : tensor.rsplit('.').second.str();
}

static void addNames(ParamOp param, std::vector<std::string> &names) {
  if (param.getPaths().empty())
    return;
  auto first = dyn_cast<ArrayAttr>(param.getPaths()[0]);
  if (!first || first.empty())
    return;
  std::string name = shortName(cast<StringAttr>(first[0]).getValue());
  if (!llvm::is_contained(names, name))
    names.push_back(name);
}

/// "gate_proj + up_proj": the weights that it multiplies by; without any what the kernel is: "attention", "map".
static std::string titleOf(LaunchOp launch, KernelOp kernel) {
  std::vector<std::string> matrices, others;
  for (Value input : launch.getInputs()) {
    QuantizeOp codes = codedWeight(input);
    std::vector<std::string> &names = typeOf(input).getRank() > 1 ? matrices : others;
    if (ConcatOp joined = joinedWeight(input)) {
      for (Value part : joined.getInputs())
        if (auto param = viewOf(part).base.getDefiningOp<ParamOp>())
          addNames(param, names);
    } else if (auto param = viewOf(codes ? codes.getX() : input).base.getDefiningOp<ParamOp>()) {
      addNames(param, names);
    }
  }
  std::string family = kernel.getSymName().rsplit('_').first.str();
  const std::vector<std::string> &names = matrices.empty() ? others : matrices;
  std::string title;
  for (size_t i = 0; i < std::min<size_t>(names.size(), 4); ++i)
    title += (i ? " + " : "") + names[i];
  if (names.size() > 4)
    title += " + ...";
  return title.empty() ? family : matrices.empty() ? family + " (" + title + ")" : title;
}

/// Bytes of weights and caches that one run reads, over the caller's lengths; of a table the rows that are picked.
static Size readsOf(LaunchOp launch, KernelOp kernel, const std::map<std::string, Size> &lengths) {
  Size bytes(0);
  for (auto [input, argument] : llvm::zip(launch.getInputs(), kernel.getBlock().getArguments())) {
    Operation *owner = viewOf(input).base.getDefiningOp();
    if (!owner || !(isa<ParamOp, RememberOp, RecallOp>(owner) || joinedWeight(input) || codedWeight(input)))
      continue;
    bool gathered = false;
    for (Operation *user : argument.getUsers())
      if (auto gather = dyn_cast<GatherOp>(user); gather && gather.getX() == argument) {
        gathered = true;
        bytes = bytes + storedBytes(typeOf(gather.getResult())).substitute(lengths);
      }
    if (!gathered)
      bytes = bytes + storedBytes(typeOf(input));
  }
  return bytes;
}

std::vector<LaunchInfo> quern::codegen::launchCosts(const HostProgram &program) {
  std::vector<LaunchInfo> infos;
  for (LaunchOp launch : program.launches) {
    auto function = launch->getParentOfType<func::FuncOp>();
    auto kernel = SymbolTable::lookupNearestSymbolFrom<KernelOp>(launch, launch.getKernelAttr());
    std::map<std::string, Size> lengths = lengthsOf(kernel, launch);
    LaunchInfo info;
    info.function = static_cast<int>(
        llvm::find_if(program.entries, [&](const HostEntry &entry) { return entry.source == function; }) -
        program.entries.begin());
    info.kernel = kernel.getSymName().str();
    info.title = titleOf(launch, kernel);
    info.at = callerOf(launch.getLoc());
    info.once = launch.getOnce();
    for (Operation *parent = launch->getParentOp(); isa<RepeatOp>(parent); parent = parent->getParentOp())
      info.turns *= static_cast<int64_t>(cast<RepeatOp>(parent).getTurns());
    info.flops = workOf(kernel).substitute(lengths);
    info.reads = readsOf(launch, kernel, lengths);
    info.traffic = kernel.getBytes().substitute(lengths);
    infos.push_back(std::move(info));
  }
  return infos;
}
