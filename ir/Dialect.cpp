// The dialect itself, its type and attributes: printing, parsing, the helpers that all rooms share.
#include "ir/Scan.h"
#include "ir/Union.h"

#include "support/CodedGroups.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FoldInterfaces.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace quern::ir;

namespace quern::ir {
/// What the context finds dimensions by.
static llvm::hash_code hash_value(const Size &size) {
  llvm::hash_code hash(0);
  for (const auto &[symbols, factor] : size.getTerms())
    hash = llvm::hash_combine(hash, factor, llvm::hash_combine_range(symbols));
  return hash;
}
} // namespace quern::ir

#include "ir/QuernDialect.cpp.inc"
#include "ir/QuernEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/QuernAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/QuernInterfaces.cpp.inc"
#include "ir/QuernTypes.cpp.inc"

namespace {
/// Constants that folding makes stay in the loop body that needs them: bodies that look alike must stay alike.
struct KeepInLoops : DialectFoldInterface {
  using DialectFoldInterface::DialectFoldInterface;
  bool shouldMaterializeInto(Region *region) const final { return isa<RepeatOp>(region->getParentOp()); }
};
} // namespace

void QuernDialect::initialize() {
  addInterfaces<KeepInLoops>();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/QuernAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "ir/QuernTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/QuernOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/ScanOps.cpp.inc"
      >();
}

Operation *QuernDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location loc) {
  auto tensor = dyn_cast<NamedTensorType>(type);
  if (!tensor || tensor.getRank() || !isa<FloatAttr, IntegerAttr>(value)) // booleans are IntegerAttrs too
    return nullptr;
  return ConstOp::create(builder, loc, type, value);
}

// ---- dimensions: `D = 768`, `T`, `S = T`, `N = "past + T"`, without and within `#quern.dim<...>`

static void printDim(AsmPrinter &printer, DimAttr dim) {
  printer.printKeywordOrString(dim.getName());
  if (dim.getSizeText() == dim.getName())
    return;
  printer << " = ";
  if (dim.getStatic())
    printer << dim.getSizeText();
  else
    printer.printKeywordOrString(dim.getSizeText());
}

static FailureOr<DimAttr> parseDim(AsmParser &parser) {
  std::string name, text;
  SMLoc where = parser.getCurrentLocation();
  if (parser.parseKeywordOrString(&name))
    return failure();
  if (failed(parser.parseOptionalEqual())) {
    text = name;
  } else {
    int64_t value;
    OptionalParseResult number = parser.parseOptionalInteger(value);
    if (number.has_value()) {
      if (failed(*number))
        return failure();
      text = std::to_string(value);
    } else if (parser.parseKeywordOrString(&text)) {
      return failure();
    }
  }
  std::optional<Size> size = Size::parse(text);
  if (!size)
    return parser.emitError(where, "'") << text << "' is no size: a polynomial over run-time lengths is needed";
  return DimAttr::get(parser.getContext(), name, *size);
}

Attribute DimAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  FailureOr<DimAttr> dim = parseDim(parser);
  if (failed(dim) || parser.parseGreater())
    return {};
  return *dim;
}

void DimAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printDim(printer, *this);
  printer << ">";
}

// ---- labels, roles, places, windows

Attribute LabelAttr::parse(AsmParser &parser, Type) {
  std::string name;
  if (parser.parseLess() || parser.parseKeywordOrString(&name) || parser.parseGreater())
    return {};
  return LabelAttr::get(parser.getContext(), name);
}

void LabelAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printer.printKeywordOrString(getName());
  printer << ">";
}

LogicalResult RoleAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, Role form, FlatSymbolRefAttr of) {
  if ((form == Role::Update) == static_cast<bool>(of))
    return emitError() << "role_c1: an update belongs to no function, and every other role to one";
  return success();
}

LogicalResult InitAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, StringRef distribution, FloatAttr,
                               bool ifAbsent) {
  if (ifAbsent && distribution != "zeros" && distribution != "ones")
    return emitError() << "init_c1: what a checkpoint may lack is zeros or ones, not " << distribution;
  return success();
}

static bool isNumbered(PlaceKind kind) {
  return kind != PlaceKind::Rows && kind != PlaceKind::State;
}

Attribute PlaceAttr::parse(AsmParser &parser, Type) {
  StringRef word;
  SMLoc where;
  unsigned index = 0;
  if (parser.parseLess() || parser.getCurrentLocation(&where) || parser.parseKeyword(&word))
    return {};
  std::optional<PlaceKind> kind = symbolizePlaceKind(word);
  if (!kind) {
    parser.emitError(where, "a place is in the arena, kept, an output, a part, rows or a state, not '") << word << "'";
    return {};
  }
  if ((isNumbered(*kind) && parser.parseInteger(index)) || parser.parseGreater())
    return {};
  return PlaceAttr::get(parser.getContext(), *kind, index);
}

void PlaceAttr::print(AsmPrinter &printer) const {
  printer << "<" << stringifyPlaceKind(getKind());
  if (isNumbered(getKind()))
    printer << " " << getIndex();
  printer << ">";
}

LogicalResult WindowAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t positions) {
  if (positions < 1)
    return emitError() << "window_c1: a window has at least one position";
  return success();
}

Size LayoutAttr::getStride(unsigned i) const {
  return *Size::parse(getStrides()[i].getValue());
}

// ---- the tensor type

