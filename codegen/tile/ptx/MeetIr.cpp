// Takes: what each block of a product of few rows summed. Gives: its results.
//
// Blocks that share columns have parts of the depth. Each takes a ticket when it begins; the block that has a launch's last one
// puts the parts together, as all others are at work by then and wait for nobody. A part's sum is stored together with the
// launch's number, in one word of 64 bits: whoever reads the number has the sum. So there is no fence, and the way to memory
// and back is made once. On an H100 a fence, an atomic and then reads took 2.3 us of every launch, and this takes 0.9.
#include "codegen/tile/ptx/MeetIr.h"

using namespace llvm;

namespace quern::codegen::tile {

/// Memory of the module: zeros before its first launch, and it stays from launch to launch.
GlobalVariable *MeetIr::kept(Type *each, int64_t count, const char *name) {
  auto *type = ArrayType::get(each, uint64_t(count));
  return new GlobalVariable(module, type, false, GlobalValue::InternalLinkage, ConstantAggregateZero::get(type),
                            function->getName() + name, nullptr, GlobalValue::NotThreadLocal, 1);
}

/// In the first thread. Nobody waits for it before all is summed.
void MeetIr::takeTicket() {
  if (!meets(s))
    return;
  const int64_t columns = s.together ? s.together : slice;
  GlobalVariable *tickets = kept(b.getInt32Ty(), (columnsOfAll() + columns - 1) / columns, "_tickets");
  llvm::Value *own = b.CreateGEP(b.getInt32Ty(), tickets, divide(mul(group[0], slice), columns));
  ticket = either(
      b.CreateICmpEQ(thread, number(0)),
      [&]() -> std::vector<llvm::Value *> {
        return {assembly("atom.global.add.u32 $0, [$1], 1;", "=r,l,~{memory}", b.getInt32Ty(), {own})};
      },
      [&]() -> std::vector<llvm::Value *> { return {number(0)}; })[0];
}

void MeetIr::finish(const std::function<std::vector<llvm::Value *>(llvm::Value *, llvm::Value *)> &own) {
  const bool meet = meets(s);
  llvm::Value *place = shared(number(memory.ticket)), *isLast = nullptr;
  if (meet)
    when(b.CreateICmpEQ(thread, number(0)), [&] { b.CreateStore(ticket, place); });
  barrier();
  if (meet) {
    const int64_t blocks = s.blocksThatMeet();
    ticket = b.CreateLoad(b.getInt32Ty(), place);
    launch = add(divide(ticket, blocks), 1), isLast = b.CreateICmpEQ(rest(ticket, blocks), number(blocks - 1));
  }
  each(slice, mul(group[0], slice), [&](llvm::Value *row, llvm::Value *in, llvm::Value *column, llvm::Value *isThere) {
    std::vector<llvm::Value *> made = own(row, in);
    if (meet)
      return leave(made, row, column, isThere);
    if (s.sums >= 0)
      return keep(made, row, column, isThere);
    if (s.together) {
      b.CreateStore(made[0], togetherAt(row, in));
      return;
    }
    stand(row, column, group[2], number(0));
    sums = made;
    for (const Store &one : s.stores)
      store(one, isThere);
  });
  if (meet)
    when(isLast, [&] { put(); });
  else if (s.together)
    put();
}

/// The results of all columns whose blocks meet.
void MeetIr::put() {
  if (meets(s))
    barrier(); // what the block itself left is there: nobody waits for a thread that waits
  if (!s.together)
    return each(slice, firstOfGroup(), [&](llvm::Value *row, llvm::Value *, llvm::Value *column, llvm::Value *isThere) {
      stand(row, column, group[2], number(0));
      for (const Store &one : s.stores)
        ask(one.value);
      sums = collected(row, column);
      for (const Store &one : s.stores)
        store(one, isThere);
    });
  if (meets(s))
    each(s.together, firstOfGroup(), [&](llvm::Value *row, llvm::Value *in, llvm::Value *column, llvm::Value *) {
      b.CreateStore(collected(row, column)[0], togetherAt(row, in));
    });
  barrier();
  each(s.together, firstOfGroup(), [&](llvm::Value *row, llvm::Value *, llvm::Value *column, llvm::Value *isThere) {
    stand(row, column, group[2], number(0));
    for (const Store &one : s.stores) {
      llvm::Value *own =
          b.CreateAnd(b.CreateICmpSGE(column, sizeOf(one.from)), b.CreateICmpSLT(column, sizeOf(*one.to)));
      when(b.CreateAnd(own, isThere), [&] { store(one, b.getTrue()); }); // elsewhere its places are none
    }
  });
}

llvm::Value *MeetIr::firstOfGroup() {
  llvm::Value *first = mul(group[0], slice);
  return s.together ? mul(divide(first, s.together), s.together) : first;
}

/// Of each row and of `width` columns from the first one on; `isThere`: else it is the last row or column.
void MeetIr::each(int width, llvm::Value *first,
                  const std::function<void(llvm::Value *, llvm::Value *, llvm::Value *, llvm::Value *)> &use) {
  std::vector<llvm::Value *> none;
  loop(thread, number(int64_t(s.most) * width), number(dotThreads), none, [&](llvm::Value *i) {
    llvm::Value *row = divide(i, width), *in = rest(i, width), *column = add(first, in);
    llvm::Value *isThere = b.CreateAnd(b.CreateICmpSLT(row, rows), b.CreateICmpSLT(column, allColumns));
    use(ownRow(row), in, least(column, add(allColumns, -1)), isThere);
  });
}

llvm::Value *MeetIr::added(int count, const std::function<llvm::Value *(int)> &one) {
  llvm::Value *sum = ConstantFP::get(b.getFloatTy(), 0);
  for (int i = 0; i < count; ++i)
    sum = b.CreateFAdd(sum, one(i));
  return sum;
}

/// `body` again, until what it gives holds.
void MeetIr::until(const std::function<llvm::Value *()> &body) {
  BasicBlock *again = BasicBlock::Create(context, "again", function),
             *after = BasicBlock::Create(context, "after", function);
  b.CreateBr(again);
  b.SetInsertPoint(again);
  llvm::Value *holds = body();
  b.CreateCondBr(holds, after, again);
  b.SetInsertPoint(after);
}

/// What other blocks see, or saw: past the first cache, in one piece.
template <typename Access> static Access *atDevice(Access *access, LLVMContext &context) {
  access->setAtomic(AtomicOrdering::Monotonic, context.getOrInsertSyncScopeID("device"));
  return access;
}

llvm::Value *MeetIr::word(llvm::Value *split, size_t part, llvm::Value *row, llvm::Value *column) {
  if (!left)
    left = kept(b.getInt64Ty(), s.split * int64_t(parts()) * s.most * columnsOfAll(), "_parts");
  llvm::Value *line = add(mul(add(mul(split, int64_t(parts())), int64_t(part)), s.most), row);
  return b.CreateGEP(b.getInt64Ty(), left, add(mul(line, columnsOfAll()), column));
}

void MeetIr::leave(const std::vector<llvm::Value *> &made, llvm::Value *row, llvm::Value *column,
                   llvm::Value *isThere) {
  auto wide = [&](llvm::Value *x) { return b.CreateZExt(x, b.getInt64Ty()); };
  when(isThere, [&] {
    for (size_t part = 0; part < parts(); ++part) {
      llvm::Value *both = b.CreateOr(wide(b.CreateBitCast(made[part], b.getInt32Ty())), b.CreateShl(wide(launch), 32));
      atDevice(b.CreateAlignedStore(both, word(group[1], part, row, column), Align(8)), context);
    }
  });
}

/// Of each part, what all blocks left, added in the order of the depth.
std::vector<llvm::Value *> MeetIr::collected(llvm::Value *row, llvm::Value *column) {
  std::vector<llvm::Value *> words;
  until([&] {
    llvm::Value *all = b.getTrue();
    for (int split = 0; split < s.split; ++split)
      for (size_t part = 0; part < parts(); ++part) {
        llvm::Value *from = word(number(split), part, row, column);
        words.push_back(atDevice(b.CreateAlignedLoad(b.getInt64Ty(), from, Align(8)), context));
        llvm::Value *of = b.CreateTrunc(b.CreateLShr(words.back(), 32), b.getInt32Ty());
        all = b.CreateAnd(all, b.CreateICmpEQ(of, launch));
      }
    return all;
  });
  std::vector<llvm::Value *> made;
  for (size_t part = 0; part < parts(); ++part)
    made.push_back(added(s.split, [&](int split) {
      return b.CreateBitCast(b.CreateTrunc(words[size_t(split) * parts() + part], b.getInt32Ty()), b.getFloatTy());
    }));
  return made;
}

/// For a map that adds up the parts.
void MeetIr::keep(const std::vector<llvm::Value *> &made, llvm::Value *row, llvm::Value *column, llvm::Value *isThere) {
  auto wide = [&](llvm::Value *x) { return b.CreateZExt(x, b.getInt64Ty()); };
  llvm::Value *pitch = b.CreateAnd(add(allColumns, 7), number(-8)), *matrices = sizeOf(s.matrices.extent());
  llvm::Value *line = b.CreateAdd(b.CreateMul(wide(group[1]), wide(matrices)), wide(group[2]));
  line = b.CreateAdd(b.CreateMul(line, wide(rows)), wide(row));
  llvm::Value *offset = b.CreateAdd(b.CreateMul(line, wide(pitch)), wide(column));
  when(isThere, [&] { b.CreateStore(made[0], b.CreateGEP(b.getFloatTy(), pointerOf(s.sums), offset)); });
}

llvm::Value *MeetIr::togetherAt(llvm::Value *row, llvm::Value *in) {
  return shared(add(mul(add(mul(row, s.together), in), 4), memory.together));
}
llvm::Value *MeetIr::sumAt(llvm::Value *row, llvm::Value *column) {
  return b.CreateLoad(b.getFloatTy(), togetherAt(row, b.CreateSub(column, firstOfGroup())));
}

} // namespace quern::codegen::tile
