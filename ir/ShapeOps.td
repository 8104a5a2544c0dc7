// What changes dimensions and never a number.
#ifndef QUERN_IR_SHAPE
#define QUERN_IR_SHAPE

include "ir/ElementwiseOps.td"

class Quern_Shape<string mnemonic, string what> : Quern_Pure<mnemonic> {
  let summary = what;
  let results = (outs Quern_TensorType:$result);
}
def Quern_RenameOp : Quern_Shape<"rename", "dimensions get new names (all at once, so names may be swapped); sizes stay"> {
  let arguments = (ins Quern_TensorType:$x, Quern_Labels:$from, Quern_DimArrayAttr:$to);
  let assemblyFormat = "$x custom<Labels>($from) `to` $to attr-dict `:` functional-type($x, $result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}
def Quern_SplitOp : Quern_Shape<"split", "one dimension becomes several, the first outermost"> {
  let arguments = (ins Quern_TensorType:$x, Quern_Label:$dim, Quern_DimArrayAttr:$into);
  let assemblyFormat = "$x custom<Label>($dim) `into` $into attr-dict `:` functional-type($x, $result)";
}
def Quern_MergeOp : Quern_Shape<"merge", "several dimensions become one, the first outermost; it stands where the first was"> {
  let arguments = (ins Quern_TensorType:$x, Quern_Labels:$dims, Quern_DimAttr:$into);
  let assemblyFormat = "$x custom<Labels>($dims) `into` $into attr-dict `:` functional-type($x, $result)";
}
def Quern_CutOp : Quern_Shape<"cut", "positions offset, offset + 1 ... of a dimension, as many as the new one has"> {
  let arguments = (ins Quern_TensorType:$x, Quern_Label:$dim, StrAttr:$offset, Quern_DimAttr:$into);
  let assemblyFormat = "$x custom<Label>($dim) `at` $offset `into` $into attr-dict `:` functional-type($x, $result)";
  let extraClassDeclaration = compatible # "::quern::ir::Size getOffsetSize();";
}
def Quern_ConcatOp : Quern_Shape<"concat", "one after the other along `parts` (a name for each operand); other dimensions align by name, a lacking one is repeated"> {
  let arguments = (ins Variadic<Quern_TensorType>:$inputs, Quern_Labels:$parts, Quern_DimAttr:$into);
  let assemblyFormat = "$inputs custom<Labels>($parts) `into` $into attr-dict `:` functional-type($inputs, $result)";
}
def Quern_UnitOp : Quern_Shape<"unit", "a new dimension of size 1, innermost"> {
  let arguments = (ins Quern_TensorType:$x, Quern_DimAttr:$into);
  let assemblyFormat = "$x `into` $into attr-dict `:` functional-type($x, $result)";
}
def Quern_SqueezeOp : Quern_Shape<"squeeze", "a dimension of size 1 disappears"> {
  let arguments = (ins Quern_TensorType:$x, Quern_Label:$dim);
  let assemblyFormat = "$x custom<Label>($dim) attr-dict `:` functional-type($x, $result)";
}
def Quern_GatherOp : Quern_Shape<"gather", "x without dim, at `positions`; dimensions that both have go together"> {
  let arguments = (ins Quern_TensorType:$x, Quern_TensorType:$positions, Quern_Label:$dim);
  let assemblyFormat = "$x `[` custom<Label>($dim) `=` $positions `]` attr-dict `:` functional-type(operands, $result)";
}
def Quern_ExpandOp : Quern_Op<"expand", [Pure]> {
  let summary = "repeated along the dimensions of the result that x lacks";
  let arguments = (ins Quern_TensorType:$x);
  let results = (outs Quern_TensorType:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, $result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}
def Quern_PermuteOp : Quern_Op<"permute", [Pure]> {
  let summary = "the same tensor in another order of storage";
  let arguments = (ins Quern_TensorType:$x);
  let results = (outs Quern_TensorType:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, $result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}
#endif
