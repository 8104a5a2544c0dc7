// Takes: a module that generates. Gives: the same with its caches in bf16.
//
//   before: %all = remember %x T to S in @cache : real        after: %n = remember (narrow %x) T to S in @cache : bf16
//           %s = contract %q, %all                                   %s = contract %q, (widen %n)
//
// New rows are rounded as they are written, by the kernel that makes them; whoever reads, the same call included, reads the
// rounded numbers, so a text is the same whether it was read at once or in pieces. States that sum up or carry a scan are no
// caches: their rounding would add up over positions.
#include "ir/Attributes.h"
#include "passes/weights/NarrowStorage.h"

using namespace mlir;
using namespace quern::ir;

void quern::passes::narrowCaches(ModuleOp module) {
  module.walk([](RememberOp remember) {
    NamedTensorType type = remember.getResult().getType();
    if (!type.isF32())
      return;
    auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(remember, remember.getStateAttr());
    state.setType(cast<NamedTensorType>(state.getType()).withStorage(Storage::BF16));
    OpBuilder b(remember);
    Location loc = remember.getLoc();
    remember.getXMutable().assign(
        NarrowOp::create(b, loc, remember.getX().getType().withStorage(Storage::BF16), remember.getX()));
    remember.getResult().setType(type.withStorage(Storage::BF16));
    b.setInsertionPointAfter(remember);
    auto wide = WidenOp::create(b, loc, type, remember.getResult());
    remember.getResult().replaceAllUsesExcept(wide, wide);
  });
}
