// Values of a scan in LLVM IR: local memory, loops over inner dimensions, and each node at a place.
#ifndef QUERN_CODEGEN_SCAN_SCANVALUES_H
#define QUERN_CODEGEN_SCAN_SCANVALUES_H

#include "codegen/llvm/SizeValue.h"
#include "codegen/llvm/VectorMath.h"
#include "codegen/scan/ScanShape.h"

#include "llvm/IR/Module.h"

#include <functional>

namespace quern::codegen::scan {

/// Positions along a dimension: one, or `Values::width` of them from `base` on.
struct Index {
  llvm::Value *base;
  bool lanes = false;
};
using Place = std::map<std::string, Index>;

/// Local memory of a task: one element (of all lanes) for each position of `dims`.
struct Local {
  llvm::Value *memory = nullptr;
  llvm::Type *type = nullptr;
  std::vector<Dim> dims;
};

/// Positions of inner dimensions that are written one by one.
constexpr int64_t unrolled = 16;
/// Bytes of a local memory that may stand on a thread's stack; a larger one is part of the task's block.
constexpr int64_t onStack = 64 << 10;

/// What tasks, positions and functions are written with; each value is made once at a place.
class Values {
protected:
  Values(const KernelGraph &graph, const ScanShape &shape, llvm::Module &module)
      : graph(graph), shape(shape), body(*shape.body), width(shape.width), module(module), context(module.getContext()),
        b(context), math(b) {
    pointer = llvm::PointerType::getUnqual(context);
    i64 = b.getInt64Ty();
    llvm::FastMathFlags flags;
    flags.setAllowContract();
    b.setFastMathFlags(flags);
  }

  const KernelGraph &graph;
  const ScanShape &shape;
  const ScanBody &body;
  int width; // lanes of a vector
  llvm::Module &module;
  llvm::LLVMContext &context;
  llvm::IRBuilder<> b;
  VectorMath math;
  llvm::PointerType *pointer;
  llvm::Type *i64;
  llvm::Function *task = nullptr, *function = nullptr;
  std::map<std::string, llvm::Value *> lengths;
  std::vector<llvm::Value *> hosts;                // of each buffer
  std::vector<std::vector<llvm::Value *>> strides; // by the dimensions of its type
  std::vector<Local> states, next, inputs;         // of the carried values; their shadows; inputs that are copied
  std::map<int, Local> reductions;                 // by node of the body
  llvm::Value *block = nullptr;                    // what is too large for the stack
  int64_t blockBytes = 0;                          // of it that are taken
  Place place;                                     // of tasks, lanes and the position
  llvm::Value *mask = nullptr;                     // of the lanes that exist; null: all
  using Key = std::pair<std::pair<bool, int>, std::vector<std::pair<llvm::Value *, bool>>>;
  static Key keyOf(bool inside, int i, const Node &node, const Place &at) {
    Key key{{inside, i}, {}};
    for (const Dim &dim : node.dims)
      key.second.emplace_back(at.at(dim.name).base, at.at(dim.name).lanes);
    return key;
  }
  std::vector<std::map<Key, llvm::Value *>> known; // values at the present places, by nest of loops

  // ---- small things
  llvm::Value *number(int64_t value) { return llvm::ConstantInt::get(i64, value); }
  size_t buffers() const { return graph.argumentLayouts.size() + graph.results.size(); }

