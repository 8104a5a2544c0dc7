// Takes: sums of a product in registers. Gives: what becomes of them, in memory.
//
// A thread's loads are asked for in order, and a store waits for what it stores. So the loads of several elements (a
// residual, a bias) stand before the first store: else each would wait for its own, one after the other.
#include "codegen/tile/ptx/KernelIr.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace llvm;

namespace quern::codegen::tile {

void KernelIr::storeElements(const std::vector<Element> &elements) {
  llvm::Value *rows = sizeOf(s.rows.extent()), *columns = sizeOf(s.columns.extent());
  std::vector<std::pair<llvm::Value *, llvm::Value *>> places;
  auto standAt = [&](size_t i) {
    stand(places[i].first, places[i].second, group[2], number(0));
    sums = elements[i].sums;
  };
  std::vector<std::vector<llvm::Value *>> made;
  for (const Element &one : elements) {
    places.emplace_back(least(one.row, add(rows, -1)), least(one.column, add(columns, -1)));
    standAt(made.size());
    std::vector<llvm::Value *> &values = made.emplace_back();
    for (const Store &store : s.stores)
      values.push_back(get(store.value));
  }
  for (size_t i = 0; i < elements.size(); ++i) {
    llvm::Value *inside =
        b.CreateAnd(b.CreateICmpSLT(elements[i].row, rows), b.CreateICmpSLT(elements[i].column, columns));
    standAt(i);
    for (size_t which = 0; which < s.stores.size(); ++which) {
      const Store &one = s.stores[which];
      if (!one.pairs)
        store(one, inside, made[i][which]);
      else if (i % 2 == 0)
        storePair(one, inside, made[i][which], made[i + 1][which]);
    }
  }
}

/// `inside`: both are, as the number of columns is even.
void KernelIr::storePair(const Store &store, llvm::Value *inside, llvm::Value *first, llvm::Value *second) {
  llvm::Value *to = address(store.buffer, store.at), *both;
  if (p.buffers[size_t(store.buffer)].storage == Storage::BF16) {
    both = b.CreateBitCast(call(Intrinsic::nvvm_ff2bf16x2_rn, {second, first}), b.getInt32Ty());
  } else {
    both = PoisonValue::get(FixedVectorType::get(b.getFloatTy(), 2));
    both = b.CreateInsertElement(both, first, uint64_t(0));
    both = b.CreateInsertElement(both, second, uint64_t(1));
  }
  when(inside, [&] { b.CreateAlignedStore(both, to, Align(both->getType()->getPrimitiveSizeInBits() / 8)); });
}

} // namespace quern::codegen::tile
