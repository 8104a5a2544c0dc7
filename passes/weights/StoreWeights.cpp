// Takes: a function whose weights do not change. Gives: the same with the weights of its matrix products stored in fewer bits.
//
//   before: %y = contract %x, %w over ["D"]        after: %n = param [..] : bf16 (or f16)
//                                                         %y = contract %x, (widen %n)
//                                                  or:    %q = quantize %w along D {quern.weight} : int8
//                                                         %y = contract %x, (dequantize %q)
//                                            or ("int8+a8"): %y = contract (dequantize (quantize %x along D)), (dequantize %q)
//                                          or ("w16a16"): %y = contract (widen (narrow %x)), (widen %n)
//                                        or ("int8+a16"): %y = contract (widen (narrow %x)), (dequantize %q)
//
// A `quantize` of parameters is the loader's work, as the concatenation of a joined weight is; the interpreter computes
// it. Vectors and what chooses experts keep what they have, tables that are looked up, too, unless a rule names them. Of experts the matrices that
// rows are routed to are stored so, and gathers read codes. Adapters stay in f32. Where they are trained, the gradient of a
// product with a weight in codes sums over the weight's other dimension: it reads the same codes, which are in memory once.
#include "ir/Attributes.h"
#include "ir/Chunk.h"
#include "ir/Scan.h"
#include "ir/analysis/Operations.h"
#include "ir/analysis/Views.h"
#include "ir/analysis/Weights.h"
#include "passes/weights/NarrowStorage.h"
#include "passes/weights/WeightFormats.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::passes;

namespace {

/// A weight of a product: what the contraction reads, the parameters behind it, and what gathers from them.
struct Read {
  ContractOp contract;
  unsigned operand;
  Value weight; ///< parameters, flattened or joined
  GatherOp pick;
  SmallVector<ParamOp> params;
};

class Storing {
public:
  Storing(func::FuncOp function, const WeightFormats &formats, RowsOfExperts ofExperts = {})
      : function(function), formats(formats), ofExperts(ofExperts), b(function.getContext()) {}
  void run();
  /// What `run` stored in codes; or, given, what a gradient reads so.
  CodedParameters coded;
  void runOfGradient();

private:
  bool roundsRows(const Read &read, bool ofExperts) const {
    return (ofExperts || !read.pick) && !read.contract->getParentOfType<ScanOp>();
  }
  SmallVector<Read> findReads();
  void dropDead();
  std::optional<Read> readOf(ContractOp contract, unsigned operand);
  void quantize(const Read &read, StringRef along, Storage storage);
  void quantizeRows(const Read &read, StringRef along, Storage storage);
  void narrowRows(const Read &read);
  Value narrowed(Value value, Storage storage);
  void narrowTables();
  void codeTables();
  void setOperand(const Read &read, Value stored);

  func::FuncOp function;
  const WeightFormats &formats;
  RowsOfExperts ofExperts;
  OpBuilder b;
  llvm::DenseMap<Value, Value> narrowOf[2], narrowRowsOf; ///< the first in bf16 and f16
};

} // namespace

std::optional<Read> Storing::readOf(ContractOp contract, unsigned operand) {
  Value value = contract->getOperand(operand);
  Read read{contract, operand, value, routedWeight(value), {}};
  if (read.pick)
    read.weight = read.pick.getX();
  if (ConcatOp joined = joinedWeight(read.weight)) {
    for (Value part : joined.getInputs()) // perhaps along a dimension of its own
      read.params.push_back(viewOf(part).base.getDefiningOp<ParamOp>());
  } else if (ParamOp param = parameterOf(read.weight); param && typeOf(param.getResult()).getRank() > 1) {
    read.params.push_back(param);
  }
  bool known = !read.params.empty() &&
               llvm::all_of(read.params, [](ParamOp param) { return param && !param->hasAttr(adapterAttr); });
  if (!known || !typeOf(value).isF32() || !isMatrixProduct(contract))
    return std::nullopt;
  return read;
}

/// Whether a product's numbers choose experts: what is near another there decides which.
static bool choosesExperts(Value value, int steps = 8) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (isa<TopKOp, ArgmaxOp>(user))
      return true;
    bool along = isElementwise(user) || isViewLike(user) || isa<SoftmaxOp>(user);
    return along && steps && choosesExperts(user->getResult(0), steps - 1);
  });
}

/// The dimension that groups are along, if the weight can be stored in codes: matrices of rows and a depth, as they are
/// packed.
static std::optional<StringRef> groupedAlong(const Read &read) {
  ContractOp contract = read.contract;
  GatherOp pick = read.pick;
  if (contract.getDims().size() != 1)
    return std::nullopt;
  StringRef depth = names(contract.getDims())[0], gathered = pick ? StringRef(pick.getDim()) : StringRef();
  if (!weightDims(read.weight, typeOf(contract->getOperand(1 - read.operand)), depth, gathered))
    return std::nullopt;
  return depth;
}

