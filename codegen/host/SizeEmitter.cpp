// Takes: polynomials over run-time lengths. Gives: i64 arithmetic that computes them, and offsets within an arena.
// Why once each: a length is needed in many places of a function, and is the same in all of them.
#include "codegen/host/SizeEmitter.h"

#include "ir/Chunk.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::codegen;

SizeEmitter::SizeEmitter(Operation *anchor, Value sizes, ArrayRef<std::string> symbols)
    : b(anchor), loc(anchor->getLoc()), sizes(sizes), symbols(symbols), anchor(anchor) {}

Value SizeEmitter::number(int64_t value) {
  return arith::ConstantIntOp::create(b, loc, value, 64);
}

Value SizeEmitter::symbol(const std::string &name) {
  auto it = llvm::find(symbols, name);
  assert(it != symbols.end() && "a length that the program does not know");
  int64_t index = it - symbols.begin();
  Value at = LLVM::GEPOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext()), b.getI64Type(), sizes,
                                 ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(index)});
  return LLVM::LoadOp::create(b, loc, b.getI64Type(), at);
}

void SizeEmitter::enterChunks(const std::string &symbol, Value length, Operation *place) {
  chunk = symbol;
  chunkPlace = place;
  ofChunk[symbol] = length;
}

void SizeEmitter::leaveChunks() {
  chunk.clear();
  ofChunk.clear();
}

Value SizeEmitter::operator()(const Size &size) {
  bool varies = !chunk.empty() && size.mentions(chunk);
  if (auto found = (varies ? ofChunk : known).find(size.str()); found != (varies ? ofChunk : known).end())
    return found->second;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(varies ? chunkPlace : anchor);
  Value total;
  if (std::optional<int64_t> constant = size.constant()) {
    total = number(*constant);
  } else if (std::optional<std::string> name = size.asSymbol()) {
    std::optional<Chunk> longest = chunkOf(*name);
    total = longest ? arith::MinSIOp::create(b, loc, number(longest->most), (*this)(longest->rows)).getResult()
                    : symbol(*name);
  } else {
    for (const auto &[monomial, coefficient] : size.getTerms()) {
      Value product = number(coefficient);
      for (const std::string &name : monomial)
        product = arith::MulIOp::create(b, loc, product, (*this)(Size::symbol(name)));
      total = total ? arith::AddIOp::create(b, loc, total, product) : product;
    }
  }
  return (varies ? ofChunk : known)[size.str()] = total;
}

Value quern::codegen::alignedTo64(SizeEmitter &size, Value bytes) {
  OpBuilder &b = size.builder();
  Location loc = bytes.getLoc();
  Value up = arith::AddIOp::create(b, loc, bytes, size.number(63));
  return arith::AndIOp::create(b, loc, up, size.number(-64));
}

SmallVector<Value> quern::codegen::arenaLayout(SizeEmitter &size, ArrayAttr slots) {
  OpBuilder &b = size.builder();
  SmallVector<Value> offsets = {size.number(0)};
  for (Attribute slot : slots) {
    Value largest;
    for (Attribute bytes : cast<ArrayAttr>(slot)) {
      Value value = size(*Size::parse(cast<StringAttr>(bytes).getValue()));
      largest = largest ? arith::MaxSIOp::create(b, value.getLoc(), largest, value) : value;
    }
    offsets.push_back(arith::AddIOp::create(b, largest.getLoc(), offsets.back(), alignedTo64(size, largest)));
  }
  return offsets;
}

SmallVector<Value> quern::codegen::keptLayout(SizeEmitter &size, ArrayAttr buffers) {
  SmallVector<Value> offsets = {size.number(0)};
  for (Attribute bytes : buffers) {
    Value value = alignedTo64(size, size(*Size::parse(cast<StringAttr>(bytes).getValue())));
    offsets.push_back(arith::AddIOp::create(size.builder(), value.getLoc(), offsets.back(), value));
  }
  return offsets;
}
