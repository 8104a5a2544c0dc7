// Takes: a module at any phase. Gives: operations, launches, arithmetic, memory traffic and memory, by function.
// Why polynomials: one program serves every length, so a number without its lengths would mean nothing.
//
// Traffic is what moves if every operation reads its operands and writes its results once; after outlining the launches
// are the operations, so the difference of two phases is what fusion saved. Views move nothing.
#include "tools/inspect/Statistics.h"

#include "codegen/KernelCosts.h"
#include "ir/Attributes.h"
#include "ir/Chunk.h"
#include "ir/analysis/Least.h"
#include "ir/analysis/Views.h"
#include "ir/analysis/Window.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::tools;
namespace codegen = quern::codegen;

Lengths quern::tools::parseLengths(const std::vector<std::string> &settings) {
  Lengths lengths;
  for (StringRef list : settings)
    while (!list.empty()) {
      auto [one, rest] = list.split(',');
      auto [name, value] = one.split('=');
      int64_t number = 0;
      if (name.empty() || value.getAsInteger(10, number) || number < 0)
        throw std::runtime_error("--set-size " + one.str() + ": NAME=NUMBER is needed, T=512 for example");
      lengths[name.str()] = number;
      list = rest;
    }
  return lengths;
}

static int64_t lengthOf(const std::string &symbol, const Lengths &lengths) {
  if (auto found = lengths.find(symbol); found != lengths.end())
    return found->second;
  if (symbol == "cap")
    return lengthOf("past", lengths) + lengthOf("T", lengths);
  if (std::optional<int64_t> window = windowOf(symbol))
    return std::min(lengthOf("past", lengths), *window);
  if (std::optional<int64_t> window = windowOf(symbol, Derived::Form::Room))
    return std::min(lengthOf("cap", lengths), *window + lengthOf("T", lengths));
  if (std::optional<Least> minimum = leastOf(symbol))
    return std::min(minimum->most, quern::tools::valueOf(minimum->of, lengths));
  if (std::optional<Chunk> chunk = chunkOf(symbol))
    return std::min(chunk->most, quern::tools::valueOf(chunk->rows, lengths));
  return symbol == "B" ? 1 : symbol == "past" ? 0 : 512;
}

int64_t quern::tools::valueOf(const Size &size, const Lengths &lengths) {
  return size.evaluate([&](const std::string &symbol) { return lengthOf(symbol, lengths); });
}

