// Takes: a product of few rows. Gives: its function: a block sums one tile of columns over its part of the depth.
//
//   the first weights are asked for, then what the launch before wrote is waited for
//   statistics of rows (a norm's), from x of all of the depth
//   for depths that shared memory holds:  all threads leave x of them in shared memory, as floats
//     each lane: 16 bytes of weights (some columns of a depth; of codes some columns of a step), times x of each row
//   lanes with the same columns add up by shuffles, warps through shared memory, blocks with the same columns in one of them
//
// What is read is each weight once, in whole lines: lanes side by side read what is stored side by side.
#include "codegen/tile/ptx/MeetIr.h"
#include "codegen/tile/ptx/PtxModule.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace llvm;

namespace quern::codegen::tile {

namespace {
constexpr int warps = dotThreads / 32;

class DotsIr : public MeetIr {
public:
  DotsIr(const Program &program, const Stage &stage, const std::string &name, Module &module)
      : MeetIr(program, stage, name, module), weight(program.buffers[size_t(stage.w[0].buffer)]),
        super(support::superBlocksOf(weight.storage)), floats(support::floatCodesOf(weight.storage)),
        bits(bitsOfCode(weight.storage)), tile(int(weight.layout.tile)) {
    columns = bits ? 4 : weight.storage == Storage::F32 ? 4 : 8;
    depths = bits ? support::stepOf(weight.storage) : 1;
  }

private:
  const Buffer &weight;
  const support::SuperBlocks *super;
  const support::FloatCodes *floats;
  int bits, tile;
  int columns, depths;                   ///< that a lane's 16 bytes hold; of floats of one byte eight times four
  std::vector<llvm::Value *> matrixBase; ///< of codes, by parts

  llvm::Value *&sum(std::vector<llvm::Value *> &acc, size_t part, int row, int column) {
    return acc[(part * size_t(s.most) + size_t(row)) * size_t(columns) + size_t(column)];
  }

  int lanesAcross() const { return slice / columns; }
  int stepsOfWarp() const { return 32 / lanesAcross(); }

  /// Where the tile's codes of the group, or super-block, that has the depth k begin.
  llvm::Value *codesOf(size_t part, llvm::Value *k) {
    const int64_t length = support::blockOf(weight.storage), bytes = support::bytesOf(weight.storage, length);
    llvm::Value *block = b.CreateZExt(divide(k, length), b.getInt64Ty());
    return b.CreateGEP(b.getInt8Ty(), matrixBase[part], b.CreateMul(block, b.getInt64(uint64_t(bytes * tile))));
  }
  /// A word of a super-block, in the lane's columns.
  llvm::Value *wordOf(llvm::Value *block, llvm::Value *word, llvm::Value *column) {
    return b.CreateGEP(b.getInt8Ty(), block, mul(add(mul(word, tile), rest(column, tile)), 4));
  }
  llvm::Value *firstWordOfGroup(llvm::Value *k) {
    llvm::Value *group = divide(rest(k, super->length), super->group);
    return add(mul(group, super->wordsOfGroup()), super->headWords());
  }

  /// Four bytes of a group of floats, in the lane's columns.
  llvm::Value *bytesOfRow(llvm::Value *group, llvm::Value *row, llvm::Value *column) {
    return b.CreateGEP(b.getInt8Ty(), group, add(mul(row, tile), rest(column, tile)));
  }

  /// Where a lane's bytes of the step at k begin: numbers, or codes.
  llvm::Value *bytesAt(size_t part, llvm::Value *k, llvm::Value *column) {
    if (super) {
      llvm::Value *step = divide(rest(rest(k, super->length), super->group), depths);
      return wordOf(codesOf(part, k), add(firstWordOfGroup(k), step), column);
    }
    if (floats)
      return bytesOfRow(codesOf(part, k), add(rest(k, support::floatGroup), 4), column);
    if (bits) {
      llvm::Value *row = add(mul(divide(rest(k, support::groupOf(weight.storage)), depths), tile), rest(column, tile));
      return b.CreateGEP(b.getInt8Ty(), codesOf(part, k), add(mul(row, 4), 2 * tile));
    }
    stand(number(0), column, group[2], k);
    return address(s.w[part].buffer, s.w[part].at);
  }

