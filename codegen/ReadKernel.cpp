// Takes: a quern.kernel. Gives: the same as plain data, and the text that is part of its key in the cache.
// Why: the Halide half then needs no MLIR headers, compiles fast and can be tested and run apart from the compiler.
#include "codegen/ReadKernel.h"

#include "ir/Attributes.h"
#include "ir/Scan.h"

#include "llvm/ADT/StringMap.h"
#include <functional>
#include <stdexcept>

using llvm::ArrayRef, llvm::StringRef, llvm::cast, llvm::dyn_cast; // not all of mlir: its Op is another
using mlir::SymbolTable, mlir::OpPrintingFlags, llvm::DenseMap, mlir::OpResult, mlir::StringAttr, mlir::ArrayAttr,
    mlir::FloatAttr, mlir::BoolAttr, mlir::IntegerAttr, mlir::DenseF64ArrayAttr, mlir::Attribute, mlir::Operation,
    mlir::Value, mlir::BlockArgument;
using namespace quern::codegen;
namespace ir = quern::ir;

static Dim readDim(ir::DimAttr dim) {
  return {dim.getName().str(), dim.getSize()};
}

static std::vector<Dim> readDims(ArrayRef<ir::DimAttr> dims) {
  std::vector<Dim> out;
  for (ir::DimAttr dim : dims)
    out.push_back(readDim(dim));
  return out;
}

Layout quern::codegen::readLayout(ir::LayoutAttr attr) {
  Layout layout;
  layout.packed = attr.isPacked();
  layout.tile = attr.getTile();
  layout.beside = attr.getBeside();
  if (!layout.packed)
    for (StringAttr text : attr.getStrides()) {
      std::optional<ir::Size> size = ir::Size::parse(text.getValue());
      layout.strides.push_back(size ? size->constant() : std::nullopt);
    }
  return layout;
}

static const llvm::StringMap<Op> &mnemonics() {
  static const llvm::StringMap<Op> all = [] {
    llvm::StringMap<Op> table = {{"const", Op::Const},       {"values", Op::Values},
                                 {"size", Op::Size},         {"index", Op::Index},
                                 {"neg", Op::Neg},           {"abs", Op::Abs},
                                 {"floor", Op::Floor},       {"ceil", Op::Ceil},
                                 {"round", Op::Round},       {"to_int", Op::ToInt},
                                 {"to_real", Op::ToReal},    {"narrow", Op::Narrow},
                                 {"widen", Op::Widen},       {"dequantize", Op::Dequantize},
                                 {"not", Op::Not},           {"add", Op::Add},
                                 {"sub", Op::Sub},           {"mul", Op::Mul},
                                 {"div", Op::Div},           {"floordiv", Op::FloorDiv},
                                 {"mod", Op::Mod},           {"pow", Op::Pow},
                                 {"max", Op::Max},           {"min", Op::Min},
                                 {"and", Op::And},           {"or", Op::Or},
                                 {"compare", Op::Compare},   {"where", Op::Where},
                                 {"reduce", Op::Reduce},     {"contract", Op::Contract},
                                 {"softmax", Op::Softmax},   {"cumsum", Op::Cumsum},
                                 {"quantize", Op::Quantize}, {"scatter_add", Op::ScatterAdd},
                                 {"argmax", Op::Argmax},     {"top_k", Op::TopK},
                                 {"rename", Op::Rename},     {"split", Op::Split},
                                 {"merge", Op::Merge},       {"cut", Op::Cut},
                                 {"concat", Op::Concat},     {"unit", Op::Unit},
                                 {"squeeze", Op::Squeeze},   {"gather", Op::Gather},
                                 {"expand", Op::Expand},     {"permute", Op::Permute},
                                 {"rescale", Op::Rescale}};
#define QUERN_REAL_FUNCTION(NAME, WORD, VALUE) table[#WORD] = Op::NAME;
    QUERN_REAL_FUNCTIONS(QUERN_REAL_FUNCTION)
    return table;
  }();
  return all;
}

