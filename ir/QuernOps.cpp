// Verifiers, builders and custom forms of the operations that rules/InferTypes.cpp does not cover.
#include "ir/Attributes.h"
#include "ir/Chunk.h"

#include <algorithm>

using namespace mlir;
using namespace quern::ir;

// ---- names of dimensions in the text of operations: "T" and ["T", "S"]

static ParseResult parseLabel(OpAsmParser &parser, LabelAttr &label) {
  std::string name;
  if (parser.parseString(&name))
    return failure();
  label = LabelAttr::get(parser.getContext(), name);
  return success();
}

static void printLabel(OpAsmPrinter &printer, Operation *, LabelAttr label) {
  printer.printString(label.getName());
}

static ParseResult parseLabels(OpAsmParser &parser, ArrayAttr &labels) {
  SmallVector<Attribute> list;
  auto element = [&]() -> ParseResult {
    LabelAttr label;
    if (parseLabel(parser, label))
      return failure();
    list.push_back(label);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, element))
    return failure();
  labels = ArrayAttr::get(parser.getContext(), list);
  return success();
}

static void printLabels(OpAsmPrinter &printer, Operation *, ArrayAttr labels) {
  printer << "[";
  llvm::interleaveComma(names(labels), printer, [&](StringRef name) { printer.printString(name); });
  printer << "]";
}

#define GET_OP_CLASSES
#include "ir/QuernOps.cpp.inc"

// ---- numbers

static NamedTensorType scalar(MLIRContext *context, Kind kind) {
  return NamedTensorType::get(context, kind, {});
}

void ConstOp::build(OpBuilder &builder, OperationState &state, double value) {
  build(builder, state, scalar(builder.getContext(), Kind::Real), builder.getF64FloatAttr(value));
}
void ConstOp::build(OpBuilder &builder, OperationState &state, int64_t value) {
  build(builder, state, scalar(builder.getContext(), Kind::Int), builder.getI64IntegerAttr(value));
}
void ConstOp::build(OpBuilder &builder, OperationState &state, bool value) {
  build(builder, state, scalar(builder.getContext(), Kind::Bool), builder.getBoolAttr(value));
}

LogicalResult ConstOp::verify() {
  NamedTensorType type = getResult().getType();
  if (type.getRank())
    return emitOpError("const_c1: a constant has no dimensions");
  Kind kind = isa<BoolAttr>(getValue()) ? Kind::Bool : isa<IntegerAttr>(getValue()) ? Kind::Int : Kind::Real;
  if (type != scalar(getContext(), kind) || !isa<BoolAttr, IntegerAttr, FloatAttr>(getValue()))
    return emitOpError("const_c2: the value is not of the result's kind");
  return success();
}

LogicalResult ValuesOp::verify() {
  NamedTensorType type = getResult().getType();
  if (type.getRank() != 1 || !type.isF32() ||
      type.getDims()[0].getStatic() != static_cast<int64_t>(getNumbers().size()))
    return emitOpError("values_c1: the result is one real dimension, as long as the list");
  return success();
}

void SizeOp::build(OpBuilder &builder, OperationState &state, const Size &size) {
  build(builder, state, scalar(builder.getContext(), Kind::Int), builder.getStringAttr(size.str()));
}
Size SizeOp::getPolynomial() {
  return *Size::parse(getSize());
}
LogicalResult SizeOp::verify() {
  if (!Size::parse(getSize()))
    return emitOpError("size_c1: '") << getSize() << "' is no polynomial over run-time lengths";
  if (getResult().getType() != scalar(getContext(), Kind::Int))
    return emitOpError("size_c2: the result is an int without dimensions");
  return success();
}

void IndexOp::build(OpBuilder &builder, OperationState &state, DimAttr dim) {
  build(builder, state, NamedTensorType::get(builder.getContext(), Kind::Int, {dim}));
}
LogicalResult IndexOp::verify() {
  if (getResult().getType().getRank() != 1 || !getResult().getType().isInt())
    return emitOpError("index_c1: the result is int with one dimension");
  return success();
}

