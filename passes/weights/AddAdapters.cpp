// Takes: a module that `quern.lora` asks for adapters (Hu et al. 2021). Gives: beside each product with a chosen matrix the
// product with two thin ones.
//
//   before: %y = contract %x, %w over ["D"]      [B, T, O], w is [O, D] or [D, O]
//   after:  %h = contract %x, %a over ["D"]      [B, T, rank]    %a = param ["NAME.lora_A.weight"] : [rank, D]
//           %u = contract %h * scale, %b over ["rank"]           %b = param ["NAME.lora_B.weight"] : [O, rank]
//           %z = add %y, %u
//
// Why before the differentiation: gradients of %a and %b are those of any product, nothing is derived of what is frozen, and
// %w may be stored in codes, as nothing ever changes it. Why in programs that are not trained, too: an adapter that is merged
// into codes would be rounded to them. Names and shapes are PEFT's. Without globs the matrices of layers are chosen, which
// are all in loops by now; of experts that rows are routed to, none.
#include "ir/Attributes.h"
#include "ir/Scan.h"
#include "ir/analysis/Options.h"
#include "passes/Passes.h"
#include "passes/weights/Adapters.h"
#include "passes/weights/WeightFormats.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

#include <cmath>

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

AdapterChoice AdapterChoice::parse(StringRef text) {
  AdapterChoice choice;
  SmallVector<StringRef> parts;
  text.split(parts, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  if (parts.empty() || parts[0].getAsInteger(10, choice.rank) || choice.rank < 1 || choice.rank > 4096)
    throw std::runtime_error("--lora " + text.str() +
                             ": RANK[,GLOB]... is needed, a whole number from 1 to 4096 and perhaps names of matrices");
  for (StringRef glob : ArrayRef<StringRef>(parts).drop_front())
    choice.globs.push_back(glob.str());
  return choice;
}

bool AdapterChoice::fits(ParamOp param, bool inLayers) const {
  if (globs.empty())
    return inLayers;
  return llvm::any_of(param.getPaths(), [&](Attribute iteration) {
    return llvm::any_of(globs, [&](const std::string &glob) { return fitsOneName(glob, iteration); });
  });
}

namespace {

/// A product with a matrix that may have an adapter.
struct Product {
  ContractOp contract;
  Value x, weight;
  ParamOp param;
  DimAttr depth, rows;
  bool inputsFirst; ///< as the matrix is stored
};

std::optional<Product> productOf(ContractOp contract) {
  if (contract.getDims().size() != 1 || contract->getParentOfType<ScanOp>())
    return std::nullopt;
  StringRef over = names(contract.getDims())[0];
  for (auto [weight, x] : {std::pair(contract.getB(), contract.getA()), std::pair(contract.getA(), contract.getB())}) {
    Value from = weight;
    while (from.getDefiningOp() && isa<PermuteOp, RenameOp>(from.getDefiningOp()))
      from = from.getDefiningOp()->getOperand(0);
    auto param = from.getDefiningOp<ParamOp>();
    NamedTensorType type = typeOf(weight);
    if (!param || !param.getStacked().empty() || type.getRank() != 2 || x.getDefiningOp<ParamOp>())
      continue;
    bool looked = llvm::any_of(from.getUsers(), [](Operation *user) { return isa<GatherOp>(user); });
    DimAttr depth = type.dim(over), rows = type.getDims()[type.getDims()[0] == depth];
    if (looked || !depth || typeOf(x).has(rows.getName()))
      continue;
    // Permutations and renames keep sizes; of a square matrix that was turned the order is that of its parameter.
    bool turned = false;
    for (Value at = weight; at != from; at = at.getDefiningOp()->getOperand(0))
      if (auto permute = at.getDefiningOp<PermuteOp>())
        turned ^= typeOf(permute.getX()).getDims()[0] != typeOf(at).getDims()[0];
    return Product{contract, x, weight, param, depth, rows, (type.getDims()[0] == depth) != turned};
  }
  return std::nullopt;
}

/// The names of half an adapter: PEFT puts its own in the place of the end ".weight".
ArrayAttr namesOfHalf(ParamOp param, StringRef half) {
  SmallVector<Attribute> paths;
  Builder b(param.getContext());
  for (Attribute iteration : param.getPaths()) {
    SmallVector<Attribute> alternatives;
    for (Attribute name : cast<ArrayAttr>(iteration)) {
      StringRef stem = cast<StringAttr>(name).getValue();
      stem.consume_back(".weight");
      alternatives.push_back(b.getStringAttr(stem + half));
    }
    paths.push_back(b.getArrayAttr(alternatives));
  }
  return b.getArrayAttr(paths);
}

class AddAdaptersPass : public PassWrapper<AddAdaptersPass, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(AddAdaptersPass)
  StringRef getArgument() const final { return "add-adapters"; }
  StringRef getDescription() const final { return "Add low-rank adapters beside products with weights"; }

  void runOnOperation() final {
    ModuleOp module = getOperation();
    ProgramOptions options = optionsOf(module);
    if (options.lora.empty())
      return;
    try {
      choice = AdapterChoice::parse(options.lora);
    } catch (const std::runtime_error &error) {
      module.emitError(error.what());
      return signalPassFailure();
    }
    scale = options.loraScale;
    for (auto function : module.getOps<func::FuncOp>()) {
      SmallVector<ContractOp> contracts;
      function.walk([&](ContractOp contract) { contracts.push_back(contract); });
      made.clear();
      for (ContractOp contract : contracts)
        if (std::optional<Product> product = productOf(contract);
            product && choice.fits(product->param, contract->getParentOfType<RepeatOp>() != nullptr) &&
            failed(adapt(*product)))
          return signalPassFailure();
    }
    if (!stored) {
      module.emitError("--lora " + options.lora + ": no matrix can have an adapter" +
                       (choice.globs.empty() ? " in the layers" : " among those that the globs name") +
                       "; it is a weight with two dimensions that a product reads, and that is no table, too");
      signalPassFailure();
    }
  }

private:
  struct Halves {
    Value a, b;
    DimAttr depth;
  };

  /// Parameters of both, once for all products of a body with the matrix.
  FailureOr<Halves> halvesOf(Product p) {
    if (auto known = made.find(p.param); known != made.end()) {
      if (known->second.depth == p.depth)
        return known->second;
      return p.contract.emitError(
          "--lora: the matrix of this product is summed over another of its dimensions elsewhere; "
          "an adapter is beside one of the two: name others by GLOB");
    }
    if (stored && *stored != p.inputsFirst)
      return p.contract.emitError("--lora: some of the matrices are stored as [inputs, outputs], others as [outputs, "
                                  "inputs], and an adapter's file says one for all: name those of one kind by GLOB");
    stored = p.inputsFirst;
    MLIRContext *context = &getContext();
    OpBuilder b(p.param);
    Location loc = p.param.getLoc();
    DimAttr rank = DimAttr::get(context, "rank", Size(choice.rank));
    auto half = [&](StringRef name, ArrayRef<DimAttr> dims, StringRef start, double width) {
      auto init = InitAttr::get(context, start, b.getF64FloatAttr(width), /*if_absent=*/false);
      auto param =
          ParamOp::create(b, loc, NamedTensorType::get(context, Kind::Real, dims), namesOfHalf(p.param, name), init);
      param->setAttr(adapterAttr, b.getBoolAttr(p.inputsFirst));
      return param.getResult();
    };
    const double width = 1 / std::sqrt(static_cast<double>(p.depth.getStatic().value_or(1)));
    return made[p.param] = {half(".lora_A.weight", {rank, p.depth}, "uniform", width),
                            half(".lora_B.weight", {p.rows, rank}, "zeros", 0), p.depth};
  }

  LogicalResult adapt(Product p) {
    FailureOr<Halves> halves = halvesOf(p);
    if (failed(halves))
      return failure();
    ContractOp contract = p.contract;
    OpBuilder b(contract);
    b.setInsertionPointAfter(contract);
    Location loc = contract.getLoc();
    Value thin = ContractOp::create(b, loc, p.x, halves->a, contract.getDims());
    Value factor = ConstOp::create(b, loc, scale);
    Value scaled = MulOp::create(b, loc, thin, factor);
    Value added = ContractOp::create(b, loc, scaled, halves->b, labelArray(b, {"rank"}));
    auto sum = AddOp::create(b, loc, contract.getResult(), added);
    Value result = sum;
    if (result.getType() != contract.getType())
      result = PermuteOp::create(b, loc, contract.getType(), result);
    contract.getResult().replaceAllUsesExcept(result, sum);
    return success();
  }

  AdapterChoice choice;
  double scale = 2;
  std::optional<bool> stored; ///< how, of those that have adapters
  llvm::DenseMap<ParamOp, Halves> made;
};

} // namespace

std::unique_ptr<Pass> quern::passes::createAddAdaptersPass() {
  return std::make_unique<AddAdaptersPass>();
}