/// Which dimensions of a parameter's type `label` is, of `value`, a view of the parameter.
static SmallVector<unsigned> placesIn(ParamOp param, Value value, StringRef label) {
  SmallVector<StringRef> labels = {label};
  for (; value != param.getResult(); value = value.getDefiningOp()->getOperand(0))
    if (auto merge = value.getDefiningOp<MergeOp>()) {
      if (auto at = llvm::find(labels, merge.getInto().getName()); at != labels.end()) {
        labels.erase(at);
        llvm::append_range(labels, names(merge.getDims()));
      }
    } else if (auto rename = value.getDefiningOp<RenameOp>()) {
      for (StringRef &name : labels)
        for (auto [from, to] : llvm::zip(names(rename.getFrom()), rename.getTo().getAsRange<DimAttr>()))
          if (to.getName() == name) {
            name = from;
            break;
          }
    }
  SmallVector<unsigned> places =
      llvm::map_to_vector(labels, [&](StringRef name) { return unsigned(typeOf(param.getResult()).find(name)); });
  llvm::sort(places);
  return places;
}

/// In layers, not in the loop over chunks of a loss's rows.
static bool isInLayers(Operation *op) {
  for (auto loop = op->getParentOfType<RepeatOp>(); loop; loop = loop->getParentOfType<RepeatOp>())
    if (!chunkOf(loop))
      return true;
  return false;
}

/// `value`, parameters and what flattens or joins them, in numbers of two bytes.
Value Storing::narrowed(Value value, Storage storage) {
  auto &known = narrowOf[storage == Storage::F16];
  if (Value copy = known.lookup(value))
    return copy;
  SmallVector<Value> operands;
  for (Value operand : SmallVector<Value>(value.getDefiningOp()->getOperands()))
    operands.push_back(narrowed(operand, storage));
  return known[value] = copyStoredIn(storage, b, value.getDefiningOp(), operands);
}

/// The contraction reads `stored`, or what is gathered of that, as real numbers.
void Storing::setOperand(const Read &read, Value stored) {
  Storage storage = typeOf(stored).getStorage();
  b.setInsertionPoint(read.contract);
  if (read.pick) {
    Operation *pick = b.clone(*read.pick);
    pick->setOperand(0, stored);
    pick->getResult(0).setType(typeOf(pick->getResult(0)).withStorage(storage));
    stored = pick->getResult(0);
  }
  Type real = typeOf(stored).withKind(Kind::Real);
  Location loc = stored.getLoc();
  Value wide = isNarrow(storage) ? WidenOp::create(b, loc, real, stored).getResult()
                                 : DequantizeOp::create(b, loc, real, stored).getResult();
  ContractOp contract = read.contract;
  contract->setOperand(read.operand, wide);
}

/// Each contraction has a copy of its own: kernels lay weights out as one of them reads it, and slots of the same layout
/// are one.
void Storing::quantize(const Read &read, StringRef along, Storage storage) {
  b.setInsertionPointAfterValue(read.weight);
  auto codes =
      QuantizeOp::create(b, read.weight.getLoc(), typeOf(read.weight).withStorage(storage), read.weight, along);
  codes->setAttr(weightAttr, b.getUnitAttr());
  setOperand(read, codes);
}

/// The rows that a weight multiplies, in the kernel that does so: codes of them are never stored.
void Storing::quantizeRows(const Read &read, StringRef along, Storage storage) {
  ContractOp contract = read.contract;
  Value rows = contract->getOperand(1 - read.operand);
  b.setInsertionPoint(contract);
  auto codes = QuantizeOp::create(b, contract.getLoc(), typeOf(rows).withStorage(storage), rows, along);
  contract->setOperand(1 - read.operand, DequantizeOp::create(b, contract.getLoc(), rows.getType(), codes));
}

/// The rows in bf16, once for all that multiply them: where they are stored, that is what is stored.
void Storing::narrowRows(const Read &read) {
  ContractOp contract = read.contract;
  Value rows = contract->getOperand(1 - read.operand);
  Value &wide = narrowRowsOf[rows];
  if (!wide)
    wide = roundedToBF16(b, contract.getLoc(), rows);
  contract->setOperand(1 - read.operand, wide);
}

/// What is looked up beside (a tied embedding) is read where it is stored in two bytes.
void Storing::narrowTables() {
  SmallVector<std::pair<GatherOp, Value>> gathers;
  function.walk([&](GatherOp gather) {
    for (auto &copies : narrowOf)
      if (Value table = copies.lookup(gather.getX())) {
        gathers.emplace_back(gather, table);
        return;
      }
  });
  for (auto &[gather, table] : gathers) {
    b.setInsertionPointAfter(gather);
    auto wide = WidenOp::create(b, gather.getLoc(), gather.getResult().getType(), gather.getResult());
    gather->setOperand(0, table);
    gather.getResult().replaceAllUsesExcept(wide, wide);
    gather.getResult().setType(typeOf(gather.getResult()).withStorage(typeOf(table).getStorage()));
  }
}