Size quern::ir::storedBytes(NamedTensorType type) {
  Storage storage = type.getStorage();
  if (!bitsOfCode(storage))
    return storedBytes(type, type.elements());
  int64_t block = support::blockOf(storage), bytes = support::bytesOf(storage, block);
  if (std::optional<Size> blocks = type.elements().divided(block))
    return *blocks * Size(bytes);
  return type.elements() * Size((bytes + block - 1) / block); // rounded up
}

Size quern::ir::storedBytes(NamedTensorType type, const Size &elements) {
  return elements * Size(quern::support::bytesOf(type.getStorage()));
}

Type NamedTensorType::parse(AsmParser &parser) {
  StringRef word;
  SMLoc where;
  SmallVector<DimAttr> dims;
  if (parser.parseLess() || parser.getCurrentLocation(&where) || parser.parseKeyword(&word))
    return {};
  std::optional<Storage> storage = quern::support::storageByElement(word);
  if (!storage) {
    InFlightDiagnostic error = parser.emitError(where, "a tensor is ");
    for (int i = 0; i < static_cast<int>(std::size(quern::support::storageForms)); ++i)
      error << (i ? ", " : "") << elementName(static_cast<Storage>(i));
    error << "; not '" << word << "'";
    return {};
  }
  auto element = [&]() -> ParseResult {
    FailureOr<DimAttr> dim = parseDim(parser);
    if (failed(dim))
      return failure();
    dims.push_back(*dim);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, element) || parser.parseGreater())
    return {};
  return parser.getChecked<NamedTensorType>(where, parser.getContext(), *storage, ArrayRef<DimAttr>(dims));
}

void NamedTensorType::print(AsmPrinter &printer) const {
  printer << "<" << elementName(getStorage()) << "[";
  llvm::interleaveComma(getDims(), printer.getStream(), [&](DimAttr dim) { printDim(printer, dim); });
  printer << "]>";
}

LogicalResult NamedTensorType::verify(llvm::function_ref<InFlightDiagnostic()> emitError, Storage,
                                      llvm::ArrayRef<DimAttr> dims) {
  llvm::StringSet<> seen;
  for (DimAttr dim : dims) {
    if (!seen.insert(dim.getName()).second)
      return emitError() << "dimension " << dim.getName() << " occurs twice in one tensor";
  }
  return success();
}

int NamedTensorType::find(StringRef name) const {
  for (auto [i, dim] : llvm::enumerate(getDims()))
    if (dim.getName() == name)
      return i;
  return -1;
}

DimAttr NamedTensorType::dim(StringRef name) const {
  int i = find(name);
  return i < 0 ? DimAttr() : getDims()[i];
}

Size NamedTensorType::elements() const {
  Size total(1);
  for (DimAttr dim : getDims())
    total = total * dim.getSize();
  return total;
}

bool NamedTensorType::sameSet(NamedTensorType other) const {
  return getStorage() == other.getStorage() && getRank() == other.getRank() &&
         llvm::all_of(getDims(), [&](DimAttr dim) { return other.dim(dim.getName()) == dim; });
}

NamedTensorType NamedTensorType::withStorage(Storage storage) const {
  return get(getContext(), storage, getDims());
}
NamedTensorType NamedTensorType::withKind(Kind kind) const {
  return get(getContext(), kind, getDims());
}
NamedTensorType NamedTensorType::withDims(ArrayRef<DimAttr> dims) const {
  return get(getContext(), getStorage(), dims);
}

// ---- shared helpers

SmallVector<StringRef> quern::ir::names(ArrayAttr attr) {
  return llvm::map_to_vector(attr, [](Attribute name) {
    auto label = dyn_cast<LabelAttr>(name);
    return label ? label.getName() : cast<StringAttr>(name).getValue();
  });
}

ArrayAttr quern::ir::labelArray(Builder &builder, ArrayRef<StringRef> labels) {
  return builder.getArrayAttr(llvm::map_to_vector(
      labels, [&](StringRef label) -> Attribute { return LabelAttr::get(builder.getContext(), label); }));
}

bool quern::ir::sameSets(TypeRange a, TypeRange b) {
  return a.size() == b.size() && llvm::all_of(llvm::zip(a, b), [](auto pair) {
           auto x = dyn_cast<NamedTensorType>(std::get<0>(pair)), y = dyn_cast<NamedTensorType>(std::get<1>(pair));
           return x && y && x.sameSet(y);
         });
}

std::optional<SmallVector<DimAttr>> quern::ir::unionDims(ArrayRef<NamedTensorType> types) {
  auto lists = llvm::map_to_vector(types, [](NamedTensorType type) { return type.getDims(); });
  auto named = [](DimAttr a, DimAttr b) { return a.getName() == b.getName(); };
  std::vector<DimAttr> dims = uniteDims<DimAttr>(lists, named);
  for (ArrayRef<DimAttr> list : lists)
    for (DimAttr dim : list)
      if (!llvm::is_contained(dims, dim))
        return std::nullopt;
  return SmallVector<DimAttr>(dims.begin(), dims.end());
}

void quern::ir::collectSymbols(NamedTensorType type, std::vector<std::string> &symbols) {
  for (DimAttr dim : type.getDims())
    for (std::string &symbol : dim.getSize().symbols())
      if (!llvm::is_contained(symbols, symbol))
        symbols.push_back(std::move(symbol));
}
