// Takes: words of super-blocks (support/CodedGroups.h). Gives: numbers.
#include "codegen/tile/ptx/KernelIr.h"

using namespace llvm;

namespace quern::codegen::tile {

llvm::Value *KernelIr::halfOf(llvm::Value *word, int shift) {
  llvm::Value *bits = b.CreateTrunc(b.CreateLShr(word, uint64_t(shift)), b.getInt16Ty());
  return b.CreateFPExt(b.CreateBitCast(bits, b.getHalfTy()), b.getFloatTy());
}

KernelIr::SuperGroup KernelIr::levelsOf(llvm::Value *units, llvm::Value *pair, llvm::Value *group) {
  llvm::Value *own = b.CreateLShr(pair, mul(rest(group, 2), 16));
  llvm::Value *scale = b.CreateSIToFP(b.CreateTrunc(own, b.getInt8Ty()), b.getFloatTy()),
              *minimum = b.CreateSIToFP(b.CreateAnd(b.CreateLShr(own, 8), number(255)), b.getFloatTy());
  return {b.CreateFMul(halfOf(units, 0), scale), b.CreateFMul(halfOf(units, 16), minimum)};
}

/// `part`: 0 to 3. Bits of a code are in four bytes of a word, so `four` says how far they stand from a byte's beginning.
llvm::Value *KernelIr::codeOf(const support::SuperBlocks &form, llvm::Value *low, llvm::Value *high, llvm::Value *four,
                              int part) {
  llvm::Value *code = b.CreateAnd(b.CreateLShr(low, add(mul(rest(four, 2), 4), 8 * part)), number(15));
  if (form.highBits()) {
    llvm::Value *inWord = form.highWords() == 1 ? four : rest(four, 2);
    llvm::Value *bits = b.CreateLShr(high, add(mul(inWord, form.highBits()), 8 * part));
    code = b.CreateOr(code, b.CreateShl(b.CreateAnd(bits, number((1 << form.highBits()) - 1)), 4));
  }
  if (form.hasSign)
    code = b.CreateAShr(b.CreateShl(code, uint64_t(32 - form.bits)), uint64_t(32 - form.bits));
  return b.CreateSIToFP(code, b.getFloatTy());
}

llvm::Value *KernelIr::highWord(const support::SuperBlocks &form, llvm::Value *first, llvm::Value *step) {
  llvm::Value *word = add(first, form.lowWords());
  return form.highWords() == 1 ? word : add(word, step);
}

llvm::Value *KernelIr::superCode(int buffer, const std::vector<int> &positions) {
  const Buffer &of = p.buffers[size_t(buffer)];
  const support::SuperBlocks &form = *support::superBlocksOf(of.storage);
  size_t rank = positions.size();
  int64_t tile = of.layout.tile;
  auto wide = [&](llvm::Value *x) { return b.CreateSExt(x, b.getInt64Ty()); };
  llvm::Value *n = get(positions[rank - 2]), *k = get(positions[rank - 1]), *index = b.getInt64(0);
  for (size_t d = 0; d + 2 < rank; ++d)
    index = b.CreateAdd(b.CreateMul(index, wide(sizeOf(of.dims[d].size))), wide(get(positions[d])));
  llvm::Value *tiles = divide(add(sizeOf(of.dims[rank - 2].size), tile - 1), tile),
              *blocks = divide(add(sizeOf(of.dims[rank - 1].size), form.length - 1), form.length);
  index = b.CreateAdd(b.CreateMul(index, wide(tiles)), wide(divide(n, tile)));
  index = b.CreateAdd(b.CreateMul(index, wide(blocks)), wide(divide(k, form.length)));
  llvm::Value *block =
      b.CreateGEP(b.getInt32Ty(), pointerOf(buffer), b.CreateMul(index, b.getInt64(uint64_t(form.words() * tile))));
  auto word = [&](llvm::Value *number) {
    llvm::Value *at = b.CreateGEP(b.getInt32Ty(), block, add(mul(number, tile), rest(n, tile)));
    return b.CreateAlignedLoad(b.getInt32Ty(), at, Align(4));
  };
  llvm::Value *group = divide(rest(k, form.length), form.group), *within = rest(k, form.group);
  llvm::Value *first = add(mul(group, form.wordsOfGroup()), form.headWords());
  llvm::Value *high = form.highBits() ? word(highWord(form, first, divide(within, 8))) : nullptr;
  // The byte within a word follows from the position, so the words are shifted to it.
  llvm::Value *byte = mul(rest(within, 4), 8), *low = b.CreateLShr(word(add(first, divide(within, 8))), byte);
  llvm::Value *code = codeOf(form, low, high ? b.CreateLShr(high, byte) : nullptr, divide(within, 4), 0);
  SuperGroup levels = levelsOf(word(number(0)), word(add(divide(group, 2), 1)), group);
  return b.CreateFSub(b.CreateFMul(levels.scale, code), levels.minimum);
}

} // namespace quern::codegen::tile