  llvm::Value *sizeOf(const ir::Size &size) { return sizeValue(b, size, i64, lengths); }
  llvm::Type *elementType(Kind kind) {
    return kind == Kind::Real ? b.getFloatTy() : kind == Kind::Int ? b.getInt32Ty() : b.getInt1Ty();
  }
  llvm::Type *typeOf(const Node &node) {
    llvm::Type *type = elementType(node.kind());
    return shape.hasLane(node.dims) ? llvm::FixedVectorType::get(type, width) : type;
  }
  llvm::Type *inMemory(llvm::Type *type) { // booleans are bytes
    return type->getScalarType()->isIntegerTy(1) ? type->getWithNewType(b.getInt8Ty()) : type;
  }
  llvm::Value *likeMemory(llvm::Value *value, llvm::Type *type) {
    return value->getType() == type ? value : b.CreateZExt(value, type);
  }
  llvm::Value *fromMemory(llvm::Value *value, bool boolean) {
    return boolean ? b.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType())) : value;
  }
  llvm::Value *atEntry(llvm::Type *type, int64_t count) {
    llvm::IRBuilder<> entry(&function->getEntryBlock(), function->getEntryBlock().begin());
    llvm::AllocaInst *memory = entry.CreateAlloca(llvm::ArrayType::get(type, count));
    memory->setAlignment(llvm::Align(64));
    return memory;
  }
  static int64_t count(const std::vector<Dim> &dims) {
    int64_t product = 1;
    for (const Dim &dim : dims)
      product *= dim.fixed().value_or(1);
    return product;
  }

  Local local(const Node &node) {
    Local out;
    out.dims = shape.inner(node.dims);
    out.type = inMemory(typeOf(node));
    int64_t bytes = count(out.dims) * static_cast<int64_t>(module.getDataLayout().getTypeAllocSize(out.type));
    out.memory = bytes <= onStack ? atEntry(out.type, count(out.dims)) : ofBlock(bytes);
    return out;
  }
  llvm::Value *ofBlock(int64_t bytes) {
    llvm::Value *memory = b.CreateGEP(b.getInt8Ty(), block, number(blockBytes));
    blockBytes += (bytes + 63) / 64 * 64;
    return memory;
  }
  llvm::Value *element(const Local &memory, const Place &at) {
    llvm::Value *offset = number(0);
    for (const Dim &dim : memory.dims)
      offset = b.CreateAdd(b.CreateMul(offset, number(*dim.fixed())), at.at(dim.name).base);
    return b.CreateGEP(memory.type, memory.memory, offset);
  }
  llvm::Value *read(const Local &memory, const Place &at, Kind kind) {
    return fromMemory(b.CreateAlignedLoad(memory.type, element(memory, at), alignOf(memory.type)), kind == Kind::Bool);
  }
  void write(const Local &memory, const Place &at, llvm::Value *value) {
    b.CreateAlignedStore(likeMemory(value, memory.type), element(memory, at), alignOf(memory.type));
  }
  static llvm::Align alignOf(llvm::Type *type) {
    uint64_t bytes = type->getScalarSizeInBits() / 8;
    if (auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(type))
      bytes *= vector->getNumElements();
    return llvm::Align(std::min<uint64_t>(64, bytes));
  }

  // ---- loops
  llvm::Value *loop(llvm::Value *count, const std::function<void(llvm::Value *)> &inside) {
    llvm::BasicBlock *before = b.GetInsertBlock(), *head = llvm::BasicBlock::Create(context, "", function),
                     *block = llvm::BasicBlock::Create(context, "", function),
                     *after = llvm::BasicBlock::Create(context, "", function);
    b.CreateBr(head);
    b.SetInsertPoint(head);
    llvm::PHINode *i = b.CreatePHI(i64, 2);
    i->addIncoming(number(0), before);
    b.CreateCondBr(b.CreateICmpSLT(i, count), block, after);
    b.SetInsertPoint(block);
    known.emplace_back();
    inside(i);
    known.pop_back();
    i->addIncoming(b.CreateAdd(i, number(1)), b.GetInsertBlock());
    b.CreateBr(head);
    b.SetInsertPoint(after);
    return i;
  }

  /// One of both.
  void either(llvm::Value *condition, const std::function<void()> &yes, const std::function<void()> &no) {
    llvm::BasicBlock *then = llvm::BasicBlock::Create(context, "", function),
                     *otherwise = llvm::BasicBlock::Create(context, "", function),
                     *after = llvm::BasicBlock::Create(context, "", function);
    b.CreateCondBr(condition, then, otherwise);
    for (auto [block, inside] : {std::pair(then, &yes), std::pair(otherwise, &no)}) {
      b.SetInsertPoint(block);
      known.emplace_back();
      (*inside)();
      known.pop_back();
      b.CreateBr(after);
    }
    b.SetInsertPoint(after);
  }

  /// At every position of `dims`, which get their places in `at`.
  void forEach(const std::vector<Dim> &dims, Place at, const std::function<void(const Place &)> &inside,
               size_t from = 0) {
    if (from == dims.size())
      return inside(at);
    bool few = true;
    for (size_t i = from; i < dims.size(); ++i)
      few = few && dims[i].fixed();
    if (few && count({dims.begin() + from, dims.end()}) <= unrolled) {
      for (int64_t i = 0; i < *dims[from].fixed(); ++i) {
        known.emplace_back();
        at[dims[from].name] = {number(i)};
        forEach(dims, at, inside, from + 1);
        known.pop_back();
      }
      return;
    }
    loop(sizeOf(dims[from].size), [&](llvm::Value *i) {
      at[dims[from].name] = {i};
      forEach(dims, at, inside, from + 1);
    });
  }

  // ---- values
  llvm::Value *lanesOf(llvm::Value *value);
  /// An index as the number that the language has.
  llvm::Value *asInt(const Index &index);
  llvm::Value *address(size_t buffer, const std::vector<Dim> &dims, const Place &at, llvm::Value *&laneStride);
  static bool isOne(llvm::Value *stride);
  llvm::Value *lanePointers(llvm::Value *host, llvm::Type *type, llvm::Value *offset, llvm::Value *stride);
  llvm::Value *allLanes();
  llvm::Value *load(size_t buffer, const Node &node, const Place &at);
  void store(size_t buffer, const Node &node, const Place &at, llvm::Value *value);
  const std::vector<Node> &nodesOf(bool inside) const;
  /// A node of the body, or of the kernel around it, at a place.
  llvm::Value *eval(bool inside, int i, const Place &at);
  llvm::Value *argument(int i, const Node &node, const Place &at);
  llvm::Value *make(bool inside, int i, const Node &node, const Place &at);
  llvm::Value *listed(const Node &node, const Index &index);
  llvm::Value *clamped(llvm::Value *index, llvm::Value *size);
  /// Where an operation that moves positions finds those of its operand.
  Place moved(bool inside, const Node &node, const Place &at);
  llvm::Value *joined(bool inside, const Node &node, const Place &at);
  /// A constant that is yielded has the kind of its place.
  llvm::Value *ofKind(llvm::Value *value, const Node &node) {
    return node.kind() == Kind::Real ? math.asReal(value) : value;
  }
};

} // namespace quern::codegen::scan
#endif