// ---- shape

LogicalResult RenameOp::verify() {
  for (DimAttr to : getTo().getAsRange<DimAttr>())
    if (getResult().getType().dim(to.getName()) != to)
      return emitOpError("rename_c4: the result lacks ") << to.getName();
  return success();
}

LogicalResult ExpandOp::verify() {
  NamedTensorType from = getX().getType(), to = getResult().getType();
  if (from.getStorage() != to.getStorage())
    return emitOpError("expand_c1: the kind changes");
  for (DimAttr dim : from.getDims())
    if (to.dim(dim.getName()) != dim)
      return emitOpError("expand_c2: the result lacks ") << dim.getName();
  return success();
}

LogicalResult PermuteOp::verify() {
  if (!getX().getType().sameSet(getResult().getType()))
    return emitOpError("permute_c1: the result has other dimensions or another kind");
  return success();
}

Size CutOp::getOffsetSize() {
  return *Size::parse(getOffset());
}

// ---- parameters

SmallVector<std::string> ParamOp::getStacked() {
  SmallVector<std::string> labels;
  if (getPaths().empty() || cast<ArrayAttr>(getPaths()[0]).empty())
    return labels;
  StringRef name = cast<StringAttr>(cast<ArrayAttr>(getPaths()[0])[0]).getValue();
  for (size_t open = name.find('{'); open != StringRef::npos; open = name.find('{', open + 1)) {
    size_t close = name.find('}', open);
    if (close == StringRef::npos)
      break;
    std::string label = name.slice(open + 1, close).str();
    if (!llvm::is_contained(labels, label))
      labels.push_back(label);
  }
  return labels;
}

LogicalResult ParamOp::verify() {
  NamedTensorType type = getResult().getType();
  if (getPaths().empty())
    return emitOpError("param_c1: a parameter needs a name for each iteration");
  for (Attribute iteration : getPaths()) {
    auto alternatives = dyn_cast<ArrayAttr>(iteration);
    if (!alternatives || alternatives.empty() ||
        !llvm::all_of(alternatives, [](Attribute name) { return isa<StringAttr>(name); }))
      return emitOpError("param_c1: a parameter needs a list of names for each iteration");
  }
  for (DimAttr dim : type.getDims())
    if (!dim.getStatic())
      return emitOpError("param_c2: the size of ") << dim.getName() << " is not fixed by the config";
  if (!type.isF32() && !type.isNarrow())
    return emitOpError("param_c3: parameters are real, bf16 or f16");
  SmallVector<std::string> stacked = getStacked();
  for (auto [i, label] : llvm::enumerate(stacked)) {
    int at = type.find(label);
    if (at < 0 || at >= static_cast<int>(stacked.size()))
      return emitOpError("param_c4: the name is stacked over ") << label << ", which is no leading dimension";
  }
  return success();
}

// ---- codes

LogicalResult QuantizeOp::verify() {
  NamedTensorType x = getX().getType(), result = getResult().getType();
  if (!x.isF32() || !result.isCoded() || !x.sameSet(result.withKind(Kind::Real)))
    return emitOpError("quantize_c1: real becomes codes (int8, int4, q4_k ...) of the same dimensions");
  DimAttr dim = x.dim(getDim());
  if (!dim || !dim.getStatic())
    return emitOpError("quantize_c2: the value has no dimension ") << getDim() << " of fixed size";
  const Storage storage = result.getStorage();
  if (getPaired() && ((storage != Storage::Int8 && storage != Storage::Int8G128) || (*this)->hasAttr(weightAttr)))
    return emitOpError("quantize_c3: rows in int8 or int8_g128 alone are paired, not ")
           << ((*this)->hasAttr(weightAttr) ? "weights" : storageName(storage));
  return success();
}

// ---- loops

