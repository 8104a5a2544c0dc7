// Takes: a discardable attribute of the dialect and what it stands on. Gives: an error unless it is known, stands where
// it belongs and has its form. Why a table: a mark that one pass writes with a typing mistake, and another looks for in
// vain, changes a program without a word.
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
    {precisionAttr, "a module", on<ModuleOp>, "\"f32\" or \"bf16\"", isPrecision},
    {cachePrecisionAttr, "a module", on<ModuleOp>, "\"f32\" or \"bf16\"", isPrecision},
    {quantizeAttr, "a module", on<ModuleOp>, text, is<StringAttr>},
    {priceAttr, "a module", on<ModuleOp>, "a number of at least 0", isPrice},
    {segmentTurnsAttr, "a module", on<ModuleOp>, positive, isPositive},
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
    {pickedAttr, "quern.param", on<ParamOp>, "a share from 0 to 1", isShare},
    {segmentAttr, "quern.repeat", on<RepeatOp>, nothing, is<UnitAttr>},
    {againAttr, "an operation with results", onValues, nothing, is<UnitAttr>},
    {placesAttr, "quern.launch or quern.repeat", on<LaunchOp, RepeatOp>, "a list of #quern.place", list<is<PlaceAttr>>},
    {copyInAttr, "quern.repeat", on<RepeatOp>, "a list of bools", list<is<BoolAttr>>},
    {copyOutAttr, "quern.repeat", on<RepeatOp>, "a list of bools", list<is<BoolAttr>>},
    {planAttr, "quern.kernel", on<KernelOp>, text, is<StringAttr>},
};

/// They go when attention is an operation of its own.
const Known attentionMarks[] = {
    {insideAttr, "an operation with results", onValues, nothing, is<UnitAttr>},
    {distanceAttr, "quern.gather", on<GatherOp>, nothing, is<UnitAttr>},
    {statisticAttr, "an operation with results", onValues, nothing, is<UnitAttr>},
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
const Table tables[] = {onOperations, attentionMarks, onArguments, onResults};

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
  if (failed(check(op, attr, {onOperations, attentionMarks}, op->getName().getStringRef())))
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
