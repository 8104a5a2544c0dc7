// Takes: a module and its text. Gives: its operations with their places in text and spec, operands, types and costs.
#include "tools/inspect/ModuleJson.h"

#include "codegen/KernelCosts.h"
#include "codegen/LaunchCosts.h"
#include "ir/Attributes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Location.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::tools;
namespace codegen = quern::codegen;
using Json = nlohmann::json;

int Places::file(StringRef name) {
  for (size_t i = 0; i < files.size(); ++i)
    if (files[i] == name)
      return static_cast<int>(i);
  files.push_back(name.str());
  return static_cast<int>(files.size()) - 1;
}

void Places::origins(Location location, Json names, Json frames, Json &out) {
  if (auto name = dyn_cast<NameLoc>(location)) {
    names.push_back(name.getName().str());
    return origins(name.getChildLoc(), names, frames, out);
  }
  if (auto call = dyn_cast<CallSiteLoc>(location)) {
    // Frames of the caller first; of several (a fused caller) the first will do.
    Json callers = Json::array();
    origins(call.getCaller(), names, frames, callers);
    if (!callers.empty())
      return origins(call.getCallee(), callers[0]["names"], callers[0]["frames"], out);
    return origins(call.getCallee(), names, frames, out);
  }
  if (auto fused = dyn_cast<FusedLoc>(location)) {
    for (Location one : fused.getLocations())
      origins(one, names, frames, out);
    return;
  }
  if (auto place = dyn_cast<FileLineColLoc>(location))
    frames.push_back({file(place.getFilename().getValue()), place.getLine(), place.getColumn()});
  Json origin = {{"names", names}, {"frames", frames}};
  if (!frames.empty() && !llvm::is_contained(out, origin))
    out.push_back(std::move(origin));
}

int Places::add(Location location) {
  auto [entry, fresh] = known.try_emplace(Attribute(location), static_cast<int>(table.size()));
  if (fresh) {
    Json list = Json::array();
    origins(location, Json::array(), Json::array(), list);
    table.push_back(std::move(list));
  }
  return entry->second;
}

/// "real[B, T, D = 768]".
static std::string typeText(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  StringRef body = text;
  if (body.consume_front("!quern.tensor<"))
    body.consume_back(">");
  return body.str();
}

static std::string listText(ArrayAttr list) {
  std::string text;
  for (Attribute one : list) {
    if (auto dim = dyn_cast<DimAttr>(one))
      text += (text.empty() ? "" : ", ") + dim.getName().str();
    else if (auto name = dyn_cast<StringAttr>(one))
      text += (text.empty() ? "" : ", ") + name.getValue().str();
  }
  return text;
}

/// What a label says beside the operation's name: a number, a parameter's name, the dimensions that are gone.
static std::string labelOf(Operation *op) {
  if (auto param = dyn_cast<ParamOp>(op))
    return cast<StringAttr>(cast<ArrayAttr>(param.getPaths()[0])[0]).getValue().str();
  if (auto constant = dyn_cast<ConstOp>(op)) {
    if (auto real = dyn_cast<FloatAttr>(constant.getValue())) {
      char text[32];
      std::snprintf(text, sizeof text, "%.5g", real.getValueAsDouble());
      return text;
    }
    std::string text;
    llvm::raw_string_ostream stream(text);
    constant.getValue().print(stream, /*elideType=*/true);
    return text;
  }
  if (auto size = dyn_cast<SizeOp>(op))
    return size.getPolynomial().str();
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return stringifyReduction(reduce.getReduction()).str() + " over " + listText(reduce.getDims());
  if (auto contract = dyn_cast<ContractOp>(op))
    return "over " + listText(contract.getDims());
  if (auto softmax = dyn_cast<SoftmaxOp>(op))
    return "over " + listText(softmax.getDims());
  if (auto attention = dyn_cast<AttentionOp>(op))
    return "over " + attention.getDim().str();
  if (auto compare = dyn_cast<CompareOp>(op))
    return stringifyPredicate(compare.getPredicate()).str();
  if (auto rename = dyn_cast<RenameOp>(op))
    return listText(rename.getFrom()) + " to " + listText(rename.getTo());
  if (auto remember = dyn_cast<RememberOp>(op))
    return "in " + remember.getState().str();
  return "";
}