void RepeatOp::build(OpBuilder &builder, OperationState &state, TypeRange types, ValueRange inits,
                     uint64_t iterations) {
  build(builder, state, types, inits, ValueRange(), iterations, /*reversed=*/false, /*rows=*/IntegerAttr());
}

YieldOp RepeatOp::getYield() {
  return cast<YieldOp>(getBlock().getTerminator());
}

NamedTensorType RepeatOp::stackOf(NamedTensorType part, DimAttr iterations) {
  SmallVector<DimAttr> dims = {iterations};
  llvm::append_range(dims, part.getDims());
  return part.withDims(dims);
}

NamedTensorType RepeatOp::partOf(NamedTensorType stack) {
  return stack.withDims(stack.getDims().drop_front());
}

/// `(%argument = %operand, ...) : types`, appended to all three lists.
static ParseResult parseValues(OpAsmParser &parser, SmallVectorImpl<OpAsmParser::Argument> &arguments,
                               SmallVectorImpl<Value> &operands, SmallVectorImpl<Type> &types) {
  SmallVector<OpAsmParser::Argument> names;
  SmallVector<OpAsmParser::UnresolvedOperand> values;
  if (parser.parseAssignmentList(names, values) || parser.parseColonTypeList(types))
    return failure();
  if (types.size() != values.size())
    return parser.emitError(parser.getNameLoc(), "repeat_c1: one type for each value is needed");
  llvm::append_range(arguments, names);
  return parser.resolveOperands(values, types, parser.getNameLoc(), operands);
}

ParseResult RepeatOp::parse(OpAsmParser &parser, OperationState &result) {
  int64_t iterations;
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<Type> carried, stacks, given;
  Builder &builder = parser.getBuilder();
  bool chunks = succeeded(parser.parseOptionalKeyword("rows"));
  if (parser.parseInteger(iterations))
    return failure();
  if (chunks)
    result.addAttribute("rows", builder.getI64IntegerAttr(iterations));
  result.addAttribute("iterations", builder.getI64IntegerAttr(chunks ? 1 : iterations));
  if (succeeded(parser.parseOptionalKeyword("reversed")))
    result.addAttribute("reversed", builder.getUnitAttr());
  if (succeeded(parser.parseOptionalKeyword("carry")) && parseValues(parser, arguments, result.operands, carried))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("over"))) {
    if (parseValues(parser, arguments, result.operands, stacks))
      return failure();
    for (Type &type : stacks) {
      auto stack = dyn_cast<NamedTensorType>(type);
      if (!stack || !stack.getRank())
        return parser.emitError(parser.getNameLoc(), "repeat_c5: a stack's first dimension counts the iterations");
      std::optional<Size> length = chunks ? chunkLength(iterations, stack.getDims()[0].getSize()) : std::nullopt;
      SmallVector<DimAttr> dims(stack.getDims());
      if (length)
        dims[0] = DimAttr::get(builder.getContext(), dims[0].getName(), *length);
      type = length ? stack.withDims(dims) : partOf(stack);
    }
  }
  if (succeeded(parser.parseOptionalKeyword("gives")) && parser.parseTypeList(given))
    return failure();
  for (auto [argument, type] : llvm::zip(arguments, llvm::concat<Type>(carried, stacks)))
    argument.type = type;
  result.addAttribute("operandSegmentSizes",
                      builder.getDenseI32ArrayAttr({int32_t(carried.size()), int32_t(stacks.size())}));
  result.addTypes(carried);
  result.addTypes(given);
  Region *body = result.addRegion();
  if (parser.parseRegion(*body, arguments))
    return failure();
  if (body->empty())
    body->emplaceBlock();
  return parser.parseOptionalAttrDict(result.attributes);
}

