// Takes: a discardable attribute of the dialect and what it stands on. Gives: an error unless it is known, stands where
// it belongs and has its form. Why a table: a mark that one pass writes with a typing mistake, and another looks for in
// vain, changes a program without a word. The same of the symbols of kernels and states that operations name: dumps are edited
// by hand, and what a verifier lets pass crashes where code is made of it.
#include "ir/Attributes.h"

#include "ir/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace quern::ir;

namespace {
/// One line of the table.
struct Known {
  StringLiteral name;
  StringLiteral on; ///< as messages say it
  bool (*standsOn)(Operation *);
  StringLiteral form; ///< as messages say it
  bool (*hasForm)(Attribute);
};

template <class... Ops> bool on(Operation *op) {
  return isa<Ops...>(op);
}
bool onValues(Operation *op) {
  return op->getNumResults() && op->getDialect() && op->getDialect()->getNamespace() == "quern";
}

template <class Attr> bool is(Attribute attr) {
  return isa<Attr>(attr);
}
/// A list whose elements are `each`.
template <bool (*each)(Attribute)> bool list(Attribute attr) {
  auto elements = dyn_cast<ArrayAttr>(attr);
  return elements && llvm::all_of(elements, each);
}
bool isSize(Attribute attr) {
  auto text = dyn_cast<StringAttr>(attr);
  return text && Size::parse(text.getValue());
}
bool isPositive(Attribute attr) {
  auto number = dyn_cast<IntegerAttr>(attr);
  return number && number.getType().isSignlessInteger(64) && number.getInt() > 0;
}
bool isShare(Attribute attr) {
  auto number = dyn_cast<FloatAttr>(attr);
  return number && number.getValueAsDouble() > 0 && number.getValueAsDouble() <= 1;
}
bool isPrice(Attribute attr) {
  auto number = dyn_cast<FloatAttr>(attr);
  return number && number.getValueAsDouble() >= 0;
}
bool isPrecision(Attribute attr) {
  auto text = dyn_cast<StringAttr>(attr);
  return text && (text.getValue() == "f32" || text.getValue() == "bf16");
}
bool isPrecisionOfWeights(Attribute attr) {
  auto text = dyn_cast<StringAttr>(attr);
  return isPrecision(attr) || (text && text.getValue() == "f16");
}
bool isPrecisionOfCaches(Attribute attr) {
  auto text = dyn_cast<StringAttr>(attr);
  return isPrecision(attr) || (text && text.getValue() == "int8");
}
bool isLimit(Attribute attr) {
  auto limit = dyn_cast<DictionaryAttr>(attr);
  return limit && limit.size() == 3 && limit.getAs<StringAttr>("at") && limit.getAs<StringAttr>("name") &&
         limit.getAs<IntegerAttr>("size");
}

constexpr StringLiteral nothing = "a unit attribute", text = "a string", positive = "a positive i64";

const Known onOperations[] = {
    {modelAttr, "a module", on<ModuleOp>, text, is<StringAttr>},
    {configAttr, "a module", on<ModuleOp>, text, is<StringAttr>},
    {fileConfigAttr, "a module", on<ModuleOp>, text, is<StringAttr>},
    {ignoreAttr, "a module", on<ModuleOp>, "a list of strings", list<is<StringAttr>>},
    {trainAttr, "a module", on<ModuleOp>, nothing, is<UnitAttr>},
    {precisionAttr, "a module", on<ModuleOp>, "\"f32\", \"bf16\" or \"f16\"", isPrecisionOfWeights},
    {loraAttr, "a module", on<ModuleOp>, text, is<StringAttr>},
    {loraScaleAttr, "a module", on<ModuleOp>, "a number of at least 0", isPrice},
    {cachePrecisionAttr, "a module", on<ModuleOp>, "\"f32\", \"bf16\" or \"int8\"", isPrecisionOfCaches},
    {cachesOfStepsAttr, "a module", on<ModuleOp>, nothing, is<UnitAttr>},
    {quantizeAttr, "a module", on<ModuleOp>, text, is<StringAttr>},
    {priceAttr, "a module", on<ModuleOp>, "a number of at least 0", isPrice},
    {segmentIterationsAttr, "a module", on<ModuleOp>, positive, isPositive},
    {chunkRowsAttr, "a module", on<ModuleOp>, positive, isPositive},
    {batchAttr, "a function", on<func::FuncOp>, "a #quern.label", is<LabelAttr>},
    {timeAttr, "a function", on<func::FuncOp>, "a #quern.label", is<LabelAttr>},
    {roleAttr, "a function", on<func::FuncOp>, "a #quern.role", is<RoleAttr>},
    {nextTokenAttr, "a function", on<func::FuncOp>, nothing, is<UnitAttr>},
    {refusalAttr, "a function", on<func::FuncOp>, text, is<StringAttr>},
    {recomputeAttr, "a function", on<func::FuncOp>, nothing, is<UnitAttr>},
    {limitsAttr, "a function", on<func::FuncOp>, "a list of {at, name, size}", list<isLimit>},
    {fewRowsAttr, "a function", on<func::FuncOp>, positive, isPositive},
    {changingAttr, "a function", on<func::FuncOp>, nothing, is<UnitAttr>},
    {arenaAttr, "a function", on<func::FuncOp>, "a list of lists of sizes", list<list<isSize>>},
    {keptAttr, "a function", on<func::FuncOp>, "a list of sizes", list<isSize>},
    {onceAttr, "an operation with results", onValues, nothing, is<UnitAttr>},
    {windowAttr, "quern.rename or quern.remember", on<RenameOp, RememberOp>, "a #quern.window", is<WindowAttr>},
    {weightAttr, "quern.concat or quern.quantize", on<ConcatOp, QuantizeOp>, nothing, is<UnitAttr>},
    {routedShareAttr, "quern.param", on<ParamOp>, "a share from 0 to 1", isShare},
    {adapterAttr, "quern.param", on<ParamOp>, "true or false", is<BoolAttr>},
    {segmentAttr, "quern.repeat", on<RepeatOp>, nothing, is<UnitAttr>},
    {againAttr, "an operation with results", onValues, nothing, is<UnitAttr>},
    {placesAttr, "quern.launch or quern.repeat", on<LaunchOp, RepeatOp>, "a list of #quern.place", list<is<PlaceAttr>>},
    {copyInAttr, "quern.repeat", on<RepeatOp>, "a list of bools", list<is<BoolAttr>>},
    {copyOutAttr, "quern.repeat", on<RepeatOp>, "a list of bools", list<is<BoolAttr>>},
    {planAttr, "quern.kernel", on<KernelOp>, text, is<StringAttr>},
};

const Known onArguments[] = {
    {nameAttr, "an argument", on<func::FuncOp>, text, is<StringAttr>},
    {defaultAttr, "an argument", on<func::FuncOp>, "the symbol of a function", is<FlatSymbolRefAttr>},
};

const Known onResults[] = {
    {nameAttr, "a result", on<func::FuncOp>, text, is<StringAttr>},
    {gradientAttr, "a result", on<func::FuncOp>, "a list of lists of names", list<list<is<StringAttr>>>},
};

using Table = ArrayRef<Known>;
const Table tables[] = {onOperations, onArguments, onResults};

std::string listed(ArrayRef<Table> where) {
  SmallVector<StringRef> names;
  for (Table table : where)
    for (const Known &known : table)
      names.push_back(known.name);
  llvm::sort(names);
  return llvm::join(names, ", ");
}

/// `place`: what the attribute was found on.
LogicalResult check(Operation *op, NamedAttribute attr, ArrayRef<Table> where, const Twine &place) {
  StringRef name = attr.getName().getValue();
  for (Table table : where)
    for (const Known &known : table) {
      if (known.name != name)
        continue;
      if (!known.standsOn(op))
        return op->emitError() << "'" << name << "' stands on " << known.on << ", not on " << place;
      if (!known.hasForm(attr.getValue()))
        return op->emitError() << "'" << name << "' is " << known.form << ", not " << attr.getValue();
      return success();
    }
  for (Table table : tables)
    for (const Known &known : table)
      if (known.name == name)
        return op->emitError() << "'" << name << "' stands on " << known.on << ", not on " << place;
  return op->emitError() << "unknown attribute '" << name << "' on " << place << "; known are " << listed(where);
}
} // namespace

