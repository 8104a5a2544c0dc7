// Takes: the planned module and the host program's tables. Gives: what the runtime must know, as JSON.
#include "codegen/host/Description.h"
#include "codegen/kernel/PlanText.h"
#include "codegen/kernel/TileTerms.h"
#include "ir/Attributes.h"
#include "ir/analysis/Functions.h"
#include "ir/analysis/Least.h"
#include "ir/analysis/Operations.h"
#include "ir/analysis/Options.h"
#include "ir/analysis/SourceLines.h"
#include "ir/analysis/Views.h"
#include "ir/analysis/Weights.h"

#include "llvm/Support/Path.h"

#include <nlohmann/json.hpp>

using namespace mlir;
using namespace quern::ir;
using namespace quern::codegen;
using Json = nlohmann::json;

static Json sizeJson(DimAttr dim) {
  if (std::optional<int64_t> fixed = dim.getStatic())
    return *fixed;
  return dim.getSizeText();
}

static Json tensorJson(StringRef name, NamedTensorType type) {
  Json dims = Json::array();
  for (DimAttr dim : type.getDims())
    dims.push_back(sizeJson(dim));
  return {{"name", name.str()}, {"kind", quern::support::elementName(type.getStorage())}, {"dims", dims}};
}

/// The largest table that input positions are looked up in directly: they must be below its length.
static std::optional<int64_t> boundOf(Value argument, ModuleOp module) {
  std::optional<int64_t> bound;
  for (OpOperand &use : argument.getUses()) {
    auto launch = dyn_cast<LaunchOp>(use.getOwner());
    if (!launch) {
      auto repeat = dyn_cast<RepeatOp>(use.getOwner());
      if (repeat || quern::ir::isViewLike(use.getOwner()))
        if (std::optional<int64_t> inner = boundOf(repeat ? Value(repeat.getBlock().getArgument(use.getOperandNumber()))
                                                          : use.getOwner()->getResult(0),
                                                   module))
          bound = std::min(*inner, bound.value_or(*inner));
      continue;
    }
    auto kernel = module.lookupSymbol<KernelOp>(launch.getKernel());
    for (Operation *user : kernel.getBlock().getArgument(use.getOperandNumber()).getUsers())
      if (auto gather = dyn_cast<GatherOp>(user))
        if (gather.getPositions() == kernel.getBlock().getArgument(use.getOperandNumber()))
          if (std::optional<int64_t> size = typeOf(gather.getX()).dim(gather.getDim()).getStatic())
            bound = std::min(*size, bound.value_or(*size));
  }
  return bound;
}

/// What one call of a function costs: a polynomial over its lengths.
static Size sumOf(ArrayRef<LaunchInfo> launches, int function, Size LaunchInfo::*cost) {
  Size total(0);
  for (const LaunchInfo &launch : launches)
    if (launch.function == function && !launch.once)
      total = total + launch.*cost * Size(launch.iterations);
  return costOfAllIterations(total);
}

static Json launchJson(const LaunchInfo &launch) {
  Json json = {{"function", launch.function}, {"kernel", launch.kernel},
               {"title", launch.title},       {"at", launch.at},
               {"content", launch.content},   {"iterations", launch.iterations}};
  if (launch.chunks)
    json["chunks"] = true;
  for (const auto &[name, cost] : {std::pair{"flops", launch.flops}, std::pair{"bytes", launch.traffic}})
    json[name] = costOfAllIterations(cost).str();
  return json;
}

static Json parseAttr(ModuleOp module, StringRef name) {
  auto text = module->getAttrOfType<StringAttr>(name);
  Json json = text ? Json::parse(text.getValue().str(), nullptr, /*allow_exceptions=*/false) : Json::object();
  return json.is_discarded() ? Json::object() : json;
}

static Json functionJson(const HostEntry &entry, int number, ArrayRef<LaunchInfo> launches, ModuleOp module) {
  func::FuncOp function = entry.source;
  StringRef name = function.getSymName();
  Json inputs = Json::array(), outputs = Json::array();
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto label = function.getArgAttrOfType<StringAttr>(i, nameAttr);
    Json input = tensorJson(label ? label.getValue() : "", typeOf(function.getArgument(i)));
    input["optional"] = static_cast<bool>(function.getArgAttr(i, defaultAttr));
    if (auto fallback = function.getArgAttrOfType<FlatSymbolRefAttr>(i, defaultAttr))
      input["default"] = fallback.getValue().str();
    if (typeOf(function.getArgument(i)).isInt())
      if (std::optional<int64_t> bound = boundOf(function.getArgument(i), module))
        input["below"] = *bound;
    inputs.push_back(std::move(input));
  }
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    auto label = function.getResultAttrOfType<StringAttr>(i, nameAttr);
    outputs.push_back(tensorJson(label ? label.getValue() : name, cast<NamedTensorType>(function.getResultTypes()[i])));
  }
  auto fewRows = function->getAttrOfType<IntegerAttr>(fewRowsAttr);
  auto role = [&] {
    switch (roleOf(function).value_or(Role::Gradient)) {
    case Role::DefaultValue:
      return "default";
    case Role::Last:
      return "step";
    case Role::Step:
      return "few";
    case Role::Ragged:
      return "ragged";
    case Role::RaggedStep:
      return "ragged_few";
    default:
      return "eval";
    }
  };
  Json json = {{"name", name.str()},
               {"role", role()},
               {"inputs", inputs},
               {"outputs", outputs},
               {"flops", sumOf(launches, number, &LaunchInfo::flops).str()},
               {"bytes", sumOf(launches, number, &LaunchInfo::reads).str()}};
  if (fewRows)
    json["few_rows"] = fewRows.getInt();
  return json;
}