/// Names, new dimensions and numbers, wherever the operation keeps them.
static void readAttributes(Operation *op, Node &node) {
  auto list = [&](ArrayAttr attr) {
    for (llvm::StringRef name : ir::names(attr))
      node.names.push_back(name.str());
  };
  auto become = [&](ArrayAttr attr) {
    for (Attribute dim : attr)
      node.into.push_back(readDim(cast<ir::DimAttr>(dim)));
  };
  if (auto value = dyn_cast<ir::ConstOp>(op)) {
    if (auto real = dyn_cast<FloatAttr>(value.getValue()))
      node.numbers = {real.getValueAsDouble()};
    else if (auto flag = dyn_cast<BoolAttr>(value.getValue()))
      node.integer = flag.getValue();
    else
      node.integer = cast<IntegerAttr>(value.getValue()).getInt();
  } else if (auto values = dyn_cast<ir::ValuesOp>(op)) {
    node.numbers.assign(values.getNumbers().begin(), values.getNumbers().end());
  } else if (auto size = dyn_cast<ir::SizeOp>(op)) {
    node.size = size.getPolynomial();
  } else if (auto compare = dyn_cast<ir::CompareOp>(op)) {
    node.predicate = static_cast<Predicate>(compare.getPredicate());
  } else if (auto reduce = dyn_cast<ir::ReduceOp>(op)) {
    node.reduction = static_cast<Reduction>(reduce.getReduction());
    list(reduce.getDims());
  } else if (auto contract = dyn_cast<ir::ContractOp>(op)) {
    list(contract.getDims());
  } else if (auto softmax = dyn_cast<ir::SoftmaxOp>(op)) {
    list(softmax.getDims());
  } else if (auto cumsum = dyn_cast<ir::CumsumOp>(op)) {
    if (cumsum.getState())
      throw std::runtime_error("a running sum with a state inside a kernel");
    node.names = {cumsum.getDim().str()};
    node.integer = cumsum.getReverse();
  } else if (auto quantize = dyn_cast<ir::QuantizeOp>(op)) {
    node.names = {quantize.getDim().str()};
    node.integer = quantize.getPaired();
  } else if (auto scatter = dyn_cast<ir::ScatterAddOp>(op)) {
    list(scatter.getDims());
    node.into = {readDim(scatter.getInto())};
  } else if (auto argmax = dyn_cast<ir::ArgmaxOp>(op)) {
    node.names = {argmax.getDim().str()};
  } else if (auto top = dyn_cast<ir::TopKOp>(op)) {
    node.names = {top.getFrom().str()};
    node.into = {readDim(top.getInto())};
  } else if (auto rename = dyn_cast<ir::RenameOp>(op)) {
    list(rename.getFrom());
    become(rename.getTo());
  } else if (auto split = dyn_cast<ir::SplitOp>(op)) {
    node.names = {split.getDim().str()};
    become(split.getInto());
  } else if (auto merge = dyn_cast<ir::MergeOp>(op)) {
    list(merge.getDims());
    node.into = {readDim(merge.getInto())};
  } else if (auto cut = dyn_cast<ir::CutOp>(op)) {
    node.names = {cut.getDim().str()};
    node.into = {readDim(cut.getInto())};
    node.size = cut.getOffsetSize();
  } else if (auto concat = dyn_cast<ir::ConcatOp>(op)) {
    list(concat.getParts());
    node.into = {readDim(concat.getInto())};
  } else if (auto unit = dyn_cast<ir::UnitOp>(op)) {
    node.into = {readDim(unit.getInto())};
  } else if (auto squeeze = dyn_cast<ir::SqueezeOp>(op)) {
    node.names = {squeeze.getDim().str()};
  } else if (auto gather = dyn_cast<ir::GatherOp>(op)) {
    node.names = {gather.getDim().str()};
  }
}

namespace {
class Reader {
public:
  Reader(KernelGraph &graph, std::vector<mlir::Location> *places) : graph(graph), places(places) {}
  void add(Op op, Value value, const std::function<void(Node &)> &fill);
  void read(Operation &op);
  int of(Value value) const { return index.lookup(value); }

private:
  void readAttention(ir::AttentionOp op);
  void readGradient(ir::AttentionGradientOp op);
  template <class Attention> void readBody(Attention op, mlir::OperandRange queries, mlir::OperandRange keys);
  void readScan(ir::ScanOp op);

  KernelGraph &graph;
  std::vector<mlir::Location> *places;
  DenseMap<Value, int> index;
};
} // namespace

/// A node for `value`, whose operation `fill` knows.
void Reader::add(Op op, Value value, const std::function<void(Node &)> &fill) {
  ir::NamedTensorType type = ir::typeOf(value);
  Node node{op, type.getStorage(), readDims(type.getDims())};
  fill(node);
  index[value] = static_cast<int>(graph.nodes.size());
  graph.nodes.push_back(std::move(node));
  if (places)
    places->push_back(value.getLoc());
}

void Reader::read(Operation &op) {
  if (auto attention = dyn_cast<ir::AttentionOp>(op))
    return readAttention(attention);
  if (auto gradient = dyn_cast<ir::AttentionGradientOp>(op))
    return readGradient(gradient);
  if (auto scan = dyn_cast<ir::ScanOp>(op))
    return readScan(scan);
  auto known = mnemonics().find(op.getName().stripDialect());
  if (known == mnemonics().end())
    throw std::runtime_error(("'" + op.getName().getStringRef() + "' cannot stand in a kernel").str());
  for (OpResult result : op.getResults())
    add(result.getResultNumber() ? Op::TopKPositions : known->second, result, [&](Node &node) {
      for (Value operand : op.getOperands())
        node.operands.push_back(of(operand));
      readAttributes(&op, node);
    });
}