  /// Weights are no launch's result, so the first of them are asked for while the launch before is at work. Where launches do
  /// not overlap, they are on their way while x is put in shared memory.
  void fetchAhead(llvm::Value *from, llvm::Value *to, llvm::Value *first, llvm::Value *column) {
    std::vector<llvm::Value *> none;
    const int64_t stride = warps * stepsOfWarp() * depths;
    if (s.ahead)
      loop(add(from, first), least(to, add(from, s.ahead * stride)), number(stride), none, [&](llvm::Value *k) {
        for (size_t part = 0; part < parts(); ++part)
          assembly("prefetch.global.L2 [$0];", "l,~{memory}", b.getVoidTy(), {bytesAt(part, k, column)});
      });
    assembly(waitHere, "~{memory}", b.getVoidTy(), {});
  }

  /// 16 bytes of numbers: columns of one depth.
  std::vector<llvm::Value *> numbersAt(size_t part, llvm::Value *k, llvm::Value *column) {
    llvm::Value *from = bytesAt(part, k, column);
    std::vector<llvm::Value *> numbers;
    const bool whole = weight.storage == Storage::F32;
    llvm::Value *four = b.CreateAlignedLoad(
        FixedVectorType::get(whole ? b.getFloatTy() : static_cast<Type *>(b.getInt32Ty()), 4), from, Align(16));
    for (int i = 0; i < 4; ++i) {
      llvm::Value *word = b.CreateExtractElement(four, uint64_t(i));
      if (whole) {
        numbers.push_back(word);
        continue;
      }
      if (weight.storage == Storage::F16) {
        for (int shift : {0, 16})
          numbers.push_back(halfOf(word, shift));
        continue;
      }
      numbers.push_back(b.CreateBitCast(b.CreateShl(word, 16), b.getFloatTy()));
      numbers.push_back(b.CreateBitCast(b.CreateAnd(word, number(int64_t(0xffff0000))), b.getFloatTy()));
    }
    return numbers;
  }

