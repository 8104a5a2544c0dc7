// Takes: a product. Gives: its function, for compute capability 8.0 or later.
//
//   copy 0 .. stages - 2                        cp.async, 16 bytes a thread, each copy a group
//   for step i:  wait for the copy of i; barrier; copy i + stages - 1 into the slot that step i - 1 left
//                ldmatrix of x and w; mma.sync m16n8k16, bf16 in, f32 sums in registers
//   of each sum: what the program's stores say
//
// Beyond the depth copies write zeros; beyond the last row or column they read the last, whose sums are not stored.
#include "codegen/tile/ptx/TensorIr.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace llvm;

namespace quern::codegen::tile {

namespace {
class ProductIr : public TensorIr {
public:
  ProductIr(const Program &program, const Stage &stage, const std::string &name, Module &module)
      : TensorIr(program, stage, name, module), cut(stage.cut), tiles(sharedTilesOf(stage)),
        ownRows(cut.rows / cut.warpRows), ownColumns(cut.columns / cut.warpColumns) {}

private:
  const Cut &cut;
  SharedTiles tiles;
  int ownRows, ownColumns; ///< of a warp
  llvm::Value *row0 = nullptr, *column0 = nullptr, *lastRow = nullptr, *lastColumn = nullptr, *depth = nullptr;
  std::vector<llvm::Value *> acc; ///< [part][16 rows][8 columns][4]

  size_t parts() const { return s.w.size(); }
  llvm::Value *&accumulator(size_t part, int i, int j, int e) {
    return acc[((part * size_t(ownRows / 16) + size_t(i)) * size_t(ownColumns / 8) + size_t(j)) * 4 + size_t(e)];
  }

  void copyChunk(const Operand &from, llvm::Value *to, llvm::Value *bytes) {
    call(Intrinsic::nvvm_cp_async_cg_shared_global_16_s, {to, address(from.buffer, from.at), bytes});
  }
  /// Each thread's pieces of eight numbers: `count` rows (columns) along the depth.
  void copyAlong(const Operand &from, bool isX, int count, llvm::Value *start, int64_t pitch, llvm::Value *k0) {
    int chunks = cut.depth / 8;
    pieces(count * chunks, cut.threads(), [&](llvm::Value *piece) {
      llvm::Value *own = divide(piece, chunks), *inner = mul(rest(piece, chunks), 8), *k = add(k0, inner);
      llvm::Value *left = most(least(mul(b.CreateSub(depth, k), 2), number(16)), number(0));
      k = b.CreateSelect(b.CreateICmpSLT(k, depth), k, number(0));
      llvm::Value *place = isX ? least(add(row0, own), lastRow) : least(add(column0, own), lastColumn);
      stand(isX ? place : number(0), isX ? number(0) : place, group[2], k);
      copyChunk(from, shared(add(start, add(mul(own, pitch), mul(inner, 2)))), left);
    });
  }
  /// Eight columns of a depth. The last eight hold the last column; what is beside it is memory of the tile.
  void copyAcross(const Operand &from, llvm::Value *start, int64_t pitch, llvm::Value *k0) {
    int chunks = cut.columns / 8;
    pieces(cut.depth * chunks, cut.threads(), [&](llvm::Value *piece) {
      llvm::Value *inner = divide(piece, chunks), *own = mul(rest(piece, chunks), 8), *k = add(k0, inner);
      llvm::Value *inside = b.CreateICmpSLT(k, depth), *left = b.CreateSelect(inside, number(16), number(0));
      llvm::Value *place = least(add(column0, own), b.CreateAnd(lastColumn, number(-8)));
      stand(number(0), place, group[2], b.CreateSelect(inside, k, number(0)));
      copyChunk(from, shared(add(start, add(mul(inner, pitch), mul(own, 2)))), left);
    });
  }
  void copyStep(llvm::Value *slot, llvm::Value *k0) {
    llvm::Value *start = mul(slot, tiles.stageBytes);
    copyAlong(s.x, true, cut.rows, start, tiles.xPitch, k0);
    for (size_t part = 0; part < parts(); ++part) {
      llvm::Value *at = add(start, tiles.wStart[part]);
      s.w[part].depthInner ? copyAlong(s.w[part], false, cut.columns, at, tiles.wPitch[part], k0)
                           : copyAcross(s.w[part], at, tiles.wPitch[part], k0);
    }
    commitCopies();
  }