SmallVector<StringRef> quern::ir::discardableAttributes() {
  SmallVector<StringRef> names;
  for (Table table : tables)
    for (const Known &known : table)
      if (!llvm::is_contained(names, known.name))
        names.push_back(known.name);
  llvm::sort(names);
  return names;
}

LogicalResult QuernDialect::verifyOperationAttribute(Operation *op, NamedAttribute attr) {
  if (failed(check(op, attr, {onOperations}, op->getName().getStringRef())))
    return failure();
  // One entry for each result.
  StringRef name = attr.getName().getValue();
  if (name == placesAttr || name == copyInAttr || name == copyOutAttr)
    if (auto entries = cast<ArrayAttr>(attr.getValue()); entries.size() != op->getNumResults())
      return op->emitError() << "'" << name << "' has " << entries.size() << " entries for " << op->getNumResults()
                             << " results";
  return success();
}

LogicalResult QuernDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned index, NamedAttribute attr) {
  return check(op, attr, {onArguments}, "argument " + Twine(index));
}

LogicalResult QuernDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned index, NamedAttribute attr) {
  return check(op, attr, {onResults}, "result " + Twine(index));
}

// ---- states

/// The state that `op` names; null after an error.
static StateOp stateOf(Operation *op, FlatSymbolRefAttr symbol, SymbolTableCollection &tables, StringRef label) {
  auto state = tables.lookupNearestSymbolFrom<StateOp>(op, symbol);
  if (!state)
    op->emitOpError(label) << ": there is no quern.state " << symbol;
  return state;
}

