// How the elaborator writes down what a spec computes. The base class writes nothing: that is checking.
#ifndef QUERN_FRONTEND_CHECK_BUILDER_H
#define QUERN_FRONTEND_CHECK_BUILDER_H

#include "frontend/check/Value.h"
#include "support/numbers/RealFunctions.h"

namespace quern::frontend {

enum class UnaryOp {
  Neg,
  Not,
// clang-format off
#define QUERN_REAL_FUNCTION(NAME, WORD, VALUE) NAME,
  QUERN_REAL_FUNCTIONS(QUERN_REAL_FUNCTION)
#undef QUERN_REAL_FUNCTION
  // clang-format on
  Abs,
  Floor,
  Ceil,
  Round,
  ToInt,
  ToReal
};
enum class BinaryOp {
  Add,
  Sub,
  Mul,
  Div,
  FloorDiv,
  Mod,
  Pow,
  Max,
  Min,
  And,
  Or,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
  Equal,
  NotEqual
};
enum class Reduction { Sum, Mean, Max, Min, Any, All };

struct FunctionInfo {
  std::vector<std::string> results; // their names
  struct Input {
    std::string name;
    Kind kind;
    DimRefs dims;
    bool optional;
    Span at;
  };
  std::vector<Input> inputs;
  std::string batch, time; // labels; empty: none
};

struct ParamInfo {
  std::vector<std::string> names; // with {LABEL} where one tensor is stored for each position
  DimRefs stacked, stored;
  std::string init; // empty: the default
  double scale = 0;
  bool ifAbsent = false; // it is that where the checkpoint has none of the names
};

/// Dimensions of results follow from the operands'; handles are opaque to the elaborator.
class Builder {
public:
  virtual ~Builder() = default;

  /// What is built from now on stems from here. Calls nest.
  virtual void place(Span) {}
  virtual void enterCall(Span) {}
  virtual void leaveCall() {}
  /// A statement gives `value` this name.
  virtual void named(const std::string & /*name*/, const Tensor & /*value*/, Span /*at*/) {}

  /// The inputs come later: their dimensions are known only after the model's own statements, which build too.
  virtual void beginFunction(const std::string & /*name*/) {}
  virtual std::vector<Handle> inputs(const FunctionInfo &info) { return std::vector<Handle>(info.inputs.size()); }
  /// Results are stored in the order of their dimensions here.
  virtual void endFunction(const std::vector<Tensor> & /*results*/) {}
  /// One iteration of a loop; the handles given back stand for the carried values inside, and afterwards.
  virtual std::vector<Handle> beginIteration(const std::vector<Tensor> &carried) {
    return std::vector<Handle>(carried.size());
  }
  virtual std::vector<Handle> endIteration(const std::vector<Tensor> &carried) {
    return std::vector<Handle>(carried.size());
  }
  virtual void abandonIteration() {}
  /// A scan over `dim`: what is built from now on is its body. The handles stand for the carried values inside.
  virtual std::vector<Handle> beginScan(DimRef, bool /*fromEnd*/, const std::vector<Tensor> &carried) {
    return std::vector<Handle>(carried.size());
  }
  /// A value from outside at the current position of the innermost scan.
  virtual Handle slice(Handle) { return nullptr; }
  /// The current position of a dimension that is being scanned.
  virtual Handle scanPosition(DimRef) { return nullptr; }
  /// `carried`: as they leave, in the order of beginScan; nothing where no statement has assigned it. `made`: what is
  /// stacked. The handles given back: of the carried values afterwards, then of the stacks.
  virtual std::vector<Handle> endScan(const std::vector<std::optional<Tensor>> &carried,
                                      const std::vector<Tensor> &made) {
    return std::vector<Handle>(carried.size() + made.size());
  }
  virtual void abandonScan() {}
  /// What is built between the two stands before the outermost scan: parameters, which are the same at each position.
  virtual void leaveScans() {}
  virtual void returnToScans() {}

  virtual Handle constant(double) { return nullptr; }
  virtual Handle constant(int64_t) { return nullptr; }
  virtual Handle constant(bool) { return nullptr; }
  virtual Handle values(DimRef, const std::vector<double> &) { return nullptr; }
  virtual Handle size(const ir::Size &) { return nullptr; }
  virtual Handle index(DimRef) { return nullptr; }
  virtual Handle param(const ParamInfo &) { return nullptr; }

  virtual Handle unary(UnaryOp, Handle) { return nullptr; }
  virtual Handle binary(BinaryOp, Handle, Handle) { return nullptr; }
  virtual Handle where(Handle, Handle, Handle) { return nullptr; }

  virtual Handle reduce(Reduction, Handle, const DimRefs &) { return nullptr; }
  virtual Handle contract(Handle, Handle, const DimRefs &) { return nullptr; }
  virtual Handle softmax(Handle, const DimRefs &) { return nullptr; }
  virtual Handle cumsum(Handle, DimRef) { return nullptr; }
  virtual Handle argmax(Handle, DimRef) { return nullptr; }
  virtual std::pair<Handle, Handle> topK(Handle, DimRef, DimRef) { return {}; }

  virtual Handle rename(Handle, const std::vector<std::pair<DimRef, DimRef>> &) { return nullptr; }
  virtual Handle split(Handle, DimRef, const DimRefs &) { return nullptr; }
  virtual Handle merge(Handle, const DimRefs &, DimRef) { return nullptr; }
  virtual Handle cut(Handle, DimRef, const ir::Size &, DimRef) { return nullptr; }
  virtual Handle concat(const std::vector<Handle> &, const DimRefs &, DimRef) { return nullptr; }
  virtual Handle unit(Handle, DimRef) { return nullptr; }
  virtual Handle squeeze(Handle, DimRef) { return nullptr; }
  virtual Handle gather(Handle, Handle, DimRef) { return nullptr; }
  virtual Handle expand(Handle, const DimRefs &) { return nullptr; }
};

} // namespace quern::frontend
#endif
