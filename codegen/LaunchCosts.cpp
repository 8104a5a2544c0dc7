// Takes: the launches of a planned module. Gives: their names, lines and lower bounds of their work, as polynomials over
// the caller's lengths.
#include "codegen/LaunchCosts.h"

#include "codegen/KernelCosts.h"
#include "ir/Chunk.h"
#include "ir/analysis/Gathered.h"
#include "ir/analysis/Least.h"
#include "ir/analysis/SourceLines.h"
#include "ir/analysis/Views.h"
#include "ir/analysis/Weights.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>

using namespace mlir;
using namespace quern::ir;
using namespace quern::codegen;

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

std::string quern::codegen::titleOf(LaunchOp launch) {
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
  std::string family = launch.getKernel().rsplit('_').first.str();
  const std::vector<std::string> &names = matrices.empty() ? others : matrices;
  std::string title;
  for (size_t i = 0; i < std::min<size_t>(names.size(), 4); ++i)
    title += (i ? " + " : "") + names[i];
  if (names.size() > 4)
    title += " + ...";
  return title.empty() ? family : matrices.empty() ? family + " (" + title + ")" : title;
}

std::map<std::string, std::string> quern::codegen::kernelNames(ModuleOp planned) {
  std::map<std::string, std::string> names;
  planned.walk([&](LaunchOp launch) {
    auto [at, isNew] = names.try_emplace(launch.getKernel().str(), launch.getKernel().str());
    std::string title = titleOf(launch);
    if (!isNew || launch.getKernel().starts_with(title + "_"))
      return;
    at->second += ".";
    for (char c : title) // what is no letter, digit or _ becomes one point
      if (llvm::isAlnum(c) || c == '_')
        at->second += c;
      else if (at->second.back() != '.')
        at->second += '.';
    while (at->second.back() == '.')
      at->second.pop_back();
  });
  return names;
}

/// Bytes of weights and caches that one run reads, over the caller's lengths.
static Size readsOf(LaunchOp launch, KernelOp kernel) {
  Size bytes(0);
  for (auto [i, input] : llvm::enumerate(launch.getInputs())) {
    Operation *owner = viewOf(input).base.getDefiningOp();
    if (owner && (isa<ParamOp, RememberOp, RecallOp>(owner) || joinedWeight(input) || codedWeight(input)))
      bytes = bytes + bytesRead(kernel, static_cast<unsigned>(i));
  }
  return substituteAll(bytes, lengthsOf(kernel, launch));
}

std::vector<LaunchInfo> quern::codegen::launchCosts(const HostProgram &program) {
  std::vector<LaunchInfo> infos;
  for (LaunchOp launch : program.launches) {
    auto function = launch->getParentOfType<func::FuncOp>();
    auto kernel = SymbolTable::lookupNearestSymbolFrom<KernelOp>(launch, launch.getKernelAttr());
    LaunchInfo info;
    info.function = static_cast<int>(
        llvm::find_if(program.entries, [&](const HostEntry &entry) { return entry.source == function; }) -
        program.entries.begin());
    info.kernel = kernel.getSymName().str();
    info.title = titleOf(launch);
    info.at = callerOf(launch.getLoc());
    info.once = launch.getOnce();
    for (Operation *parent = launch->getParentOp(); isa<RepeatOp>(parent); parent = parent->getParentOp()) {
      info.iterations *= static_cast<int64_t>(cast<RepeatOp>(parent).getIterations());
      info.chunks |= chunkOf(cast<RepeatOp>(parent)).has_value();
    }
    KernelCosts costs = costsOf(launch);
    info.content = contentOf(kernel);
    info.flops = costs.products;
    info.reads = readsOf(launch, kernel);
    info.traffic = costs.bytes;
    infos.push_back(std::move(info));
  }
  return infos;
}
