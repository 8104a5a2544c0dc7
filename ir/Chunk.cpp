// Takes: sizes and loops. Gives: what a loop over chunks of rows means for them.
#include "ir/Chunk.h"

#include "ir/Derived.h"

using namespace mlir;
using namespace quern::ir;

std::optional<Size> quern::ir::chunkLength(int64_t most, const Size &rows) {
  if (rows.getTerms().size() != 1 || rows.getTerms().begin()->second != 1 || rows.isConstant())
    return std::nullopt;
  if (llvm::any_of(rows.symbols(), [](const std::string &symbol) { return Derived::read(symbol).has_value(); }))
    return std::nullopt;
  return Derived{Derived::Form::Chunk, most, rows}.size();
}

std::optional<Chunk> quern::ir::chunkOf(std::string_view symbol) {
  std::optional<Derived> chunk = Derived::read(symbol, Derived::Form::Chunk);
  return chunk ? std::optional(Chunk{chunk->number, chunk->of}) : std::nullopt;
}

std::optional<Chunk> quern::ir::chunkOf(RepeatOp loop) {
  std::optional<int64_t> most = loop.getRows();
  if (!most)
    return std::nullopt;
  // A loop has stacks, or it would not know how many rows there are: the verifier says so.
  Value stack = loop.getStacks().empty() ? Value() : loop.getStacks()[0];
  return Chunk{*most, stack ? typeOf(stack).getDims()[0].getSize() : Size(0)};
}

Size quern::ir::overAllIterations(const Size &size) {
  std::map<std::string, Size> table;
  for (const std::string &symbol : size.symbols())
    if (std::optional<Chunk> chunk = chunkOf(symbol))
      table[symbol] = chunk->rows;
  return table.empty() ? size : size.substitute(table);
}

NamedTensorType quern::ir::partOfStack(RepeatOp loop, NamedTensorType stack) {
  std::optional<Chunk> chunk = chunkOf(loop);
  if (!chunk || !stack.getRank())
    return RepeatOp::partOf(stack);
  SmallVector<DimAttr> dims(stack.getDims());
  if (std::optional<Size> length = chunkLength(chunk->most, dims[0].getSize()))
    dims[0] = DimAttr::get(stack.getContext(), dims[0].getName(), *length);
  return stack.withDims(dims);
}

Size quern::ir::iterationStride(RepeatOp loop, NamedTensorType stack) {
  Size row = stack.withDims(stack.getDims().drop_front()).elements();
  std::optional<Chunk> chunk = chunkOf(loop);
  return chunk ? row * Size(chunk->most) : row;
}