  /// sum += x * w for the lane's columns at a step of `depths` from k on; x is from `at` on in shared memory.
  void multiply(std::vector<llvm::Value *> &acc, size_t part, llvm::Value *k, llvm::Value *inChunk,
                llvm::Value *column) {
    if (!bits) {
      std::vector<llvm::Value *> w = numbersAt(part, k, column);
      for (int r = 0; r < s.most; ++r) {
        llvm::Value *x = xAt(r, inChunk);
        for (int c = 0; c < columns; ++c)
          sum(acc, part, r, c) = fma(x, w[size_t(c)], sum(acc, part, r, c));
      }
      return;
    }
    if (super)
      return multiplyBlocks(acc, part, k, inChunk, column);
    if (floats)
      return multiplyFloats(acc, part, k, inChunk, column);
    // [tile] low bytes of scales, [tile] high bytes, then for each step [tile][4] bytes of codes (support/CodedGroups.h).
    llvm::Value *base = codesOf(part, k), *inTile = rest(column, tile);
    auto at = [&](llvm::Value *bytes) { return b.CreateGEP(b.getInt8Ty(), base, bytes); };
    llvm::Value *low = b.CreateAlignedLoad(b.getInt32Ty(), at(inTile), Align(4)),
                *high = b.CreateAlignedLoad(b.getInt32Ty(), at(add(inTile, tile)), Align(4));
    llvm::Value *four =
        b.CreateAlignedLoad(FixedVectorType::get(b.getInt32Ty(), 4), bytesAt(part, k, column), Align(16));
    std::vector<llvm::Value *> x;
    for (int r = 0; r < s.most; ++r)
      for (int d = 0; d < depths; ++d)
        x.push_back(xAt(r, add(inChunk, d)));
    for (int c = 0; c < 4; ++c) {
      auto byteOf = [&](llvm::Value *word) { return b.CreateAnd(b.CreateLShr(word, 8 * c), number(255)); };
      llvm::Value *half = b.CreateTrunc(b.CreateOr(byteOf(low), b.CreateShl(byteOf(high), 8)), b.getInt16Ty());
      llvm::Value *scale = b.CreateFPExt(b.CreateBitCast(half, b.getHalfTy()), b.getFloatTy());
      llvm::Value *word = b.CreateExtractElement(four, uint64_t(c));
      std::vector<llvm::Value *> codes;
      for (int d = 0; d < depths; ++d) // of four bits: the low halves of four bytes, then the high ones
        codes.push_back(b.CreateSIToFP(
            add(b.CreateAnd(b.CreateLShr(word, d % 4 * 8 + d / 4 * 4), number((1 << bits) - 1)), -(1 << (bits - 1))),
            b.getFloatTy()));
      for (int r = 0; r < s.most; ++r) {
        llvm::Value *ofStep = ConstantFP::get(b.getFloatTy(), 0);
        for (int d = 0; d < depths; ++d)
          ofStep = fma(x[size_t(r) * size_t(depths) + size_t(d)], codes[size_t(d)], ofStep);
        sum(acc, part, r, c) = fma(ofStep, scale, sum(acc, part, r, c));
      }
    }
  }
  /// The same of eight codes of a super-block: scale times their sum, less the minimum times that of x.
  void multiplyBlocks(std::vector<llvm::Value *> &acc, size_t part, llvm::Value *k, llvm::Value *inChunk,
                      llvm::Value *column) {
    llvm::Value *block = codesOf(part, k), *group = divide(rest(k, super->length), super->group),
                *step = divide(rest(rest(k, super->length), super->group), depths);
    auto load = [&](llvm::Value *at) {
      return b.CreateAlignedLoad(FixedVectorType::get(b.getInt32Ty(), 4), at, Align(16));
    };
    auto words = [&](llvm::Value *word) { return load(wordOf(block, word, column)); };
    llvm::Value *low = load(bytesAt(part, k, column)),
                *high = super->highBits() ? words(highWord(*super, firstWordOfGroup(k), step)) : nullptr,
                *units = words(number(0)), *pairs = words(add(divide(group, 2), 1));
    std::vector<llvm::Value *> x, sumOfX;
    for (int r = 0; r < s.most; ++r)
      for (int d = 0; d < depths; ++d) {
        x.push_back(xAt(r, add(inChunk, d)));
        if (d)
          sumOfX.back() = b.CreateFAdd(sumOfX.back(), x.back());
        else
          sumOfX.push_back(x.back());
      }
    for (int c = 0; c < columns; ++c) {
      auto own = [&](llvm::Value *four) { return b.CreateExtractElement(four, uint64_t(c)); };
      SuperGroup levels = levelsOf(own(units), own(pairs), group);
      std::vector<llvm::Value *> codes;
      for (int d = 0; d < depths; ++d)
        codes.push_back(codeOf(*super, own(low), high ? own(high) : nullptr, add(mul(step, 2), d / 4), d % 4));
      for (int r = 0; r < s.most; ++r) {
        llvm::Value *ofStep = ConstantFP::get(b.getFloatTy(), 0);
        for (int d = 0; d < depths; ++d)
          ofStep = fma(x[size_t(r) * size_t(depths) + size_t(d)], codes[size_t(d)], ofStep);
        llvm::Value *&made = sum(acc, part, r, c);
        made = fma(ofStep, levels.scale, made);
        made = fma(b.CreateFNeg(sumOfX[size_t(r)]), levels.minimum, made);
      }
    }
  }
  /// The same of floats of one byte: a word has one of each column.
  void multiplyFloats(std::vector<llvm::Value *> &acc, size_t part, llvm::Value *k, llvm::Value *inChunk,
                      llvm::Value *column) {
    llvm::Value *group = codesOf(part, k);
    auto rowAt = [&](llvm::Value *row) {
      return b.CreateAlignedLoad(b.getInt32Ty(), bytesOfRow(group, row, column), Align(4));
    };
    std::vector<llvm::Value *> ofScale, words;
    for (int i = 0; i < 4; ++i)
      ofScale.push_back(rowAt(number(i)));
    for (int d = 0; d < depths; ++d)
      words.push_back(rowAt(add(rest(k, support::floatGroup), 4 + d)));
    std::vector<llvm::Value *> steps(size_t(s.most * columns), ConstantFP::get(b.getFloatTy(), 0));
    for (int d = 0; d < depths; ++d) {
      std::vector<llvm::Value *> codes;
      for (int c = 0; c < columns; ++c)
        codes.push_back(floatOf(*floats, b.CreateLShr(words[size_t(d)], 8 * uint64_t(c))));
      for (int r = 0; r < s.most; ++r) {
        llvm::Value *x = xAt(r, add(inChunk, d));
        for (int c = 0; c < columns; ++c) {
          llvm::Value *&step = steps[size_t(r) * size_t(columns) + size_t(c)];
          step = fma(x, codes[size_t(c)], step);
        }
      }
    }
    for (int c = 0; c < columns; ++c) {
      llvm::Value *scale = number(0);
      for (int i = 0; i < 4; ++i)
        scale = b.CreateOr(
            scale, b.CreateShl(b.CreateAnd(b.CreateLShr(ofScale[size_t(i)], 8 * uint64_t(c)), 255), 8 * uint64_t(i)));
      scale = b.CreateBitCast(scale, b.getFloatTy());
      for (int r = 0; r < s.most; ++r)
        sum(acc, part, r, c) = fma(steps[size_t(r) * size_t(columns) + size_t(c)], scale, sum(acc, part, r, c));
    }
  }
  llvm::Value *fma(llvm::Value *x, llvm::Value *y, llvm::Value *z) {
    return b.CreateIntrinsic(x->getType(), Intrinsic::fma, {x, y, z});
  }
  llvm::Value *xPlace(llvm::Value *row, llvm::Value *inChunk) {
    return shared(mul(add(mul(row, memory.depth), inChunk), 4));
  }
  llvm::Value *xAt(int row, llvm::Value *inChunk) { return b.CreateLoad(b.getFloatTy(), xPlace(number(row), inChunk)); }