static void addCost(Json &one, Operation *op, bool launched) {
  if (isa<ConstOp, SizeOp, ParamOp, func::FuncOp>(op))
    return;
  // Operations inside a kernel say what they would cost alone.
  OperationCost cost = costOf(op, launched && !op->getParentOfType<KernelOp>());
  if (auto kernel = dyn_cast<KernelOp>(op)) {
    codegen::KernelCosts costs = codegen::costsOf(kernel);
    cost = {costs.flops, costs.bytes};
  }
  if (cost.flops != Size(0))
    one["f"] = cost.flops.str();
  if (cost.bytes != Size(0))
    one["m"] = cost.bytes.str();
}

llvm::DenseMap<Operation *, int> quern::tools::numberOperations(ModuleOp module) {
  llvm::DenseMap<Operation *, int> number;
  module->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op != module)
      number.try_emplace(op, static_cast<int>(number.size()));
  });
  return number;
}

Json quern::tools::moduleJson(ModuleOp module, const Printed &printed, Places &places) {
  Json ops = Json::array();
  llvm::DenseMap<Operation *, int> number = numberOperations(module);
  bool launched = isLaunched(module);
  module->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op == module)
      return;
    auto line = printed.line.find(op);
    auto parent = number.find(op->getParentOp());
    Json one = {{"n", op->getName().stripDialect().str()},
                {"l", line == printed.line.end() ? 0 : line->second},
                {"p", parent == number.end() ? -1 : parent->second},
                {"o", places.add(op->getLoc())}};
    Json operands = Json::array(), results = Json::array();
    for (Value value : op->getOperands()) {
      if (Operation *maker = value.getDefiningOp()) {
        operands.push_back(number.lookup(maker));
      } else {
        auto argument = cast<BlockArgument>(value);
        operands.push_back(std::to_string(number.lookup(argument.getOwner()->getParentOp())) + "." +
                           std::to_string(argument.getArgNumber()));
      }
    }
    for (Type type : op->getResultTypes())
      results.push_back(typeText(type));
    one["a"] = std::move(operands), one["r"] = std::move(results);
    if (auto symbol = op->getAttrOfType<StringAttr>(SymbolTable::getSymbolAttrName()))
      one["s"] = symbol.getValue().str();
    if (op->getNumRegions() && !op->getRegion(0).empty()) {
      Json types = Json::array();
      for (BlockArgument argument : op->getRegion(0).getArguments())
        types.push_back(typeText(argument.getType()));
      one["b"] = std::move(types);
    }
    if (std::string text = labelOf(op); !text.empty())
      one["v"] = text;
    if (auto function = dyn_cast<func::FuncOp>(op)) {
      Json names = Json::array();
      for (unsigned i = 0; i < function.getNumArguments(); ++i) {
        auto name = function.getArgAttrOfType<StringAttr>(i, nameAttr);
        names.push_back(name ? name.getValue().str() : "");
      }
      one["names"] = std::move(names);
    }
    if (auto repeat = dyn_cast<RepeatOp>(op))
      one["t"] = repeat.getIterations();
    if (auto launch = dyn_cast<LaunchOp>(op)) {
      one["k"] = launch.getKernel().str();
      one["w"] = codegen::titleOf(launch);
      Json lengths = Json::object();
      if (auto kernel = module.lookupSymbol<KernelOp>(launch.getKernel()))
        for (auto [symbol, size] : llvm::zip(kernel.getSymbols(), launch.getSymbols()))
          lengths[symbol] = cast<StringAttr>(size).getValue().str();
      one["y"] = std::move(lengths);
      if (launch.getOnce())
        one["once"] = true;
    }
    addCost(one, op, launched);
    ops.push_back(std::move(one));
  });
  return {{"text", printed.text}, {"ops", std::move(ops)}};
}
