// The parts of the incremental lowering; private to Incremental*.cpp and InlineDefaults.cpp.
#ifndef QUERN_PASSES_INCREMENTAL_INCREMENTAL_H
#define QUERN_PASSES_INCREMENTAL_INCREMENTAL_H

#include "passes/time/TimeAnalysis.h"

#include "llvm/ADT/SetVector.h"

namespace quern::passes {

/// On a function: the variant for calls of at most this many rows (B * T), where it reads less than the one for many.
inline constexpr llvm::StringLiteral fewRows = "quern.few_rows";

/// Dimensions by their old names: what stands for each.
using Relabelling = std::map<Label, ir::DimAttr>;

/// `type` with dimensions replaced.
ir::NamedTensorType relabelled(ir::NamedTensorType type, const Relabelling &table);
/// Replaces dimensions in an operation's attributes and result types (regions excluded).
void relabel(mlir::Operation *op, const Relabelling &table);
/// `value` under other labels; itself if it has none that the table replaces.
mlir::Value renamed(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value, const Relabelling &table);
/// Whether the operation treats the dimension other than position by position: reduces, gathers, cuts, renames, makes
/// it.
bool touches(mlir::Operation *op, llvm::StringRef label);
/// Whether results follow position by position from the operands, along every dimension that `touches` denies.
bool isPointwise(mlir::Operation *op);
/// `op` on other operands, with the result types that follow from them.
mlir::Operation *cloneOn(mlir::OpBuilder &builder, mlir::Operation *op, mlir::ValueRange operands);
/// Erases what nothing uses, loops' bodies included.
void eraseDead(mlir::func::FuncOp function);
/// Number of turns of all loops around an operation; 0 outside of loops.
int64_t turnsAround(mlir::Operation *op);

/// Puts the bodies of the functions that compute them in place of the optional arguments, and drops these
/// (InlineDefaults.cpp).
void inlineDefaults(mlir::func::FuncOp function);

/// Values over one twin of T, made position by position from the text, become renames of the same values over T
/// (IncrementalSink.cpp). `time` is the function's time dimension.
void sinkRenames(mlir::func::FuncOp function, ir::DimAttr time);

/// The states of a module's step functions. The variants of one function (`forward`, `forward.last`) ask for the same
/// states in the same order and get the same symbols.
class StateTable {
public:
  StateTable(mlir::ModuleOp module, llvm::StringRef function) : module(module), function(function) {}
  void beginVariant() { next.clear(); }
  mlir::FlatSymbolRefAttr get(ir::NamedTensorType type, mlir::Location location);

private:
  mlir::ModuleOp module;
  std::string function;
  std::map<mlir::Type, std::vector<mlir::FlatSymbolRefAttr>, bool (*)(mlir::Type, mlir::Type)> states{
      [](mlir::Type a, mlir::Type b) { return a.getAsOpaquePointer() < b.getAsOpaquePointer(); }};
  std::map<const void *, size_t> next;
  size_t count = 0;
};

/// Chooses which values over T are kept between steps: for each value that is needed at old positions, itself or what
/// it can be made from again (IncrementalCut.cpp).
class MemoryPlan {
public:
  /// `absorb`: projections of what is kept may be left to those who contract with them (AbsorbProjections.h).
  MemoryPlan(mlir::func::FuncOp function, const TimeAnalysis &analysis, bool absorb);
  /// No text in it, and nothing that a loop carries: it can be made again along any label.
  bool isMadeFromPositions(mlir::Value value);
  bool isStored(mlir::Value value) const { return stored.contains(value); }
  llvm::ArrayRef<mlir::Value> values() const { return stored.getArrayRef(); }
  /// Up to how many new rows projections are better absorbed than made again; 0: the plan counts on no absorption.
  int64_t rowsWhereAbsorbingPays() const { return absorbingRows; }

private:
  const TimeAnalysis &analysis;
  llvm::SetVector<mlir::Value> stored;
  llvm::DenseMap<mlir::Value, bool> fromPositions;
  int64_t absorbingRows = 0;
  bool isBarrier(mlir::Value value);
};

/// Rewrites a causal function to its step form (IncrementalStep.cpp). Sizes still speak of the whole text.
void makeStep(mlir::func::FuncOp function, const TimeAnalysis &analysis, MemoryPlan &plan, StateTable &states);
/// T becomes the number of new rows and its twins `past + T` (IncrementalStep.cpp).
void countFromPast(mlir::func::FuncOp function, ir::DimAttr time);

/// Lets rows of the batch begin at different times (IncrementalRagged.cpp). False if that cannot be; the function is
/// then of no use.
bool makeRagged(mlir::func::FuncOp function, ir::DimAttr time);

/// Cuts the results to the last new row, as early as possible (IncrementalLast.cpp).
void keepLastRow(mlir::func::FuncOp function, ir::DimAttr time);

/// `quern.limits`: the longest text for which gathers from fixed tables stay inside (IncrementalLimits.cpp).
mlir::ArrayAttr findLimits(mlir::func::FuncOp function, const TimeAnalysis &analysis);
/// Marks with `quern.once` what depends on the request but not on the text (IncrementalLimits.cpp).
void markOnce(mlir::func::FuncOp function, ir::DimAttr time);

} // namespace quern::passes
#endif
