// Takes: the elaborator's calls for a scan. Gives: a quern.scan, isolated from what stands around it.
// Why it is made at the end: only then it is known which carried values, slices and values from outside the body reads.
#include "frontend/build/MlirBuilder.h"

#include "ir/Attributes.h"
#include "ir/Scan.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace quern::frontend {

static mlir::Value value(Handle handle) {
  return mlir::Value::getFromOpaquePointer(handle);
}
static Handle handle(mlir::Value value) {
  return value.getAsOpaquePointer();
}

std::vector<Handle> MlirBuilder::beginScan(DimRef dim, bool fromEnd, const std::vector<Tensor> &carried) {
  Scan scan;
  scan.dim = dim;
  scan.fromEnd = fromEnd;
  scan.outside = builder.saveInsertionPoint();
  Block &block = scan.region->emplaceBlock();
  std::vector<Handle> inside;
  for (const Tensor &tensor : carried) {
    scan.inits.push_back(value(tensor.handle));
    inside.push_back(handle(block.addArgument(value(tensor.handle).getType(), location)));
  }
  builder.setInsertionPointToEnd(&block);
  scans.push_back(std::move(scan));
  return inside;
}

Handle MlirBuilder::slice(Handle x) {
  Scan &scan = scans.back();
  scan.slices.push_back(value(x));
  return handle(scan.region->front().addArgument(ir::sliceOf(ir::typeOf(value(x)), scan.dim->label), location));
}

Handle MlirBuilder::scanPosition(DimRef ref) {
  auto scan = llvm::find_if(llvm::reverse(scans), [&](const Scan &each) { return each.dim == ref; });
  if (!scan->position) {
    OpBuilder::InsertionGuard guard(builder);
    builder.restoreInsertionPoint(scan->outside);
    mlir::Value index = ir::IndexOp::create(builder, location, dim(ref));
    scan->slices.push_back(index);
    scan->position = scan->region->front().addArgument(ir::sliceOf(ir::typeOf(index), ref->label), location);
  }
  return handle(scan->position);
}

void MlirBuilder::leaveScans() {
  returns.push_back(builder.saveInsertionPoint());
  if (!scans.empty())
    builder.restoreInsertionPoint(scans.front().outside);
}

void MlirBuilder::returnToScans() {
  builder.restoreInsertionPoint(returns.back());
  returns.pop_back();
}

void MlirBuilder::abandonScan() {
  builder.restoreInsertionPoint(scans.back().outside);
  scans.pop_back();
}

/// The values from outside that a body reads, as arguments of it; numbers are recomputed inside.
static SmallVector<mlir::Value> isolate(Region &region, OpBuilder &builder) {
  llvm::SetVector<mlir::Value> outside;
  region.walk([&](Operation *op) {
    for (mlir::Value operand : op->getOperands())
      if (!region.isAncestor(operand.getParentRegion()))
        outside.insert(operand);
  });
  SmallVector<mlir::Value> inputs;
  Block &block = region.front();
  for (mlir::Value each : outside) {
    Operation *op = each.getDefiningOp();
    mlir::Value inside;
    if (isa_and_nonnull<ir::ConstOp, ir::SizeOp>(op)) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(&block);
      inside = builder.clone(*op)->getResult(0);
    } else {
      inside = block.addArgument(each.getType(), each.getLoc());
      inputs.push_back(each);
    }
    each.replaceUsesWithIf(inside,
                           [&](OpOperand &use) { return region.isAncestor(use.getOwner()->getParentRegion()); });
  }
  return inputs;
}

std::vector<Handle> MlirBuilder::endScan(const std::vector<std::optional<Tensor>> &carried,
                                         const std::vector<Tensor> &made) {
  Scan scan = std::move(scans.back());
  scans.pop_back();
  Region &region = *scan.region;
  Block &block = region.front();
  auto attrs = function->getAttrOfType<ir::LabelAttr>(ir::batchAttr);
  StringRef batch = attrs ? attrs.getName() : StringRef();
  ir::DimAttr along = dim(scan.dim);

  SmallVector<mlir::Value> inits, yields;
  SmallVector<Type> types;
  SmallVector<unsigned> gone;
  for (size_t i = 0; i < carried.size(); ++i) {
    if (!carried[i]) { // no statement assigned it: it is what it was outside
      block.getArgument(i).replaceAllUsesWith(scan.inits[i]);
      gone.push_back(i);
      continue;
    }
    inits.push_back(scan.inits[i]);
    types.push_back(scan.inits[i].getType());
    mlir::Value leaving = value(carried[i]->handle);
    if (leaving.getType() != types.back())
      leaving = ir::PermuteOp::create(builder, location, types.back(), leaving);
    yields.push_back(leaving);
  }
  for (const Tensor &tensor : made) {
    mlir::Value part = value(tensor.handle);
    types.push_back(ir::stackedAlong(ir::typeOf(part), along, batch));
    yields.push_back(part);
  }
  ir::YieldOp::create(builder, location, yields);
  SmallVector<mlir::Value> inputs = isolate(region, builder);
  for (unsigned i : llvm::reverse(gone))
    block.eraseArgument(i);
  builder.restoreInsertionPoint(scan.outside);
  auto op = ir::ScanOp::create(builder, location, types, inits, scan.slices, inputs, along, scan.fromEnd, ArrayAttr());
  op.getBody().takeBody(region);

  std::vector<Handle> results;
  unsigned next = 0;
  for (const std::optional<Tensor> &each : carried)
    results.push_back(each ? handle(op.getResult(next++)) : nullptr);
  for (; next < op.getNumResults(); ++next)
    results.push_back(handle(op.getResult(next)));
  return results;
}

} // namespace quern::frontend