/// Whether a number is one of bf16, for whoever multiplies it.
static bool isBF16(Value value) {
  for (;;) {
    if (typeOf(value).getStorage() == Storage::BF16)
      return true;
    Operation *op = value.getDefiningOp();
    if (!op || !(isa<WidenOp, GatherOp>(op) || isViewLike(op)))
      return false;
    value = op->getOperand(0);
  }
}

/// Whether a number is what a code stands for.
static bool isCode(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && isViewLike(op))
    op = op->getOperand(0).getDefiningOp();
  return isa_and_nonnull<DequantizeOp>(op);
}

/// Products of bf16 that one of the numbers is where a kernel's plan asks for AMX, the least of all kernels; 0: none asks.
/// Attention does not count: what it multiplies is a small part, which says nothing about the limit of the rest.
static int termsOfTiles(ModuleOp planned) {
  auto asks = [](KernelOp kernel) {
    auto text = kernel->getAttrOfType<StringAttr>(planAttr);
    if (!text)
      return false;
    const KernelPlan plan = parsePlan(std::string_view(text.getValue()));
    return std::any_of(plan.parts.begin(), plan.parts.end(),
                       [](const PlanPart &part) { return part.family != "attention" && part.tiles() > 0; });
  };
  int least = 0;
  for (KernelOp kernel : planned.getOps<KernelOp>())
    if (asks(kernel))
      kernel.walk([&](ContractOp product) {
        auto pieces = [](Value factor) { return isBF16(factor) || isCode(factor) ? 1 : quern::codegen::piecesOfF32; };
        const int terms =
            static_cast<int>(quern::codegen::termsOf(pieces(product.getA()), pieces(product.getB())).size());
        least = least ? std::min(least, terms) : terms;
      });
  return least;
}