void RepeatOp::print(OpAsmPrinter &printer) {
  auto values = [&](StringRef word, ValueRange arguments, ValueRange operands) {
    if (operands.empty())
      return;
    printer << " " << word << " (";
    llvm::interleaveComma(llvm::zip(arguments, operands), printer,
                          [&](auto pair) { printer << std::get<0>(pair) << " = " << std::get<1>(pair); });
    printer << ") : ";
    llvm::interleaveComma(operands.getTypes(), printer);
  };
  ValueRange arguments = getBlock().getArguments();
  std::optional<uint64_t> rows = getRows();
  printer << (rows ? " rows " : " ") << rows.value_or(getIterations()) << (getReversed() ? " reversed" : "");
  values("carry", arguments.take_front(getCarriedCount()), getInits());
  values("over", arguments.drop_front(getCarriedCount()), getStacks());
  if (getNumResults() > getCarriedCount()) {
    printer << " gives ";
    llvm::interleaveComma(TypeRange(getResultTypes()).drop_front(getCarriedCount()), printer);
  }
  printer << " ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
  printer.printOptionalAttrDict((*this)->getAttrs(), {"iterations", "reversed", "operandSegmentSizes", "rows"});
}

LogicalResult RepeatOp::verify() {
  auto yield = dyn_cast<YieldOp>(getBlock().getTerminator());
  if (!yield)
    return emitOpError("repeat_c2: the body does not end with quern.yield");
  unsigned carried = getCarriedCount();
  TypeRange arguments = getBlock().getArgumentTypes(), yielded = yield.getValues().getTypes(),
            results = getResultTypes();
  if (arguments.size() != carried + getStacks().size() || yielded.size() != getNumResults() ||
      getNumResults() < carried || !sameSets(getInits().getTypes(), results.take_front(carried)) ||
      !sameSets(yielded.take_front(carried), results.take_front(carried)) ||
      !sameSets(arguments.take_front(carried), results.take_front(carried)))
    return emitOpError("repeat_c3: carried values change their type");
  int64_t iterations = getIterations();
  if (iterations < 1)
    return emitOpError("repeat_c4: at least one iteration is needed");
  std::optional<Chunk> chunk = chunkOf(*this);
  if (chunk && (chunk->most < 1 || getReversed() || !chunkLength(chunk->most, chunk->rows)))
    return emitOpError(
        "repeat_c7: chunks are of a positive number of rows of a stack whose first dimension is a product of lengths");
  auto fits = [&](Type stack, Type part) {
    auto type = cast<NamedTensorType>(stack);
    if (chunk)
      return type.getRank() && type.getDims()[0].getSize() == chunk->rows &&
             partOfStack(*this, type).sameSet(cast<NamedTensorType>(part));
    return type.getRank() && type.getDims()[0].getStatic() == iterations &&
           partOf(type).sameSet(cast<NamedTensorType>(part));
  };
  for (auto [stack, part] : llvm::zip(getStacks().getTypes(), arguments.drop_front(carried)))
    if (!fits(stack, part))
      return emitOpError("repeat_c5: ") << part << " is no part of the stack " << stack << " of " << iterations
                                        << " iterations";
  for (auto [stack, part] : llvm::zip(results.drop_front(carried), yielded.drop_front(carried)))
    if (!fits(stack, part))
      return emitOpError("repeat_c6: ") << part << " is no part of the stack " << stack << " of " << iterations
                                        << " iterations";
  return success();
}

// ---- kernels

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<Attribute> argumentLayouts, resultLayouts;
  auto argument = [&]() -> ParseResult {
    return failure(parser.parseArgument(arguments.emplace_back(), /*allowType=*/true) ||
                   parser.parseAttribute(argumentLayouts.emplace_back()));
  };
  auto layout = [&]() -> ParseResult { return parser.parseAttribute(resultLayouts.emplace_back()); };
  if (parser.parseSymbolName(name, "sym_name", result.attributes) ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, argument) || parser.parseArrow() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, layout) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes) || parser.parseRegion(*result.addRegion(), arguments))
    return failure();
  result.addAttribute("arg_layouts", parser.getBuilder().getArrayAttr(argumentLayouts));
  result.addAttribute("result_layouts", parser.getBuilder().getArrayAttr(resultLayouts));
  return success();
}