  void multiply(llvm::Value *slot, llvm::Value *warpRow, llvm::Value *warpColumn) {
    llvm::Value *start = mul(slot, tiles.stageBytes);
    // Matrices 0 .. 3 of x: rows 0-7, 8-15 of the first eight depths, then of the next; of w: depths first.
    llvm::Value *in = rest(lane, 8), *odd = rest(divide(lane, 8), 2), *high = divide(lane, 16);
    for (int k = 0; k < cut.depth; k += 16) {
      std::vector<std::vector<llvm::Value *>> x;
      for (int i = 0; i < ownRows / 16; ++i) {
        llvm::Value *own = add(add(mul(warpRow, ownRows), add(in, mul(odd, 8))), 16 * i);
        x.push_back(matrices(add(start, add(mul(own, tiles.xPitch), add(mul(high, 16), 2 * k))), false));
      }
      for (size_t part = 0; part < parts(); ++part)
        for (int j = 0; j < ownColumns / 16; ++j) {
          llvm::Value *at = add(start, tiles.wStart[part]), *column = add(mul(warpColumn, ownColumns), 16 * j);
          bool along = s.w[part].depthInner;
          llvm::Value *offset =
              along ? add(mul(add(column, add(in, mul(high, 8))), tiles.wPitch[part]), add(mul(odd, 16), 2 * k))
                    : add(mul(add(add(in, mul(odd, 8)), k), tiles.wPitch[part]), mul(add(column, mul(high, 8)), 2));
          std::vector<llvm::Value *> w = matrices(add(at, offset), !along);
          for (int i = 0; i < ownRows / 16; ++i)
            for (int half = 0; half < 2; ++half)
              multiplyAdd(x[size_t(i)], w[2 * size_t(half)], w[2 * size_t(half) + 1],
                          &accumulator(part, i, 2 * j + half, 0));
        }
    }
  }
  void body() override {
    row0 = mul(group[1], cut.rows), column0 = mul(group[0], cut.columns);
    lastRow = add(sizeOf(s.rows.extent()), -1), lastColumn = add(sizeOf(s.columns.extent()), -1),
    depth = sizeOf(s.depth);
    llvm::Value *warpRow = rest(warp, cut.warpRows), *warpColumn = divide(warp, cut.warpRows);
    for (int i = 0; i + 1 < cut.stages; ++i)
      copyStep(number(i), number(i * cut.depth));
    acc.assign(parts() * size_t(ownRows / 16) * size_t(ownColumns / 8) * 4, ConstantFP::get(b.getFloatTy(), 0));
    ring(
        number(0), depth, cut.depth, cut.stages, acc, [&](llvm::Value *slot, llvm::Value *k0) { copyStep(slot, k0); },
        [&](llvm::Value *slot, llvm::Value *) { multiply(slot, warpRow, warpColumn); });
    llvm::Value *rowOfLane = add(row0, add(mul(warpRow, ownRows), divide(lane, 4))),
                *columnOfLane = add(column0, add(mul(warpColumn, ownColumns), mul(rest(lane, 4), 2)));
    for (int i = 0; i < ownRows / 16; ++i)
      for (int j = 0; j < ownColumns / 8; j += 2) {
        std::vector<Element> some;
        for (int e = 0; e < 8; ++e) {
          Element &one = some.emplace_back(
              Element{add(rowOfLane, 16 * i + e / 2 % 2 * 8), add(columnOfLane, 8 * (j + e / 4) + e % 2), {}});
          for (size_t part = 0; part < parts(); ++part)
            one.sums.push_back(accumulator(part, i, j + e / 4, e % 4));
        }
        storeElements(some);
      }
  }
};
} // namespace

void emitProduct(const Program &program, const Stage &stage, const std::string &name, Module &module) {
  ProductIr(program, stage, name, module).run();
}

} // namespace quern::codegen::tile