/// Tables whose rows are looked up, where a rule names them: each look-up reads codes and widens what it takes. A head that
/// is tied to the table reads the same codes, in the same tiles.
void Storing::codeTables() {
  SmallVector<GatherOp> gathers;
  function.walk([&](GatherOp gather) { gathers.push_back(gather); });
  for (GatherOp gather : gathers) {
    auto table = gather.getX().getDefiningOp<ParamOp>();
    if (!table || !typeOf(gather.getX()).isF32() || typeOf(gather.getX()).getRank() != 2)
      continue;
    std::optional<ProductFormat> format = formats.named(table);
    if (!format || !bitsOfCode(format->weight))
      continue;
    ArrayRef<DimAttr> dims = typeOf(gather.getX()).getDims();
    StringRef along = dims[dims[0].getName() == gather.getDim()].getName();
    b.setInsertionPointAfter(table);
    auto codes =
        QuantizeOp::create(b, table.getLoc(), typeOf(gather.getX()).withStorage(format->weight), gather.getX(), along);
    codes->setAttr(weightAttr, b.getUnitAttr());
    b.setInsertionPointAfter(gather);
    NamedTensorType real = gather.getResult().getType();
    auto wide = DequantizeOp::create(b, gather.getLoc(), real, gather.getResult());
    if (gather->hasAttr(onceAttr))
      wide->setAttr(onceAttr, b.getUnitAttr());
    gather->setOperand(0, codes);
    gather.getResult().replaceAllUsesExcept(wide, wide);
    gather.getResult().setType(real.withStorage(format->weight));
  }
}

SmallVector<Read> Storing::findReads() {
  SmallVector<Read> reads;
  function.walk([&](ContractOp contract) {
    for (unsigned operand : {0, 1})
      if (std::optional<Read> read = readOf(contract, operand))
        reads.push_back(*read);
  });
  return reads;
}

void Storing::run() {
  for (const Read &read : findReads()) {
    ContractOp contract = read.contract;
    auto [format, rows] = formats.of(read.params, /*sensitive=*/!isInLayers(contract));
    if (bitsOfCode(format)) {
      std::optional<StringRef> along = groupedAlong(read);
      if (along && !choosesExperts(contract.getResult())) {
        if (rows == Storage::Int8 && roundsRows(read, ofExperts.codes))
          quantizeRows(read, *along, quern::support::rowsBeside(format));
        else if (rows == Storage::BF16 &&
                 roundsRows(read, /*ofExperts=*/false)) // experts in codes have no products of bf16
          narrowRows(read);
        if (ParamOp param = read.params.front(); parameterOf(read.weight) == param)
          for (Attribute iteration : param.getPaths())
            coded[iteration] = {format, placesIn(param, read.weight, *along)};
        quantize(read, *along, format);
        continue;
      }
      format = formats.plain();
    }
    if (!isNarrow(format))
      continue;
    if (rows == Storage::BF16 && roundsRows(read, ofExperts.bf16) && !choosesExperts(contract.getResult()))
      narrowRows(read);
    setOperand(read, narrowed(read.weight, format));
  }
  narrowTables();
  codeTables();
  dropDead();
}

void Storing::runOfGradient() {
  for (const Read &read : findReads()) {
    ParamOp param = read.params.front();
    auto found = coded.find(param.getPaths()[0]);
    if (found == coded.end())
      continue;
    for (DimAttr dim : typeOf(read.weight).getDims())
      if (placesIn(param, read.weight, dim.getName()) == found->second.along)
        quantize(read, dim.getName(), found->second.storage);
  }
  codeTables();
  dropDead();
}

void Storing::dropDead() {
  // What is stored otherwise leaves its real form behind.
  SmallVector<Operation *> all;
  function.walk([&](Operation *op) { all.push_back(op); });
  for (Operation *op : llvm::reverse(all))
    if (!isa<RepeatOp>(op) && isOpTriviallyDead(op))
      op->erase();
}

CodedParameters quern::passes::storeWeights(func::FuncOp function, const WeightFormats &formats,
                                            RowsOfExperts rounded) {
  Storing storing(function, formats, rounded);
  storing.run();
  return std::move(storing.coded);
}

void quern::passes::storeWeightsOfGradient(func::FuncOp gradient, const WeightFormats &formats,
                                           const CodedParameters &coded) {
  Storing storing(gradient, formats);
  storing.coded = coded;
  storing.runOfGradient();
}
