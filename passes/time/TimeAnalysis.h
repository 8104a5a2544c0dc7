// The time analysis: for each value of a function, on which positions of the text it depends and what its booleans
// imply about positions. Decides whether a function can be extended step by step.
#ifndef QUERN_PASSES_TIME_TIMEANALYSIS_H
#define QUERN_PASSES_TIME_TIMEANALYSIS_H

#include "ir/Dialect.h"
#include "ir/analysis/SourceLines.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/time/TimeBounds.h"

namespace quern::passes {

/// sum of coefficient * index(label), plus a constant.
struct Affine {
  std::map<Label, int64_t> coefficients;
  int64_t constant = 0;
  bool operator==(const Affine &o) const { return coefficients == o.coefficients && constant == o.constant; }
};

/// What is known about one value. Every fact is optional: knowing less makes the analysis refuse more, never less.
struct Facts {
  std::set<Label> dep;  // the element at (t, s ...) depends on text up to the largest of these indices, no further
  bool data = false;    // depends on an input that has T
  bool request = false; // depends on another input
  bool raw = false;     // depends on T as a number, in a way that no comparison describes
  std::set<mlir::Operation *> comparisons; // ... through these scalar comparisons
  std::optional<Affine> affine;            // ints
  std::map<Label, int64_t> high, low;      // ints: v <= index(label) + c, v >= index(label) + c (zero: constants)
  std::optional<std::pair<Affine, int64_t>> quotient; // ints: v == affine // k
  Bounds whenTrue, whenFalse;                         // bools
  std::map<double, Bounds> absent;                    // k in 0, -inf, inf: what holds where the element is not k
  std::optional<double> constant;                     // the number, of a constant

  /// A value along a dimension made of several (scores and a sink, N = S + 1) is known part by part.
  struct Part;
  Label joined; // the dimension made of parts; empty without
  std::vector<Part> parts;

  bool number() const { return raw || !comparisons.empty(); }
  Facts renamedBy(const Renaming &table) const;
  bool operator==(const Facts &o) const;
};
struct Facts::Part {
  Label label;
  std::string size; // canonical text
  Facts facts;
  bool operator==(const Part &o) const { return label == o.label && size == o.size && facts == o.facts; }
};

/// Why a function cannot be extended step by step.
struct Refusal {
  mlir::Location where;
  std::string message;
};

class TimeAnalysis {
public:
  /// `function`: its first argument is the text, first dimension the batch, last dimension time.
  /// `scoredOnly`: of several results the one that scores text alone is asked to be causal.
  explicit TimeAnalysis(mlir::func::FuncOp function, bool scoredOnly = false);

  const Facts &facts(mlir::Value value) const;
  llvm::ArrayRef<Refusal> refusals() const { return refused; }
  /// The refusals as lines "place: message", those of one line of the spec once.
  std::string describeRefusals() const;

  /// T and the labels of its twins: dimensions exactly as long as the text.
  const Label &time() const { return timeLabel; }
  /// The run-time symbol that is T's size.
  const std::string &symbol() const { return timeSymbol; }
  bool isTime(ir::DimAttr dim) const { return dim.getSize() == timeSize; }
  bool isTwin(ir::DimAttr dim) const { return isTime(dim) && dim.getName() != timeLabel; }
  llvm::SmallVector<Label> times(mlir::Value value) const;
  llvm::SmallVector<Label> twins(mlir::Value value) const;

private:
  friend class TimeTransfer;
  Label timeLabel;
  std::string timeSymbol;
  ir::Size timeSize;
  llvm::DenseMap<mlir::Value, Facts> known;
  llvm::SmallVector<Refusal> refused;
};

/// The time dimension of a function: the last of its first argument; nothing if there is none of run-time size.
ir::DimAttr timeDimension(mlir::func::FuncOp function);

} // namespace quern::passes
#endif
