// Takes: the shapes of what launches read and write. Gives: code that sets up a halide_buffer_t for each. Why a constant
// to copy: written field by field, headers were half of the host program's instructions and of its compile time.
#include "codegen/host/BufferHeaders.h"

#include "codegen/kernel/Storage.h"
#include "ir/Chunk.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <cstddef>

using namespace mlir;
using namespace quern::ir;
using namespace quern::codegen;

static_assert(offsetof(halide_buffer_t, device) == BufferHeaders::deviceField);
static_assert(offsetof(halide_buffer_t, host) == BufferHeaders::hostField);

/// Where dimension `index` of a header stands, in bytes from its start.
static int64_t dimField(size_t index, size_t field = 0) {
  return sizeof(halide_buffer_t) + sizeof(halide_dimension_t) * index + field;
}

BufferHeaders::BufferHeaders(Operation *entryEnd, SizeEmitter &size, LLVM::LLVMFuncOp function)
    : entry(entryEnd), size(size), function(function), loc(function.getLoc()) {}

/// The constant's part for one more header, with the lengths that are known. Gives its position.
int64_t BufferHeaders::append(halide_type_t type, ArrayRef<Dim> dims) {
  int64_t start = known.size();
  auto add = [&](const auto &fields) { known.append(reinterpret_cast<const char *>(&fields), sizeof(fields)); };
  halide_buffer_t header = {};
  header.type = type;
  header.dimensions = dims.size();
  add(header);
  for (const Dim &dim : dims)
    add(halide_dimension_t(0, dim.first.constant().value_or(0), dim.second.constant().value_or(0)));
  return start;
}

Value BufferHeaders::at(OpBuilder &builder, int64_t position) {
  return LLVM::GEPOp::create(builder, loc, block.getType(), builder.getI8Type(), block,
                             ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(position)});
}

Value BufferHeaders::header(halide_type_t type, ArrayRef<Dim> dims, OpBuilder &here) {
  bool ofChunk = false; // what an iteration of a loop stores is not for those after the loop
  std::string key = std::to_string(type.as_u32());
  for (const auto &[extent, stride] : dims) {
    ofChunk |= overAllIterations(extent) != extent || overAllIterations(stride) != stride;
    key += "," + extent.str() + ":" + stride.str();
  }
  if (!ofChunk) {
    size_t index = used[key]++;
    if (index < shared[key].size())
      return shared[key][index];
  }
  if (!block) {
    Value count = arith::ConstantIntOp::create(entry, loc, 0, 64);
    bytes = count.getDefiningOp();
    auto pointer = LLVM::LLVMPointerType::get(entry.getContext());
    block = LLVM::AllocaOp::create(entry, loc, pointer, entry.getI8Type(), count, /*alignment=*/16);
    Value constant = LLVM::AddressOfOp::create(entry, loc, pointer, (function.getName() + ".headers").str());
    LLVM::MemcpyOp::create(entry, loc, block, constant, count, /*isVolatile=*/false);
  }
  int64_t start = append(type, dims);
  Value made = at(entry, start);
  LLVM::StoreOp::create(entry, loc, at(entry, start + dimField(0)), at(entry, start + offsetof(halide_buffer_t, dim)));
  OpBuilder &b = ofChunk ? here : entry;
  auto store = [&](const Size &length, int64_t position) {
    if (length.constant())
      return;
    Value narrow = arith::TruncIOp::create(b, loc, b.getI32Type(), size(length));
    LLVM::StoreOp::create(b, loc, narrow, at(b, start + position));
  };
  for (auto [i, dim] : llvm::enumerate(dims)) {
    store(dim.first, dimField(i, offsetof(halide_dimension_t, extent)));
    store(dim.second, dimField(i, offsetof(halide_dimension_t, stride)));
  }
  if (!ofChunk)
    shared[key].push_back(made);
  return made;
}

void BufferHeaders::finish() {
  if (!block)
    return;
  known.resize((known.size() + 15) / 16 * 16); // copied in whole vectors
  bytes->setAttr("value", entry.getI64IntegerAttr(known.size()));
  OpBuilder top = OpBuilder::atBlockEnd(function->getBlock());
  LLVM::GlobalOp::create(top, loc, LLVM::LLVMArrayType::get(top.getI8Type(), known.size()), /*isConstant=*/true,
                         LLVM::Linkage::Private, (function.getName() + ".headers").str(), top.getStringAttr(known),
                         /*alignment=*/16);
}