  void body() override {
    llvm::Value *depth = sizeOf(s.depth);
    rows = sizeOf(s.rows.extent()), allColumns = sizeOf(s.columns.extent());
    // Parts are whole groups of codes.
    llvm::Value *part = mul(divide(add(divide(add(depth, 31), 32), s.split - 1), s.split), 32);
    llvm::Value *from = b.CreateMul(group[1], part), *to = least(add(from, part), depth);
    llvm::Value *across = mul(rest(lane, lanesAcross()), columns), *down = divide(lane, lanesAcross());
    llvm::Value *column = add(mul(group[0], slice), across);
    for (size_t part = 0; bits && part < parts(); ++part) {
      llvm::Value *matrix = b.getInt64(0);
      auto wide = [&](llvm::Value *x) { return b.CreateZExt(x, b.getInt64Ty()); };
      stand(number(0), number(0), group[2], number(0));
      size_t rank = weight.dims.size();
      for (size_t d = 0; d + 2 < rank; ++d)
        matrix = b.CreateAdd(b.CreateMul(matrix, wide(sizeOf(weight.dims[d].size))), wide(get(s.w[part].at[d])));
      const int64_t each = support::blockOf(weight.storage), bytes = support::bytesOf(weight.storage, each);
      llvm::Value *tiles = divide(add(allColumns, tile - 1), tile), *blocks = divide(add(depth, each - 1), each);
      matrix = b.CreateAdd(b.CreateMul(matrix, wide(tiles)), wide(divide(column, tile)));
      matrix = b.CreateMul(b.CreateMul(matrix, wide(blocks)), b.getInt64(uint64_t(tile * bytes)));
      matrixBase.push_back(b.CreateGEP(b.getInt8Ty(), pointerOf(s.w[part].buffer), matrix));
    }
    llvm::Value *first = mul(add(mul(warp, stepsOfWarp()), down), depths);
    fetchAhead(from, to, first, column);
    if (!super) // whose loop takes all registers
      takeTicket();
    makeStatistics();
    std::vector<llvm::Value *> acc(parts() * size_t(s.most * columns), ConstantFP::get(b.getFloatTy(), 0));
    loop(from, to, number(memory.depth), acc, [&](llvm::Value *k0) {
      llvm::Value *count = least(b.CreateSub(to, k0), number(memory.depth));
      barrier();
      fill(k0, count, depth);
      barrier();
      loop(
          first, count, number(warps * stepsOfWarp() * depths), acc,
          [&](llvm::Value *k) {
            for (size_t part = 0; part < parts(); ++part)
              multiply(acc, part, add(k0, k), k, column);
          },
          s.most == 1 ? std::max(1, 8 / int(parts())) : 1); // of one row, so that several loads are on their way
    });
    assembly(endHere, "~{memory}", b.getVoidTy(), {});
    if (super)
      takeTicket();
    // Lanes that hold the same columns.
    for (int apart = lanesAcross(); apart < 32; apart *= 2)
      for (llvm::Value *&one : acc)
        one = b.CreateFAdd(one, call(Intrinsic::nvvm_shfl_sync_bfly_f32, {number(-1), one, number(apart), number(31)}));
    // [warp][part][row][column]
    auto place = [&](llvm::Value *ofWarp, size_t part, llvm::Value *row, llvm::Value *inTile) {
      llvm::Value *line = add(mul(add(mul(ofWarp, int64_t(parts())), int64_t(part)), s.most), row);
      return shared(add(mul(add(mul(line, slice), inTile), 4), memory.sums));
    };
    when(b.CreateICmpULT(lane, number(lanesAcross())), [&] {
      for (size_t part = 0; part < parts(); ++part)
        for (int r = 0; r < s.most; ++r)
          for (int c = 0; c < columns; ++c)
            b.CreateStore(sum(acc, part, r, c), place(warp, part, number(r), add(across, c)));
    });
    finish([&](llvm::Value *row, llvm::Value *inSlice) {
      std::vector<llvm::Value *> made;
      for (size_t part = 0; part < parts(); ++part)
        made.push_back(
            added(warps, [&](int w) { return b.CreateLoad(b.getFloatTy(), place(number(w), part, row, inSlice)); }));
      return made;
    });
  }

