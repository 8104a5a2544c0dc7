// Element by element: constants, positions, unary and binary operations, comparison, choice.
#ifndef QUERN_IR_ELEMENTWISE
#define QUERN_IR_ELEMENTWISE

include "ir/QuernBase.td"

// An operation without effects whose result type follows from its operands (rules/InferTypes.cpp); the order of the result's
// dimensions may be another than the inferred one.
class Quern_Pure<string mnemonic, list<Trait> traits = []> : Quern_Op<mnemonic, !listconcat([Pure,
    DeclareOpInterfaceMethods<InferTypeOpInterface>], traits)> {
  code compatible = [{
    static bool isCompatibleReturnTypes(::mlir::TypeRange a, ::mlir::TypeRange b) { return ::quern::ir::sameSets(a, b); }
  }];
  let extraClassDeclaration = compatible;
}

def Quern_ConstOp : Quern_Op<"const", [Pure, ConstantLike]> {
  let summary = "a number known when compiling: `quern.const 0.5 : f64 -> type`; kinds: f64, i64, bool";
  let arguments = (ins AnyAttr:$value);
  let results = (outs Quern_TensorType:$result);
  let assemblyFormat = "$value attr-dict `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "double":$value)>, OpBuilder<(ins "int64_t":$value)>, OpBuilder<(ins "bool":$value)>];
}
def Quern_ValuesOp : Quern_Op<"values", [Pure]> {
  let summary = "a list of numbers of the config as a tensor of one dimension";
  let arguments = (ins DenseF64ArrayAttr:$numbers);
  let results = (outs Quern_TensorType:$result);
  let assemblyFormat = "$numbers attr-dict `:` type($result)";
  let hasVerifier = 1;
}
def Quern_SizeOp : Quern_Op<"size", [Pure]> {
  let summary = "a polynomial over run-time lengths as an int without dimensions: `quern.size \"past + T\"`";
  let arguments = (ins StrAttr:$size);
  let results = (outs Quern_TensorType:$result);
  let assemblyFormat = "$size attr-dict `:` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "const ::quern::ir::Size &":$size)>];
  let extraClassDeclaration = "::quern::ir::Size getPolynomial();";
}
def Quern_IndexOp : Quern_Op<"index", [Pure]> {
  let summary = "int [D]: 0, 1, 2 ... along the one dimension of the result";
  let results = (outs Quern_TensorType:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::quern::ir::DimAttr":$dim)>];
  let extraClassDeclaration = "::quern::ir::DimAttr getDim() { return getResult().getType().getDims()[0]; }";
}

class Quern_Unary<string mnemonic, string what> : Quern_Pure<mnemonic> {
  let summary = what;
  let arguments = (ins Quern_TensorType:$x);
  let results = (outs Quern_TensorType:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type($x, $result)";
  let hasFolder = 1;
}
def Quern_NegOp : Quern_Unary<"neg", "-x, of the operand's kind">;
def Quern_AbsOp : Quern_Unary<"abs", "|x|, of the operand's kind">;
def Quern_ExpOp : Quern_Unary<"exp", "e ^ x, real">;
def Quern_Expm1Op : Quern_Unary<"expm1", "e ^ x - 1, real">;
def Quern_LogOp : Quern_Unary<"log", "natural logarithm, real">;
def Quern_Log1pOp : Quern_Unary<"log1p", "log(1 + x), real">;
def Quern_SqrtOp : Quern_Unary<"sqrt", "square root, real">;
def Quern_SinOp : Quern_Unary<"sin", "sine, real">;
def Quern_CosOp : Quern_Unary<"cos", "cosine, real">;
def Quern_TanhOp : Quern_Unary<"tanh", "hyperbolic tangent, real">;
def Quern_SigmoidOp : Quern_Unary<"sigmoid", "1 / (1 + e ^ -x), real">;
def Quern_ErfOp : Quern_Unary<"erf", "error function, real">;
def Quern_FloorOp : Quern_Unary<"floor", "to int, down">;
def Quern_CeilOp : Quern_Unary<"ceil", "to int, up">;
def Quern_RoundOp : Quern_Unary<"round", "to int, halves to even">;
def Quern_ToIntOp : Quern_Unary<"to_int", "to int: cuts towards zero, counts booleans as 0 and 1">;
def Quern_ToRealOp : Quern_Unary<"to_real", "int or bool to real">;
def Quern_NarrowOp : Quern_Unary<"narrow", "real to bf16, to the nearest, halves to even, NaN stays NaN; int to i8, the nearest that it has">;
def Quern_WidenOp : Quern_Unary<"widen", "bf16 or f16 to real, exact">;
def Quern_DequantizeOp : Quern_Unary<"dequantize", "codes to real, exact: each times its group's scale, less its minimum if it has one">;
def Quern_RescaleOp : Quern_Pure<"rescale"> {
  let summary = "i8 to real: each code times its scale; scales have some of the dimensions of the codes, in bf16";
  let arguments = (ins Quern_TensorType:$codes, Quern_TensorType:$scales);
  let results = (outs Quern_TensorType:$result);
  let assemblyFormat = "$codes `by` $scales attr-dict `:` functional-type(operands, $result)";
}
def Quern_NotOp : Quern_Unary<"not", "negation of bool">;

def Quern_QuantizeOp : Quern_Op<"quantize", [Pure]> {
  let summary = "real to codes: groups of numbers along dim, the last may be shorter, become codes with a scale";
  let description = [{
    Groups of 32 in f32, with the scale s rounded to f16 where it is stored. int8: s = max|x| / 127, code = round(x / s), halves away
    from 0. int4: m is the first number of the largest magnitude, s = m / -8, code = floor(x / s + 8.5) - 8, at most 7.
    These are the numbers of Q8_0 and Q4_0 of GGUF. int8_g128: as int8, groups of 128. Of weights it is the loader's work, of rows
    (int8, int8_g128) the kernel's that reads them. Of rows alone, `paired`: s = max(|a| + |b|) / 127 over neighbours a, b (the first
    and second number of a group, the third and fourth ...), so that codes of neighbours are at most 128 together: with bytes that
    have no sign their two products come to at most 255 * 128, which 16 bits hold (vpmaddubsw).

    q4_k, q5_k, q6_k and q8_k are codes in super-blocks of 256 (support/CodedGroups.h). A unit d of scales is the largest scale of a
    super-block / 127, one of minimums the largest minimum / 255, both rounded down to f16; scales and minimums are then
    counted in them, rounded down: so quantising again changes nothing. q4_k, q5_k: minimum m = -min(0, least number),
    s = (max + m) / (2^bits - 1), code = floor((x + m) / s + 0.5), within 0 and 2^bits - 1. q6_k: groups of 16, a is the first
    number of the largest magnitude, s = a / -32, code = floor(x / s + 0.5), at most 31. q8_k: the same
    of groups of 32, s = a / -128, at most 127. q4_1, q5_1 and q4_z are
    quantised as q4_k is, in super-blocks of 32, 32 and 128. Weights alone have them.

    f8_e4m3 and f8_e5m2 are floats of one byte (OCP's), groups of 128 with a scale s in f32: s = max|x| / 448 (57344), rounded to bf16,
    so that code * s is exact; code = x / s to the nearest, halves to the even one, at most 448 (57344). Where all numbers of a group
    are codes times another scale, rounded, as a published file's are, that is the scale. A group with an infinity or NaN is
    NaN. Weights alone have them.
  }];
  let arguments = (ins Quern_TensorType:$x, Quern_Label:$dim, UnitAttr:$paired);
  let results = (outs Quern_TensorType:$result);
  let assemblyFormat = "$x `along` custom<Label>($dim) (`paired` $paired^)? attr-dict `:` functional-type($x, $result)";
  let hasVerifier = 1;
}

class Quern_Binary<string mnemonic, string what, list<Trait> traits = []> : Quern_Pure<mnemonic, traits> {
  let summary = what;
  let arguments = (ins Quern_TensorType:$a, Quern_TensorType:$b);
  let results = (outs Quern_TensorType:$result);
  let assemblyFormat = "$a `,` $b attr-dict `:` functional-type(operands, $result)";
  let hasFolder = 1;
}
def Quern_AddOp : Quern_Binary<"add", "a + b; int of two ints, else real", [Commutative]>;
def Quern_SubOp : Quern_Binary<"sub", "a - b; int of two ints, else real">;
def Quern_MulOp : Quern_Binary<"mul", "a * b; int of two ints, else real", [Commutative]>;
def Quern_DivOp : Quern_Binary<"div", "a / b, always real">;
def Quern_FloorDivOp : Quern_Binary<"floordiv", "a // b of ints, rounded down">;
def Quern_ModOp : Quern_Binary<"mod", "a % b of ints, with b's sign">;
def Quern_PowOp : Quern_Binary<"pow", "a ^ b, always real">;
def Quern_MaxOp : Quern_Binary<"max", "the larger; int of two ints, else real", [Commutative]>;
def Quern_MinOp : Quern_Binary<"min", "the smaller; int of two ints, else real", [Commutative]>;
def Quern_AndOp : Quern_Binary<"and", "of bools", [Commutative]>;
def Quern_OrOp : Quern_Binary<"or", "of bools", [Commutative]>;

def Quern_Predicate : I32EnumAttr<"Predicate", "comparison", [
  I32EnumAttrCase<"lt", 0>, I32EnumAttrCase<"le", 1>, I32EnumAttrCase<"gt", 2>, I32EnumAttrCase<"ge", 3>,
  I32EnumAttrCase<"eq", 4>, I32EnumAttrCase<"ne", 5>]> { let cppNamespace = "::quern::ir"; }
def Quern_CompareOp : Quern_Pure<"compare"> {
  let summary = "a < b and so on, bool; of numbers, or == and != of bools";
  let arguments = (ins Quern_Predicate:$predicate, Quern_TensorType:$a, Quern_TensorType:$b);
  let results = (outs Quern_TensorType:$result);
  let assemblyFormat = "$predicate $a `,` $b attr-dict `:` functional-type(operands, $result)";
  let hasFolder = 1;
}
def Quern_WhereOp : Quern_Pure<"where"> {
  let summary = "a where the condition holds, else b; nothing of the side not chosen is taken, NaN included";
  let arguments = (ins Quern_TensorType:$condition, Quern_TensorType:$a, Quern_TensorType:$b);
  let results = (outs Quern_TensorType:$result);
  let assemblyFormat = "$condition `,` $a `,` $b attr-dict `:` functional-type(operands, $result)";
  let hasFolder = 1;
}
#endif
