// Takes: the elaborator's calls. Gives: a module in phase `resolved`: config bound, blocks inlined, every iteration of
// a loop its own quern.repeat (the pass roll-repeats folds equal ones). Locations: the spec's line inside the calls
// that led there (CallSiteLoc), and a parameter's name (NameLoc) on its op.
#include "frontend/build/MlirBuilder.h"

#include "ir/Attributes.h"
#include "ir/Scan.h"

#include "mlir/IR/PatternMatch.h"
using namespace mlir;

namespace quern::frontend {

static mlir::Value value(Handle handle) {
  return mlir::Value::getFromOpaquePointer(handle);
}
static Handle handle(mlir::Value value) {
  return value.getAsOpaquePointer();
}

MlirBuilder::MlirBuilder(MLIRContext *context, Location moduleLocation)
    : builder(context), module(ModuleOp::create(moduleLocation)), location(moduleLocation) {}

Location MlirBuilder::locationOf(Span at) {
  Source::Place place = at.source->place(at.begin);
  return FileLineColLoc::get(builder.getContext(), at.source->getName(), place.line, place.column);
}

void MlirBuilder::place(Span at) {
  location = locationOf(at);
  if (!callers.empty())
    location = CallSiteLoc::get(location, callers.back());
}

void MlirBuilder::enterCall(Span at) {
  place(at);
  callers.push_back(location);
}

void MlirBuilder::leaveCall() {
  callers.pop_back();
}

void MlirBuilder::named(const std::string &name, const Tensor &tensor, Span at) {
  Location where = locationOf(at);
  namedValues.push_back(
      {name, value(tensor.handle), callers.empty() ? where : CallSiteLoc::get(where, callers.back())});
}

ir::DimAttr MlirBuilder::dim(DimRef ref) {
  return ir::DimAttr::get(builder.getContext(), StringRef(ref->label), ref->size);
}

SmallVector<ir::DimAttr> MlirBuilder::dims(const DimRefs &refs) {
  return llvm::map_to_vector(refs, [&](DimRef ref) { return dim(ref); });
}

ir::LabelAttr MlirBuilder::label(DimRef ref) {
  return ir::LabelAttr::get(builder.getContext(), StringRef(ref->label));
}

ArrayAttr MlirBuilder::names(const DimRefs &refs) {
  SmallVector<Attribute> attrs;
  for (DimRef ref : refs)
    attrs.push_back(label(ref));
  return builder.getArrayAttr(attrs);
}

template <typename Op, typename... Args> Handle MlirBuilder::make(Args &&...args) {
  return handle(Op::create(builder, location, std::forward<Args>(args)...).getResult());
}

// ---- functions and loops

void MlirBuilder::beginFunction(const std::string &name) {
  callers.clear();
  loops.clear();
  scans.clear();
  builder.setInsertionPointToEnd(module->getBody());
  function = func::FuncOp::create(builder, location, name, builder.getFunctionType({}, {}));
  builder.setInsertionPointToStart(function.addEntryBlock());
}

std::vector<Handle> MlirBuilder::inputs(const FunctionInfo &info) {
  std::vector<Handle> handles;
  resultNames = info.results;
  for (const FunctionInfo::Input &input : info.inputs) {
    Type type = ir::NamedTensorType::get(builder.getContext(), input.kind, dims(input.dims));
    unsigned at = function.getNumArguments();
    SmallVector<NamedAttribute> attrs = {builder.getNamedAttr(ir::nameAttr, builder.getStringAttr(input.name))};
    if (input.optional)
      attrs.push_back(builder.getNamedAttr(
          ir::defaultAttr,
          FlatSymbolRefAttr::get(builder.getContext(), function.getName().str() + ".default." + input.name)));
    (void)function.insertArgument(at, type, builder.getDictionaryAttr(attrs), locationOf(input.at));
    handles.push_back(handle(function.getArgument(at)));
  }
  if (!info.time.empty())
    function->setAttr(ir::timeAttr, ir::LabelAttr::get(builder.getContext(), info.time));
  if (!info.batch.empty())
    function->setAttr(ir::batchAttr, ir::LabelAttr::get(builder.getContext(), info.batch));
  return handles;
}

/// The value stored in the order of the tensor's dimensions.
mlir::Value MlirBuilder::inOrder(const Tensor &tensor) {
  mlir::Value result = value(tensor.handle);
  auto type = ir::typeOf(result);
  auto wanted = type.withDims(dims(tensor.dims));
  assert(type.sameSet(wanted) && "the checker and the dialect disagree about a type");
  return type == wanted ? result : ir::PermuteOp::create(builder, location, wanted, result).getResult();
}

void MlirBuilder::endFunction(const std::vector<Tensor> &results) {
  SmallVector<mlir::Value> stored = llvm::map_to_vector(results, [&](const Tensor &result) { return inOrder(result); });
  func::ReturnOp::create(builder, location, stored);
  for (auto [i, result] : llvm::enumerate(stored))
    (void)function.insertResult(
        i, result.getType(),
        builder.getDictionaryAttr(builder.getNamedAttr(ir::nameAttr, builder.getStringAttr(resultNames[i]))));
  function->setLoc(location);
}

std::vector<Handle> MlirBuilder::beginIteration(const std::vector<Tensor> &carried) {
  SmallVector<mlir::Value> inits;
  for (const Tensor &tensor : carried)
    inits.push_back(value(tensor.handle));
  SmallVector<Type> types(ValueRange(inits).getTypes());
  auto loop = ir::RepeatOp::create(builder, location, types, inits, 1);
  Block *block = &loop.getBody().emplaceBlock();
  std::vector<Handle> inside;
  for (mlir::Value init : inits)
    inside.push_back(handle(block->addArgument(init.getType(), location)));
  loops.push_back(loop);
  builder.setInsertionPointToStart(block);
  return inside;
}

std::vector<Handle> MlirBuilder::endIteration(const std::vector<Tensor> &carried) {
  ir::RepeatOp loop = loops.back();
  SmallVector<mlir::Value> yields;
  for (auto [tensor, init] : llvm::zip(carried, loop.getInits())) {
    mlir::Value leaving = value(tensor.handle);
    yields.push_back(leaving.getType() == init.getType()
                         ? leaving
                         : ir::PermuteOp::create(builder, location, init.getType(), leaving).getResult());
  }
  ir::YieldOp::create(builder, location, yields);
  loops.pop_back();
  builder.setInsertionPointAfter(loop);
  std::vector<Handle> results;
  for (mlir::Value result : loop.getResults())
    results.push_back(handle(result));
  return results;
}

void MlirBuilder::abandonIteration() {
  ir::RepeatOp loop = loops.back();
  loops.pop_back();
  builder.setInsertionPointAfter(loop);
  loop.erase();
}

// ---- leaves

Handle MlirBuilder::constant(double number) {
  return make<ir::ConstOp>(number);
}
Handle MlirBuilder::constant(int64_t number) {
  return make<ir::ConstOp>(number);
}
Handle MlirBuilder::constant(bool truth) {
  return make<ir::ConstOp>(truth);
}

Handle MlirBuilder::values(DimRef ref, const std::vector<double> &numbers) {
  return make<ir::ValuesOp>(ir::NamedTensorType::get(builder.getContext(), ir::Kind::Real, {dim(ref)}),
                            builder.getDenseF64ArrayAttr(numbers));
}

Handle MlirBuilder::size(const ir::Size &polynomial) {
  return make<ir::SizeOp>(polynomial);
}
Handle MlirBuilder::index(DimRef ref) {
  return make<ir::IndexOp>(dim(ref));
}

Handle MlirBuilder::param(const ParamInfo &info) {
  DimRefs all = info.stacked;
  all.insert(all.end(), info.stored.begin(), info.stored.end());
  SmallVector<Attribute> alternatives;
  for (const std::string &name : info.names)
    alternatives.push_back(builder.getStringAttr(name));
  ArrayAttr paths = builder.getArrayAttr({builder.getArrayAttr(alternatives)});
  ir::InitAttr init;
  if (!info.init.empty())
    init = ir::InitAttr::get(builder.getContext(), StringRef(info.init), builder.getF64FloatAttr(info.scale),
                             info.ifAbsent);
  Location named = NameLoc::get(builder.getStringAttr(info.names.front()), location);
  Type type = ir::NamedTensorType::get(builder.getContext(), ir::Kind::Real, dims(all));
  return handle(ir::ParamOp::create(builder, named, type, paths, init).getResult());
}

// ---- element by element

Handle MlirBuilder::unary(UnaryOp op, Handle x) {
  mlir::Value v = value(x);
  switch (op) {
  case UnaryOp::Neg:
    return make<ir::NegOp>(v);
  case UnaryOp::Not:
    return make<ir::NotOp>(v);
#define QUERN_REAL_FUNCTION(NAME, WORD, VALUE)                                                                         \
  case UnaryOp::NAME:                                                                                                  \
    return make<ir::NAME##Op>(v);
    QUERN_REAL_FUNCTIONS(QUERN_REAL_FUNCTION)
  case UnaryOp::Abs:
    return make<ir::AbsOp>(v);
  case UnaryOp::Floor:
    return make<ir::FloorOp>(v);
  case UnaryOp::Ceil:
    return make<ir::CeilOp>(v);
  case UnaryOp::Round:
    return make<ir::RoundOp>(v);
  case UnaryOp::ToInt:
    return make<ir::ToIntOp>(v);
  case UnaryOp::ToReal:
    return make<ir::ToRealOp>(v);
  }
  return nullptr;
}

Handle MlirBuilder::binary(BinaryOp op, Handle left, Handle right) {
  mlir::Value a = value(left), b = value(right);
  switch (op) {
  case BinaryOp::Add:
    return make<ir::AddOp>(a, b);
  case BinaryOp::Sub:
    return make<ir::SubOp>(a, b);
  case BinaryOp::Mul:
    return make<ir::MulOp>(a, b);
  case BinaryOp::Div:
    return make<ir::DivOp>(a, b);
  case BinaryOp::FloorDiv:
    return make<ir::FloorDivOp>(a, b);
  case BinaryOp::Mod:
    return make<ir::ModOp>(a, b);
  case BinaryOp::Pow:
    return make<ir::PowOp>(a, b);
  case BinaryOp::Max:
    return make<ir::MaxOp>(a, b);
  case BinaryOp::Min:
    return make<ir::MinOp>(a, b);
  case BinaryOp::And:
    return make<ir::AndOp>(a, b);
  case BinaryOp::Or:
    return make<ir::OrOp>(a, b);
  case BinaryOp::Less:
    return make<ir::CompareOp>(ir::Predicate::lt, a, b);
  case BinaryOp::LessEqual:
    return make<ir::CompareOp>(ir::Predicate::le, a, b);
  case BinaryOp::Greater:
    return make<ir::CompareOp>(ir::Predicate::gt, a, b);
  case BinaryOp::GreaterEqual:
    return make<ir::CompareOp>(ir::Predicate::ge, a, b);
  case BinaryOp::Equal:
    return make<ir::CompareOp>(ir::Predicate::eq, a, b);
  case BinaryOp::NotEqual:
    return make<ir::CompareOp>(ir::Predicate::ne, a, b);
  }
  return nullptr;
}

Handle MlirBuilder::where(Handle condition, Handle a, Handle b) {
  return make<ir::WhereOp>(value(condition), value(a), value(b));
}

// ---- over dimensions

Handle MlirBuilder::reduce(Reduction reduction, Handle x, const DimRefs &over) {
  static const ir::Reduction kinds[] = {ir::Reduction::sum, ir::Reduction::mean, ir::Reduction::max,
                                        ir::Reduction::min, ir::Reduction::any,  ir::Reduction::all};
  return make<ir::ReduceOp>(kinds[static_cast<int>(reduction)], value(x), names(over));
}

Handle MlirBuilder::contract(Handle a, Handle b, const DimRefs &over) {
  return make<ir::ContractOp>(value(a), value(b), names(over));
}
Handle MlirBuilder::softmax(Handle x, const DimRefs &over) {
  return make<ir::SoftmaxOp>(value(x), names(over));
}
Handle MlirBuilder::cumsum(Handle x, DimRef ref) {
  return make<ir::CumsumOp>(value(x), label(ref), FlatSymbolRefAttr(), mlir::UnitAttr());
}
Handle MlirBuilder::argmax(Handle x, DimRef ref) {
  return make<ir::ArgmaxOp>(value(x), label(ref));
}

std::pair<Handle, Handle> MlirBuilder::topK(Handle x, DimRef from, DimRef into) {
  auto op = ir::TopKOp::create(builder, location, value(x), label(from), dim(into));
  return {handle(op.getValues()), handle(op.getPositions())};
}

// ---- shape

Handle MlirBuilder::rename(Handle x, const std::vector<std::pair<DimRef, DimRef>> &table) {
  DimRefs from;
  SmallVector<Attribute> to;
  for (auto [old, next] : table) {
    from.push_back(old);
    to.push_back(dim(next));
  }
  return make<ir::RenameOp>(value(x), names(from), builder.getArrayAttr(to));
}

static ArrayAttr dimArray(OpBuilder &builder, ArrayRef<ir::DimAttr> dims) {
  return builder.getArrayAttr(SmallVector<Attribute>(dims.begin(), dims.end()));
}

Handle MlirBuilder::split(Handle x, DimRef ref, const DimRefs &into) {
  return make<ir::SplitOp>(value(x), label(ref), dimArray(builder, dims(into)));
}

Handle MlirBuilder::merge(Handle x, const DimRefs &refs, DimRef into) {
  return make<ir::MergeOp>(value(x), names(refs), dim(into));
}

Handle MlirBuilder::cut(Handle x, DimRef ref, const ir::Size &offset, DimRef into) {
  return make<ir::CutOp>(value(x), label(ref), builder.getStringAttr(offset.str()), dim(into));
}

Handle MlirBuilder::concat(const std::vector<Handle> &parts, const DimRefs &axes, DimRef into) {
  SmallVector<mlir::Value> operands;
  for (Handle part : parts)
    operands.push_back(value(part));
  return make<ir::ConcatOp>(ValueRange(operands), names(axes), dim(into));
}

Handle MlirBuilder::unit(Handle x, DimRef into) {
  return make<ir::UnitOp>(value(x), dim(into));
}
Handle MlirBuilder::squeeze(Handle x, DimRef ref) {
  return make<ir::SqueezeOp>(value(x), label(ref));
}
Handle MlirBuilder::gather(Handle x, Handle positions, DimRef ref) {
  return make<ir::GatherOp>(value(x), value(positions), label(ref));
}

Handle MlirBuilder::expand(Handle x, const DimRefs &all) {
  return make<ir::ExpandOp>(ir::typeOf(value(x)).withDims(dims(all)), value(x));
}

static void eraseUnusedIn(Region &region) {
  for (Block &block : region)
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
      for (Region &inner : op.getRegions())
        eraseUnusedIn(inner);
      if (auto scan = dyn_cast<ir::ScanOp>(op); scan && !scan.use_empty()) {
        IRRewriter rewriter(op.getContext());
        for (ir::ScanOp next; (next = ir::prune(scan, rewriter)) != scan;)
          scan = next;
        continue;
      }
      if (op.use_empty() && !op.hasTrait<OpTrait::IsTerminator>() && op.getNumResults() > 0)
        op.erase();
    }
}

void eraseUnused(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    eraseUnusedIn(function.getBody());
}

} // namespace quern::frontend