static int64_t alignedTo64(int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

int64_t FunctionStatistics::arenaBytes(const Lengths &lengths) const {
  int64_t total = 0;
  for (const std::vector<Size> &slot : arena.value_or(std::vector<std::vector<Size>>())) {
    int64_t largest = 0;
    for (const Size &bytes : slot)
      largest = std::max(largest, valueOf(bytes, lengths));
    total += alignedTo64(largest);
  }
  return total;
}

int64_t FunctionStatistics::keptBytes(const Lengths &lengths) const {
  int64_t total = 0;
  for (const Size &bytes : kept)
    total += alignedTo64(valueOf(bytes, lengths));
  return total;
}

KernelBytes FunctionStatistics::scratchBytes(int64_t codegen::ScratchBytes::*thread, const Lengths &lengths) const {
  KernelBytes most;
  for (const codegen::LaunchScratch &launch : scratch) {
    auto length = [&](const std::string &name) { return valueOf(launch.lengths.at(name), lengths); };
    if (int64_t bytes = bytesOf(launch.scratch, length).*thread; bytes > most.bytes)
      most = {launch.kernel, bytes};
  }
  return most;
}

void quern::tools::addScratch(Statistics &statistics, ModuleOp planned, const codegen::KernelScratch &kernels) {
  for (FunctionStatistics &function : statistics.functions)
    function.scratch = scratchOfLaunches(planned.lookupSymbol<func::FuncOp>(function.name), kernels);
}

int64_t Statistics::stateBytes(const std::string &function, const Lengths &lengths) const {
  int64_t total = 0;
  for (const StateStatistics &state : states)
    if (llvm::is_contained(state.functions, function))
      total += valueOf(state.bytes, lengths);
  return total;
}

// ---- collecting

bool quern::tools::isLaunched(ModuleOp module) {
  return !module.getOps<KernelOp>().empty();
}

OperationCost quern::tools::costOf(Operation *op, bool launched) {
  OperationCost total;
  if (auto repeat = dyn_cast<RepeatOp>(op)) {
    for (Operation &inner : repeat.getBlock()) {
      if (auto launch = dyn_cast<LaunchOp>(inner); launch && launch.getOnce())
        continue;
      OperationCost one = costOf(&inner, launched);
      total.flops = total.flops + one.flops * Size(static_cast<int64_t>(repeat.getIterations()));
      total.bytes = total.bytes + one.bytes * Size(static_cast<int64_t>(repeat.getIterations()));
    }
    return {costOfAllIterations(total.flops), costOfAllIterations(total.bytes)};
  }
  auto launch = dyn_cast<LaunchOp>(op);
  auto cost = dyn_cast<CostOpInterface>(op);
  if (!cost || isViewLike(op) || (launched && !launch))
    return total;
  if (launch) {
    codegen::KernelCosts costs = codegen::costsOf(launch);
    return {costs.flops, costs.bytes};
  }
  return {cost.getFlops(), cost.getBytes()};
}

static void addBlock(Block &block, const Size &iterations, bool launched, LoopStatistics *loop,
                     FunctionStatistics &out) {
  for (Operation &op : block) {
    if (op.hasTrait<OpTrait::IsTerminator>())
      continue;
    ++out.ops;
    if (auto repeat = dyn_cast<RepeatOp>(op)) {
      LoopStatistics inner;
      inner.iterations = static_cast<int64_t>(repeat.getIterations()) * (loop ? loop->iterations : 1);
      size_t place = out.loops.size();
      out.loops.push_back(inner);
      addBlock(repeat.getBlock(), iterations * Size(static_cast<int64_t>(repeat.getIterations())), launched, &inner,
               out);
      out.loops[place] = inner;
      continue;
    }
    if (auto launch = dyn_cast<LaunchOp>(op)) {
      if (launch.getOnce()) {
        ++(loop ? loop->once : out.once);
        continue;
      }
      ++(loop ? loop->launches : out.outside);
      out.launches += *iterations.constant();
    }
    OperationCost cost = costOf(&op, launched);
    out.flops = out.flops + costOfAllIterations(cost.flops) * iterations;
    out.bytes = out.bytes + costOfAllIterations(cost.bytes) * iterations;
  }
}

static FunctionStatistics functionStatistics(func::FuncOp function, bool launched) {
  FunctionStatistics out;
  out.name = function.getSymName().str();
  if (function.isExternal())
    return out;
  addBlock(function.getBody().front(), Size(1), launched, nullptr, out);
  auto sizes = [](ArrayAttr list) {
    std::vector<Size> result;
    for (Attribute text : list)
      result.push_back(Size::parse(cast<StringAttr>(text).getValue()).value_or(Size(0)));
    return result;
  };
  if (auto arena = function->getAttrOfType<ArrayAttr>(arenaAttr)) {
    out.arena.emplace();
    for (Attribute slot : arena)
      out.arena->push_back(sizes(cast<ArrayAttr>(slot)));
  }
  if (auto kept = function->getAttrOfType<ArrayAttr>(keptAttr))
    out.kept = sizes(kept);
  return out;
}

static StateStatistics stateStatistics(StateOp state) {
  StateStatistics out;
  auto type = cast<NamedTensorType>(state.getType());
  out.name = state.getSymName().str();
  llvm::raw_string_ostream(out.type) << type;
  out.bytes = storedBytes(type);
  for (auto function : state->getParentOfType<ModuleOp>().getOps<func::FuncOp>())
    if (!SymbolTable::symbolKnownUseEmpty(state, function))
      out.functions.push_back(function.getSymName().str());
  Size one(1);
  bool grows = false;
  std::optional<int64_t> window;
  for (DimAttr dim : type.getDims()) {
    if (dim.getName() == "iteration")
      out.layers = dim.getStatic().value_or(1);
    else if (dim.getName() == "cap")
      grows = true, window = windowOf(dim.getSize());
    else if (dim.getSizeText() != "B")
      one = one * dim.getSize();
  }
  out.remembered = one.str() + (one == Size(1) ? " number" : " numbers") + (out.layers > 1 ? " per layer" : "") +
                   (grows ? (out.layers > 1 ? " and position" : " per position") : "");
  if (window)
    out.remembered += ", the last " + std::to_string(*window) + " positions in a ring";
  return out;
}

Statistics quern::tools::statisticsOf(ModuleOp module) {
  Statistics out;
  std::map<std::string, int> launches;
  module.walk([&](LaunchOp launch) { ++launches[launch.getKernel().str()]; });
  for (Operation &op : *module.getBody()) {
    if (auto function = dyn_cast<func::FuncOp>(op)) {
      out.functions.push_back(functionStatistics(function, isLaunched(module)));
      out.ops += out.functions.back().ops;
    } else if (auto kernel = dyn_cast<KernelOp>(op)) {
      KernelStatistics one;
      one.name = kernel.getSymName().str();
      one.ops = static_cast<int>(llvm::range_size(kernel.getBlock().without_terminator()));
      one.launches = launches[one.name];
      codegen::KernelCosts costs = codegen::costsOf(kernel);
      one.flops = costs.flops;
      one.bytes = costs.bytes;
      out.kernelOps += one.ops;
      out.kernels.push_back(std::move(one));
    } else if (auto state = dyn_cast<StateOp>(op)) {
      if (!state.getCheck()) // a message's flag, no memory of the model
        out.states.push_back(stateStatistics(state));
    }
  }
  return out;
}

// ---- showing

std::string quern::tools::shortNumber(double number) {
  const char *unit = "";
  for (const char *next : {" K", " M", " G", " T", " P"}) {
    if (number < 999.5)
      break;
    number /= 1000;
    unit = next;
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.*f%s", !*unit || number >= 99.95 ? 0 : number >= 9.995 ? 1 : 2, number, unit);
  return text;
}

static std::string slotText(const std::vector<Size> &slot) {
  std::string text;
  for (const Size &bytes : slot)
    text += (text.empty() ? "" : ", ") + bytes.str();
  return slot.size() > 1 ? "max(" + text + ")" : text;
}

static std::string bytesText(int64_t bytes) {
  return shortNumber(static_cast<double>(bytes)) + (bytes < 1000 ? " B" : "B");
}

static std::string scratchText(const FunctionStatistics &function, const Lengths &lengths) {
  KernelBytes caller = function.scratchBytes(&codegen::ScratchBytes::caller, lengths),
              worker = function.scratchBytes(&codegen::ScratchBytes::worker, lengths);
  if (!caller.bytes)
    return "none";
  std::string text = bytesText(caller.bytes) + " of the thread that calls (" + caller.kernel + ")";
  return worker.bytes ? text + ", " + bytesText(worker.bytes) + " of each that helps (" + worker.kernel + ")" : text;
}

static std::string arenaText(const FunctionStatistics &function) {
  std::string text;
  for (const std::vector<Size> &slot : *function.arena)
    text += (text.empty() ? "" : " + ") + slotText(slot);
  return text.empty() ? "0" : text;
}

nlohmann::ordered_json quern::tools::toJson(const Statistics &statistics, const std::optional<Lengths> &lengths) {
  using Json = nlohmann::ordered_json;
  auto polynomial = [&](Json &object, const char *name, const Size &size) {
    object[name] = size.str();
    if (lengths)
      object[std::string(name) + "_at"] = valueOf(size, *lengths);
  };
  Json root = {{"ops", statistics.ops}, {"kernel_ops", statistics.kernelOps}};
  Json &functions = root["functions"] = Json::array();
  for (const FunctionStatistics &function : statistics.functions) {
    Json one = {{"name", function.name},
                {"ops", function.ops},
                {"launches", function.launches},
                {"launches_outside", function.outside},
                {"launches_once", function.once}};
    one["loops"] = Json::array();
    for (const LoopStatistics &loop : function.loops)
      one["loops"].push_back({{"iterations", loop.iterations}, {"launches", loop.launches}, {"once", loop.once}});
    polynomial(one, "flops", function.flops);
    polynomial(one, "bytes", function.bytes);
    if (function.arena) {
      one["arena"] = Json::array();
      for (const std::vector<Size> &slot : *function.arena) {
        Json sizes = Json::array();
        for (const Size &bytes : slot)
          sizes.push_back(bytes.str());
        one["arena"].push_back(sizes);
      }
      one["kept"] = Json::array();
      for (const Size &bytes : function.kept)
        one["kept"].push_back(bytes.str());
      if (lengths) {
        one["arena_at"] = function.arenaBytes(*lengths);
        one["kept_at"] = function.keptBytes(*lengths);
        if (!function.scratch.empty())
          one["scratch_at"] = {{"caller", function.scratchBytes(&codegen::ScratchBytes::caller, *lengths).bytes},
                               {"worker", function.scratchBytes(&codegen::ScratchBytes::worker, *lengths).bytes}};
        one["peak_at"] = function.arenaBytes(*lengths) + function.keptBytes(*lengths) +
                         statistics.stateBytes(function.name, *lengths);
      }
    }
    functions.push_back(std::move(one));
  }
  Json &kernels = root["kernels"] = Json::array();
  for (const KernelStatistics &kernel : statistics.kernels)
    kernels.push_back({{"name", kernel.name},
                       {"ops", kernel.ops},
                       {"launches", kernel.launches},
                       {"flops", kernel.flops.str()},
                       {"bytes", kernel.bytes.str()}});
  Json &states = root["states"] = Json::array();
  for (const StateStatistics &state : statistics.states) {
    Json one = {{"name", state.name}, {"type", state.type}, {"layers", state.layers}, {"remembers", state.remembered}};
    polynomial(one, "bytes", state.bytes);
    states.push_back(std::move(one));
  }
  return root;
}

std::string quern::tools::toText(const Statistics &statistics, const std::optional<Lengths> &lengths) {
  std::string text =
      std::to_string(statistics.ops) + " ops in " + std::to_string(statistics.functions.size()) + " functions";
  if (!statistics.kernels.empty())
    text += ", " + std::to_string(statistics.kernels.size()) + " kernels of " + std::to_string(statistics.kernelOps) +
            " ops";
  text += "\n";
  auto line = [&](std::string name, const std::string &value, std::optional<int64_t> at, const char *unit) {
    name.resize(10, ' ');
    text += "    " + name + value;
    if (at && std::to_string(*at) != value)
      text += " = " + shortNumber(static_cast<double>(*at)) + (*at < 1000 ? " " : "") + unit;
    text += "\n";
  };
  auto at = [&](const Size &size) { return lengths ? std::optional(valueOf(size, *lengths)) : std::nullopt; };
  for (const FunctionStatistics &function : statistics.functions) {
    text += "\n  " + function.name + "\n";
    line("ops", std::to_string(function.ops), {}, "");
    if (!statistics.kernels.empty()) {
      std::string launches = std::to_string(function.launches) + ": ";
      for (const LoopStatistics &loop : function.loops)
        launches += std::to_string(loop.launches) + " a layer (" + std::to_string(loop.iterations) + " layers)" +
                    (loop.once ? ", " + std::to_string(loop.once) + " more in the first call" : "") + ", ";
      launches += std::to_string(function.outside) + " outside of loops";
      if (function.once)
        launches += ", " + std::to_string(function.once) + " in the first call alone";
      line("launches", launches, {}, "");
    }
    line("flops", function.flops.str(), at(function.flops), "FLOP");
    line("traffic", function.bytes.str(), at(function.bytes), "B");
    if (function.arena) {
      line("arena", arenaText(function), lengths ? std::optional(function.arenaBytes(*lengths)) : std::nullopt, "B");
      if (!function.kept.empty()) {
        Size total(0);
        for (const Size &bytes : function.kept)
          total = total + bytes;
        line("kept", total.str(), lengths ? std::optional(function.keptBytes(*lengths)) : std::nullopt, "B");
      }
      if (lengths && !function.scratch.empty())
        line("scratch", scratchText(function, *lengths), {}, "");
    }
  }
  for (const StateStatistics &state : statistics.states) {
    text += "\n  @" + state.name + "  " + state.type + "\n";
    line("remembers", state.remembered, {}, "");
    line("bytes", state.bytes.str(), at(state.bytes), "B");
  }
  if (!statistics.kernels.empty()) {
    text += "\n  kernel                  ops  places  flops and traffic of a launch\n";
    for (const KernelStatistics &kernel : statistics.kernels) {
      char row[96];
      std::snprintf(row, sizeof row, "  %-22s %4d %7d  ", kernel.name.c_str(), kernel.ops, kernel.launches);
      text += row + kernel.flops.str() + "; " + kernel.bytes.str() + "\n";
    }
  }
  return text;
}