  llvm::Value *partOfStatistic(size_t which, int row, llvm::Value *w) {
    return shared(add(mul(add(w, (int64_t(which) * s.most + row) * warps), 4), memory.statistics));
  }

  /// Threads go along each row side by side, and leave a number of each warp in shared memory.
  void makeStatistics() {
    for (size_t i = 0; i < s.statistics.size(); ++i) {
      const Statistic &one = s.statistics[i];
      for (int r = 0; r < s.most; ++r) {
        statistics = statisticsOf(r, i);
        std::vector<llvm::Value *> made = {neutral(one.reduction)};
        loop(
            thread, sizeOf(one.extent), number(dotThreads), made,
            [&](llvm::Value *at) {
              stand(ownRow(number(r)), at, group[2], number(0));
              made[0] = combined(one.reduction, made[0], get(one.value));
            },
            s.most == 1 ? 8 : 1);
        llvm::Value *whole = ofWarp(one.reduction, made[0]);
        when(b.CreateICmpEQ(lane, number(0)), [&] { b.CreateStore(whole, partOfStatistic(i, r, warp)); });
      }
      barrier();
    }
  }

  /// The first ones of a row, from what the warps left, in a fixed order. No register keeps them.
  std::vector<llvm::Value *> statisticsOf(int row, size_t count) {
    std::vector<llvm::Value *> made;
    for (size_t i = 0; i < count; ++i) {
      const Statistic &one = s.statistics[i];
      llvm::Value *whole = neutral(one.reduction);
      for (int w = 0; w < warps; ++w)
        whole = combined(one.reduction, whole, b.CreateLoad(b.getFloatTy(), partOfStatistic(i, row, number(w))));
      if (one.reduction == Reduction::Mean)
        whole = b.CreateFDiv(whole, b.CreateSIToFP(sizeOf(one.extent), b.getFloatTy()));
      made.push_back(whole);
    }
    return made;
  }

  /// x from k0 on; 0 beyond the depth, as a step of codes may be longer, and of rows that are not there.
  void fill(llvm::Value *k0, llvm::Value *count, llvm::Value *depth) {
    llvm::Value *padded = b.CreateAnd(add(count, 7), number(-8));
    std::vector<llvm::Value *> none;
    for (int r = 0; r < s.most; ++r) {
      statistics = statisticsOf(r, s.statistics.size());
      loop(thread, padded, number(dotThreads), none, [&](llvm::Value *i) {
        llvm::Value *k = add(k0, i);
        stand(ownRow(number(r)), number(0), group[2], least(k, add(depth, -1)));
        llvm::Value *x = get(s.xValue);
        x = b.CreateSelect(b.CreateAnd(b.CreateICmpSLT(k, depth), b.CreateICmpSLT(number(r), rows)), x,
                           ConstantFP::get(b.getFloatTy(), 0));
        b.CreateStore(x, xPlace(number(r), i));
      });
    }
  }
};
} // namespace

void emitDots(const Program &program, const Stage &stage, const std::string &name, Module &module) {
  DotsIr(program, stage, name, module).run();
}

} // namespace quern::codegen::tile