/// Whether there is such a product.
static bool hasProducts(ModuleOp planned, llvm::function_ref<bool(Value, Value)> kind) {
  return planned
      .walk([&](ContractOp product) {
        return kind(product.getA(), product.getB()) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Whether instructions for products of bf16 multiply some numbers. Tile kernels make one of a code beside it.
static bool multipliesInPairs(ModuleOp planned, const CpuTarget &target) {
  if (target.device.empty() && !multipliesBF16(target))
    return false;
  return hasProducts(planned, [&](Value a, Value b) {
    const bool first = isBF16(a), second = isBF16(b), codes = target.device == "cuda";
    return (first && second) || (codes && ((first && isCode(b)) || (second && isCode(a))));
  });
}

std::string quern::codegen::describe(ModuleOp planned, const HostProgram &program, ArrayRef<LaunchInfo> launches,
                                     const CpuTarget &target, StringRef specFile) {
  auto text = [&](StringRef name) {
    auto attr = planned->getAttrOfType<StringAttr>(name);
    return attr ? attr.getValue().str() : std::string();
  };
  Json root = {{"quern", 1},
               {"model", text(modelAttr)},
               {"spec", llvm::sys::path::filename(specFile).str()},
               {"cpu", target.features},
               {"symbols", program.symbols},
               {"config", parseAttr(planned, configAttr)},
               {"file_config", parseAttr(planned, fileConfigAttr)},
               {"functions", Json::array()},
               {"launches", Json::array()},
               {"parameters", Json::array()},
               {"slots", Json::array()},
               {"states", Json::array()},
               {"limits", Json::array()},
               {"checks", Json::array()},
               {"ignore", Json::array()},
               {"refusal", nullptr},
               {"recompute", false}};
  if (!target.device.empty())
    root["device"] = target.device;
  if (multipliesInPairs(planned, target))
    root["multiplies_bf16"] = true;
  if (hasProducts(planned, [](Value a, Value b) { return isCode(a) && isCode(b); }))
    root["multiplies_bytes"] = true;
  if (const int terms = termsOfTiles(planned))
    root["multiplies_tiles"] = terms;
  if (ProgramOptions options = optionsOf(planned); !options.lora.empty())
    root["adapter_scale"] = options.loraScale;
  if (auto globs = planned->getAttrOfType<ArrayAttr>(ignoreAttr))
    for (Attribute glob : globs)
      root["ignore"].push_back(cast<StringAttr>(glob).getValue().str());

  for (auto [number, entry] : llvm::enumerate(program.entries)) {
    root["functions"].push_back(functionJson(entry, static_cast<int>(number), launches, planned));
    func::FuncOp function = entry.source;
    if (!entry.gradients.empty()) {
      Json gradients = Json::array();
      for (const auto &[result, parameters] : entry.gradients)
        gradients.push_back({{"output", function.getResultAttrOfType<StringAttr>(result, nameAttr).getValue().str()},
                             {"parameters", parameters}});
      root["training"] = {
          {"function", number}, {"next_token", function->hasAttr(nextTokenAttr)}, {"gradients", std::move(gradients)}};
    }
    for (auto [key, attr] : {std::pair{"batch", batchAttr}, std::pair{"time", timeAttr}})
      if (auto label = function->getAttrOfType<LabelAttr>(attr))
        if (StringRef name = function.getSymName(); name == "forward" || name == "decode")
          root[key] = label.getName().str();
    if (auto refusal = function->getAttrOfType<StringAttr>(refusalAttr))
      root["refusal"] = refusal.getValue().str();
    if (function->hasAttr(recomputeAttr))
      root["recompute"] = true;
    if (auto limits = function->getAttrOfType<ArrayAttr>(limitsAttr))
      for (Attribute attr : limits) {
        auto limit = cast<DictionaryAttr>(attr);
        auto time = function->getAttrOfType<LabelAttr>(timeAttr);
        auto size = limit.getAs<IntegerAttr>("size");
        auto at = limit.getAs<StringAttr>("at"), table = limit.getAs<StringAttr>("name");
        if (!time || !size)
          continue;
        root["limits"].push_back({{"symbol", time.getName().str()},
                                  {"plus_past", !function->hasAttr(refusalAttr)},
                                  {"at_most", size.getInt()},
                                  {"at", at ? at.getValue().str() : ""},
                                  {"name", table ? table.getValue().str() : ""},
                                  {"function", number}});
      }
  }
  for (const LaunchInfo &launch : launches)
    root["launches"].push_back(launchJson(launch));
  for (const Slots::Parameter &parameter : program.slots.parameters()) {
    Json json = {{"names", parameter.names}, {"shape", parameter.shape}, {"at", callerOf(parameter.at)}};
    if (parameter.init) { // there are hundreds: what follows from the kind is left out
      const std::string kind = parameter.init.getDistribution().str();
      json["init"] = {{"kind", kind}};
      if (kind != "zeros" && kind != "ones")
        json["init"]["value"] = parameter.init.getScale().getValueAsDouble();
      if (parameter.init.getIfAbsent())
        json["init"]["if_absent"] = true;
    }
    if (parameter.adapter)
      json["adapter"] = {{"inputs_first", *parameter.adapter}};
    if (parameter.routedShare < 1)
      json["routed_share"] = parameter.routedShare;
    root["parameters"].push_back(std::move(json));
  }
  for (const Slots::Slot &slot : program.slots.slots()) {
    Json layout = {{"kind", slot.tile ? "packed" : isNarrow(slot.storage) ? storageName(slot.storage) : "dense"}};
    if (slot.tile) {
      layout.update({{"inner", slot.inner}, {"tile", slot.tile}, {"parts", Json::array()}});
      if (slot.storage != Storage::F32)
        layout["storage"] = quern::support::storageName(slot.storage);
      if (slot.beside != 1)
        layout["beside"] = slot.beside;
      for (const Slots::Part &part : slot.parts) {
        layout["parts"].push_back(
            {{"outer", part.outer}, {"outer_stride", part.outerStride}, {"inner_stride", part.innerStride}});
        if (part.offset)
          layout["parts"].back()["offset"] = part.offset;
      }
    }
    root["slots"].push_back({{"iterations", slot.iterations}, {"layout", layout}});
  }
  for (auto state : planned.getOps<StateOp>()) {
    if (std::optional<StringRef> message = state.getCheck()) {
      root["checks"].push_back({{"at", callerOf(state.getLoc())}, {"message", message->str()}});
      continue;
    }
    Json json = tensorJson(state.getSymName(), cast<NamedTensorType>(state.getType()));
    json["functions"] = Json::array(); // the others need no room for it
    for (auto [number, entry] : llvm::enumerate(program.entries))
      if (!SymbolTable::symbolKnownUseEmpty(state, entry.source))
        json["functions"].push_back(number);
    root["states"].push_back(std::move(json));
  }
  return root.dump();
}
