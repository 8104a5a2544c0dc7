// What every operation of the dialect says of itself: what it computes, what it costs, how it treats time.
#ifndef QUERN_IR_INTERFACES
#define QUERN_IR_INTERFACES

include "mlir/IR/OpBase.td"

def Quern_ReferenceOpInterface : OpInterface<"ReferenceOpInterface"> {
  let cppNamespace = "::quern::ir";
  let description = [{
    The meaning of an operation, in double precision: the judge of every pass and every kernel. The implementations are
    in ir/Evaluate*.cpp.
  }];
  let methods = [InterfaceMethod<
    "Appends one array for each result, in the order of storage of its type. Failure after an error at the operation.",
    "::llvm::LogicalResult", "evaluate", (ins "::llvm::ArrayRef<::quern::ir::Array>":$operands,
      "::quern::ir::Interpreter &":$interpreter, "::std::vector<::quern::ir::Array> &":$results)>];
}

def Quern_CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::quern::ir";
  let description = [{
    Cost of one execution as polynomials over run-time lengths (ir/rules/Cost.cpp). An operation alone: fusion saves bytes,
    which a `quern.kernel` knows. A loop costs its body times its iterations, a launch what its kernel does. What that takes on
    a machine says ir/analysis/Price.h.
  }];
  let methods = [
    InterfaceMethod<"Arithmetic operations; a transcendental function counts as eight.",
      "::quern::ir::Size", "getFlops">,
    InterfaceMethod<"Bytes read and written; 0 for what only renames.", "::quern::ir::Size", "getBytes">,
    InterfaceMethod<"How long a processor computes, in additions: other than arithmetic, divisions and what goes from one number to the next are slow.",
      "::quern::ir::Size", "getWork">];
}

def Quern_TimeOpInterface : OpInterface<"TimeOpInterface"> {
  let cppNamespace = "::quern::ir";
  let description = [{
    What the analysis of time needs to know (ir/rules/TimeBehavior.cpp): dimensions that an operation does not touch pass
    through it position by position.
  }];
  let methods = [
    InterfaceMethod<"The rule that holds for the operation.", "::quern::ir::TimeBehavior", "getTimeBehavior">,
    InterfaceMethod<"Names of the operands' dimensions that the operation reduces, renames, scans, gathers or reshapes.",
      "::llvm::SmallVector<::llvm::StringRef>", "getTouchedDims">];
}
#endif