void KernelOp::print(OpAsmPrinter &printer) {
  printer << " ";
  printer.printSymbolName(getSymName());
  printer << "(";
  llvm::interleaveComma(llvm::zip(getBlock().getArguments(), getArgLayouts()), printer, [&](auto pair) {
    printer.printRegionArgument(std::get<0>(pair));
    printer << " " << std::get<1>(pair);
  });
  printer << ") -> (";
  llvm::interleaveComma(getResultLayouts(), printer);
  printer << ")";
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(), {"sym_name", "arg_layouts", "result_layouts"});
  printer << " ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult KernelOp::verify() {
  auto yield = dyn_cast<YieldOp>(getBlock().getTerminator());
  if (!yield || yield.getValues().empty())
    return emitOpError("kernel_c1: the body does not end with quern.yield of a result");
  if (getBlock().getNumArguments() != getArgLayouts().size() || yield.getValues().size() != getResultLayouts().size())
    return emitOpError("kernel_c2: one layout for each argument and result is needed");
  auto fits = [&](Type type, Attribute attr) {
    auto layout = cast<LayoutAttr>(attr);
    auto tensor = cast<NamedTensorType>(type);
    if (!llvm::all_of(layout.getStrides(), [](StringAttr stride) { return Size::parse(stride.getValue()); }))
      return false;
    if (!layout.isPacked())
      return layout.getForm() == "strided" && layout.getStrides().size() == tensor.getRank() && layout.getBeside() == 1;
    return layout.getDims().size() == 2 && layout.getTile() > 0 && layout.getTile() <= 4096 && tensor.getRank() >= 2 &&
           llvm::all_of(tensor.getDims(), [](DimAttr dim) { return dim.getStatic().has_value(); }) &&
           llvm::all_of(layout.getDims(), [&](StringAttr dim) { return tensor.find(dim.getValue()) >= 0; }) &&
           (layout.getBeside() == 1 || (layout.getBeside() == 2 && tensor.getStorage() == Storage::BF16 &&
                                        *tensor.getDims().back().getStatic() % 2 == 0));
  };
  for (auto [argument, layout] : llvm::zip(getBlock().getArguments(), getArgLayouts()))
    if (!fits(argument.getType(), layout))
      return emitOpError("kernel_c3: a layout does not fit its argument: ") << layout;
  for (auto [value, layout] : llvm::zip(yield.getValues(), getResultLayouts()))
    if (!fits(value.getType(), layout) || cast<LayoutAttr>(layout).isPacked())
      return emitOpError("kernel_c3: a layout does not fit its result: ") << layout;
  if (std::optional<uint64_t> argument = getInPlace();
      argument && (*argument >= getBlock().getNumArguments() || yield.getValues().size() != 1 ||
                   getBlock().getArgument(*argument).getType() != yield.getValues()[0].getType()))
    return emitOpError("kernel_c4: the only result takes over the memory of an argument of its type");
  return success();
}

YieldOp KernelOp::getYield() {
  return cast<YieldOp>(getBlock().getTerminator());
}

SmallVector<std::string> KernelOp::getSymbols() {
  std::vector<std::string> symbols;
  auto add = [&](const Size &size) {
    for (std::string &symbol : size.symbols())
      if (!llvm::is_contained(symbols, symbol))
        symbols.push_back(std::move(symbol));
  };
  for (BlockArgument argument : getBlock().getArguments())
    collectSymbols(cast<NamedTensorType>(argument.getType()), symbols);
  getBlock().walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      collectSymbols(cast<NamedTensorType>(type), symbols);
    if (auto size = dyn_cast<SizeOp>(op))
      add(size.getPolynomial());
    if (auto cut = dyn_cast<CutOp>(op))
      add(cut.getOffsetSize());
    if (auto gradient = dyn_cast<AttentionGradientOp>(op); gradient && gradient.isAlongDistance())
      add(gradient.getOffsetSize());
  });
  std::sort(symbols.begin(), symbols.end());
  return {symbols.begin(), symbols.end()};
}
