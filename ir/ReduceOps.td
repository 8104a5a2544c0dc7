// What combines the positions of a dimension.
#ifndef QUERN_IR_REDUCE
#define QUERN_IR_REDUCE

include "ir/ElementwiseOps.td"

def Quern_Reduction : I32EnumAttr<"Reduction", "how positions are combined", [
  I32EnumAttrCase<"sum", 0>, I32EnumAttrCase<"mean", 1>, I32EnumAttrCase<"max", 2>, I32EnumAttrCase<"min", 3>,
  I32EnumAttrCase<"any", 4>, I32EnumAttrCase<"all", 5>]> { let cppNamespace = "::quern::ir"; }

def Quern_ReduceOp : Quern_Pure<"reduce"> {
  let summary = "sum, mean, max, min of numbers, any and all of bools, over the dimensions named";
  let description = "`quern.reduce sum %x over [\"D\"]`. mean is real, the others keep the kind.";
  let arguments = (ins Quern_Reduction:$reduction, Quern_TensorType:$x, Quern_Labels:$dims);
  let results = (outs Quern_TensorType:$result);
  let assemblyFormat = "$reduction $x `over` custom<Labels>($dims) attr-dict `:` functional-type($x, $result)";
}
def Quern_ContractOp : Quern_Pure<"contract"> {
  let summary = "sum over dims of a * b, real; the product is never formed";
  let arguments = (ins Quern_TensorType:$a, Quern_TensorType:$b, Quern_Labels:$dims);
  let results = (outs Quern_TensorType:$result);
  let assemblyFormat = "$a `,` $b `over` custom<Labels>($dims) attr-dict `:` functional-type(operands, $result)";
}
def Quern_SoftmaxOp : Quern_Pure<"softmax"> {
  let summary = "softmax over one or several dimensions; a row of only -inf gives zeros";
  let arguments = (ins Quern_TensorType:$x, Quern_Labels:$dims);
  let results = (outs Quern_TensorType:$result);
  let assemblyFormat = "$x `over` custom<Labels>($dims) attr-dict `:` functional-type($x, $result)";
}
def Quern_CumsumOp : Quern_Pure<"cumsum"> {
  let summary = "running sum along dim, inclusive";
  let description = [{
    With `state`, the symbol of a `quern.state`: the sum goes on from the state of this iteration, whose new value is the
    last column (linear attention's memory). `reverse`: from the last position to the first (the gradient's direction).
  }];
  let arguments = (ins Quern_TensorType:$x, Quern_Label:$dim, OptionalAttr<FlatSymbolRefAttr>:$state, UnitAttr:$reverse);
  let results = (outs Quern_TensorType:$result);
  let assemblyFormat = "$x `along` custom<Label>($dim) (`reverse` $reverse^)? (`state` $state^)? attr-dict `:` functional-type($x, $result)";
}
def Quern_ScatterAddOp : Quern_Pure<"scatter_add"> {
  let summary = "the gradient of gather: x added up at `positions` of the new dimension `into`, over the dimensions named";
  let description = [{
    result[.., into = p] = sum over `dims` of x where positions = p, real. Dimensions that x and `positions` both have go
    together; x is repeated along those that only `positions` has. What meets at one position is added in the order of
    x's dimensions in storage, so a result is the same bit for bit in every run.
  }];
  let arguments = (ins Quern_TensorType:$x, Quern_TensorType:$positions, Quern_Labels:$dims, Quern_DimAttr:$into);
  let results = (outs Quern_TensorType:$result);
  let assemblyFormat = "$x `at` $positions `over` custom<Labels>($dims) `into` $into attr-dict `:` functional-type(operands, $result)";
}
def Quern_ArgmaxOp : Quern_Pure<"argmax"> {
  let summary = "position of the largest along dim, the first of equals; int";
  let arguments = (ins Quern_TensorType:$x, Quern_Label:$dim);
  let results = (outs Quern_TensorType:$result);
  let assemblyFormat = "$x `along` custom<Label>($dim) attr-dict `:` functional-type($x, $result)";
}
def Quern_TopKOp : Quern_Pure<"top_k"> {
  let summary = "the largest along `from` in order, as the new dimension `into`, and their positions; of equals the first";
  let arguments = (ins Quern_TensorType:$x, Quern_Label:$from, Quern_DimAttr:$into);
  let results = (outs Quern_TensorType:$values, Quern_TensorType:$positions);
  let assemblyFormat = "$x `along` custom<Label>($from) `into` $into attr-dict `:` functional-type($x, results)";
}
#endif