/// Products and the body are nodes like any others.
template <class Attention> void Reader::readBody(Attention op, mlir::OperandRange queries, mlir::OperandRange keys) {
  for (unsigned i = 0; i < queries.size(); ++i)
    add(Op::Contract, op.getProduct(i), [&](Node &node) {
      node.operands = {of(queries[i]), of(keys[i])};
      for (ir::DimAttr dim : op.getDepth(i))
        node.names.push_back(dim.getName().str());
    });
  for (auto [i, input] : llvm::enumerate(op.getInputs()))
    index[op.getInputArgument(i)] = of(input);
  for (Operation &inner : op.getBlock().without_terminator())
    read(inner);
}

void Reader::readGradient(ir::AttentionGradientOp op) {
  readBody(op, op.getRows(), op.getOthers());
  for (auto [i, result] : llvm::enumerate(op->getResults()))
    add(op.isAlongDistance() ? Op::DistanceSum : Op::WeightedSum, result, [&](Node &node) {
      node.operands = {of(op.getWeights()[i])};
      if (!op.isAlongDistance()) {
        node.operands.push_back(of(op.getValues()[i]));
      } else {
        for (StringRef name : ir::names(*op.getDistance()))
          node.names.push_back(name.str());
        node.size = op.getOffsetSize();
        node.into = {readDim(*op.getInto())};
      }
      node.names.push_back(op.getDim().str());
    });
}

void Reader::readAttention(ir::AttentionOp op) {
  readBody(op, op.getQueries(), op.getKeys());
  constexpr Op results[] = {Op::Attention, Op::AttentionShift, Op::AttentionShare};
  for (OpResult result : op->getResults())
    add(results[result.getResultNumber()], result, [&](Node &node) {
      node.operands = {of(op.getScore()), of(op.getValues())};
      node.names = {op.getDim().str()};
      node.integer = op.getNarrow();
      for (Value sink : op.getSinks())
        node.operands.push_back(of(sink));
      for (StringRef part : op.getPartNames())
        node.names.push_back(part.str());
    });
}

void Reader::readScan(ir::ScanOp op) {
  auto body = std::make_shared<ScanBody>();
  body->dim = readDim(op.getDim());
  body->fromEnd = op.getReversed();
  body->carried = static_cast<int>(op.getInits().size());
  body->slices = static_cast<int>(op.getSlices().size());
  body->inputs = static_cast<int>(op.getInputs().size());
  KernelGraph inner;
  Reader reader(inner, nullptr);
  for (BlockArgument argument : op.getBlock().getArguments())
    reader.add(Op::Argument, argument, [](Node &) {});
  for (Operation &each : op.getBlock().without_terminator())
    reader.read(each);
  for (Value value : op.getYielded())
    body->yields.push_back(reader.of(value));
  body->nodes = std::move(inner.nodes);
  for (OpResult result : op->getResults())
    add(Op::Scan, result, [&](Node &node) {
      for (Value operand : op->getOperands())
        node.operands.push_back(of(operand));
      node.integer = result.getResultNumber();
      node.scan = body;
    });
}

KernelGraph quern::codegen::readKernel(ir::KernelOp kernel, std::vector<mlir::Location> *places) {
  KernelGraph graph;
  graph.name = kernel.getSymName().str();
  for (const std::string &symbol : kernel.getSymbols())
    graph.symbols.push_back(symbol);
  Reader reader(graph, places);
  for (auto [argument, layout] :
       llvm::zip(kernel.getBlock().getArguments(), kernel.getArgLayouts().getAsRange<ir::LayoutAttr>())) {
    reader.add(Op::Argument, argument, [](Node &) {});
    graph.argumentLayouts.push_back(readLayout(layout));
  }
  for (Operation &op : kernel.getBlock().without_terminator())
    reader.read(op);
  for (Value value : kernel.getYield().getValues())
    graph.results.push_back(reader.of(value));
  for (auto layout : kernel.getResultLayouts().getAsRange<ir::LayoutAttr>())
    graph.resultLayouts.push_back(readLayout(layout));
  if (std::optional<uint64_t> argument = kernel.getInPlace())
    graph.inPlace = static_cast<int>(*argument);

  llvm::raw_string_ostream stream(graph.text);
  Operation *nameless = kernel->clone();
  mlir::SymbolTable::setSymbolName(nameless, "k");
  nameless->removeAttr(ir::planAttr);
  nameless->print(stream, mlir::OpPrintingFlags().useLocalScope());
  nameless->erase();
  return graph;
}

ir::KernelOp quern::codegen::kernelNamed(mlir::ModuleOp module, const std::string &name) {
  auto kernel = module.lookupSymbol<ir::KernelOp>(name);
  if (!kernel)
    throw std::runtime_error("the module has no kernel " + name);
  return kernel;
}
