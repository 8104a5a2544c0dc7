// Takes: sizes and loops. Gives: what a loop over chunks of rows means for them.
#include "ir/Chunk.h"

#include <charconv>

using namespace mlir;
using namespace quern::ir;

static constexpr std::string_view stem = "rows.";

std::optional<Size> quern::ir::chunkLength(int64_t most, const Size &rows) {
  if (rows.getTerms().size() != 1 || rows.getTerms().begin()->second != 1 || rows.isConstant())
    return std::nullopt;
  std::string name = std::string(stem) + std::to_string(most);
  for (const std::string &symbol : rows.getTerms().begin()->first) {
    if (symbol.find('.') != std::string::npos)
      return std::nullopt;
    name += "." + symbol;
  }
  return Size::symbol(name);
}

std::optional<Chunk> quern::ir::chunkOf(std::string_view symbol) {
  Chunk chunk;
  if (!symbol.starts_with(stem))
    return std::nullopt;
  const char *begin = symbol.data() + stem.size(), *end = symbol.data() + symbol.size();
  auto [at, error] = std::from_chars(begin, end, chunk.most);
  if (error != std::errc() || chunk.most < 1 || at == end || *at != '.')
    return std::nullopt;
  chunk.rows = Size(1);
  for (std::string_view rest(at + 1, static_cast<size_t>(end - at - 1)); !rest.empty();) {
    size_t dot = rest.find('.');
    chunk.rows = chunk.rows * Size::symbol(std::string(rest.substr(0, dot)));
    rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
  }
  return chunk;
}

std::optional<Chunk> quern::ir::chunkOf(RepeatOp loop) {
  std::optional<int64_t> most = loop.getRows();
  if (!most)
    return std::nullopt;
  // A loop has stacks, or it would not know how many rows there are: the verifier says so.
  Value stack = loop.getStacks().empty() ? Value() : loop.getStacks()[0];
  return Chunk{*most, stack ? typeOf(stack).getDims()[0].getSize() : Size(0)};
}

Size quern::ir::overAllTurns(const Size &size) {
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

Size quern::ir::turnStride(RepeatOp loop, NamedTensorType stack) {
  Size row = stack.withDims(stack.getDims().drop_front()).elements();
  std::optional<Chunk> chunk = chunkOf(loop);
  return chunk ? row * Size(chunk->most) : row;
}
