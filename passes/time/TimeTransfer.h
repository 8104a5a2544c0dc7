// The transfer rules of the time analysis, family by family; private to TimeAnalysis*.cpp.
#ifndef QUERN_PASSES_TIME_TIMETRANSFER_H
#define QUERN_PASSES_TIME_TIMETRANSFER_H

#include "passes/time/TimeAnalysis.h"

namespace quern::passes {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// What holds where the element is not k; no bounds where nothing is known.
Bounds absentOf(const Facts &facts, double k);
/// The union of what values depend on; no facts.
Facts merged(llvm::ArrayRef<const Facts *> operands);
/// Facts of an elementwise operation (constants and positions have their own rules). Pure: no refusals.
Facts elementwise(mlir::Operation *op, llvm::ArrayRef<const Facts *> operands);
/// `absent` of a product: nonzero needs both factors nonzero.
std::map<double, Bounds> productAbsent(const Facts &a, const Facts &b);

class TimeTransfer {
public:
  explicit TimeTransfer(TimeAnalysis &analysis) : analysis(analysis) {}
  void run(mlir::Block &block);
  /// Refusals are recorded only when set: while a loop's facts still change they may be wrong.
  bool report = true;

private:
  TimeAnalysis &analysis;
  const Label &time() const { return analysis.timeLabel; }

  const Facts &get(mlir::Value value) { return analysis.known[value]; }
  void set(mlir::Value value, Facts facts) { analysis.known[value] = std::move(facts); }
  void refuse(mlir::Operation *op, const llvm::Twine &message);
  bool isOdd(ir::DimAttr dim) const; // made from T, but not as long

  void visit(mlir::Operation *op);
  void repeat(ir::RepeatOp op);
  Facts visitElementwise(mlir::Operation *op);
  Facts visitShape(mlir::Operation *op);
  Facts visitRename(ir::RenameOp op);
  Facts visitConcat(ir::ConcatOp op);
  Facts visitCut(ir::CutOp op);
  Facts visitGather(ir::GatherOp op);
  Facts visitReduce(ir::ReduceOp op);
  Facts visitSoftmax(ir::SoftmaxOp op);
  Facts visitContract(ir::ContractOp op);
  Facts visitAttention(ir::AttentionOp op);
  Facts visitCumsum(ir::CumsumOp op);
  void scan(mlir::Operation *op);
  /// `dep` after combining the positions of `over`, when the element is the reduction's identity unless `unless`;
  /// `rest`: labels of time that the result keeps.
  std::set<Label> reduced(mlir::Operation *op, llvm::StringRef what, llvm::ArrayRef<llvm::StringRef> over,
                          llvm::ArrayRef<Label> rest, const Facts &x, const Bounds &unless);
  bool touchesTime(mlir::Operation *op, llvm::ArrayRef<ir::DimAttr> touched, bool data);
};

} // namespace quern::passes
#endif