/// Whether a state holds a value of `type`: the same kind, and its dimensions behind that of the iterations, which a state
/// has within loops.
static LogicalResult holds(Operation *op, StateOp state, NamedTensorType type, StringRef label, bool sizes) {
  auto memory = cast<NamedTensorType>(state.getType());
  bool stacked = op->getParentOfType<RepeatOp>() && !state.getCheck();
  auto wrong = [&]() -> LogicalResult {
    return op->emitOpError(label) << ": the state " << state.getSymName() << " is " << memory << ", which "
                                  << (stacked ? "for each iteration " : "") << "does not hold " << type;
  };
  if (memory.getStorage() != type.getStorage() || memory.getRank() != type.getRank() + stacked)
    return wrong();
  if (!sizes)
    return success();
  Size elements(1);
  for (DimAttr dim : memory.getDims().drop_front(stacked))
    elements = elements * dim.getSize();
  return elements == type.elements() ? success() : wrong();
}

LogicalResult RememberOp::verifySymbolUses(SymbolTableCollection &tables) {
  StateOp state = stateOf(*this, getStateAttr(), tables, "remember_c2");
  // A state has room for `cap` rows where the result has the rows so far.
  return state ? holds(*this, state, getResult().getType(), "remember_c3", /*sizes=*/false) : failure();
}

LogicalResult RecallOp::verifySymbolUses(SymbolTableCollection &tables) {
  StateOp state = stateOf(*this, getStateAttr(), tables, "recall_c1");
  return state ? holds(*this, state, getResult().getType(), "recall_c2", /*sizes=*/true) : failure();
}

LogicalResult StoreOp::verifySymbolUses(SymbolTableCollection &tables) {
  StateOp state = stateOf(*this, getStateAttr(), tables, "store_c1");
  return state ? holds(*this, state, getX().getType(), "store_c2", /*sizes=*/true) : failure();
}

// ---- kernels

/// Whether a value of the caller is what the kernel takes or gives, with `lengths` in the place of its symbols.
static bool fits(NamedTensorType own, NamedTensorType caller, const std::map<std::string, Size> &lengths) {
  return own.getStorage() == caller.getStorage() && own.getRank() == caller.getRank() &&
         llvm::all_of(llvm::zip(own.getDims(), caller.getDims()), [&](auto pair) {
           return std::get<0>(pair).getSize().substitute(lengths) == std::get<1>(pair).getSize();
         });
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto kernel = tables.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("launch_c1: there is no quern.kernel ") << getKernelAttr();
  SmallVector<std::string> symbols = kernel.getSymbols();
  if (symbols.size() != getSymbols().size())
    return emitOpError("launch_c2: the kernel has ") << symbols.size() << " lengths (" << llvm::join(symbols, ", ")
                                                     << "), the launch gives " << getSymbols().size();
  for (StringRef size : names(getSymbols()))
    if (!Size::parse(size))
      return emitOpError("launch_c3: '") << size << "' is no polynomial over run-time lengths";
  auto compare = [&](TypeRange own, TypeRange caller, StringRef what) -> LogicalResult {
    if (own.size() != caller.size())
      return emitOpError("launch_c4: the kernel has ")
             << own.size() << " " << what << "s, the launch " << caller.size();
    std::map<std::string, Size> lengths = lengthsOf(kernel, *this);
    for (auto [i, pair] : llvm::enumerate(llvm::zip(own, caller)))
      if (!fits(cast<NamedTensorType>(std::get<0>(pair)), cast<NamedTensorType>(std::get<1>(pair)), lengths))
        return emitOpError("launch_c5: ") << what << " " << i << " of the kernel is " << std::get<0>(pair)
                                          << ", the launch has " << std::get<1>(pair);
    return success();
  };
  if (failed(compare(kernel.getBlock().getArgumentTypes(), getInputs().getTypes(), "argument")))
    return failure();
  return compare(kernel.getYield().getValues().getTypes(), getResultTypes(), "result");
}
