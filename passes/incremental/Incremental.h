// The parts of the incremental lowering; private to Incremental*.cpp.
#ifndef QUERN_PASSES_INCREMENTAL_INCREMENTAL_H
#define QUERN_PASSES_INCREMENTAL_INCREMENTAL_H

#include "passes/Rewriting.h"
#include "passes/time/TimeAnalysis.h"
#include "support/Machine.h"

#include "llvm/ADT/SetVector.h"

namespace quern::passes {

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
  MemoryPlan(mlir::func::FuncOp function, const TimeAnalysis &analysis, const support::Machine &machine, bool absorb);
  /// No text in it, and nothing that a loop carries: it can be recomputed along any label.
  bool isMadeFromPositions(mlir::Value value);
  bool isStored(mlir::Value value) const { return stored.contains(value); }
  llvm::ArrayRef<mlir::Value> values() const { return stored.getArrayRef(); }
  /// Up to how many new rows projections are better absorbed than recomputed; 0: the plan counts on no absorption.
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
