// RUN: quern-opt %s -split-input-file -verify-diagnostics
// Operands of another kind or size, results that do not fit. Each constraint is labelled as in its verifier.

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{unary_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.exp %m : (!quern.tensor<bool[A = 2]>) -> !quern.tensor<real[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{unary_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.neg %m : (!quern.tensor<bool[A = 2]>) -> !quern.tensor<bool[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{binary_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.add %m, %i : (!quern.tensor<bool[A = 2]>, !quern.tensor<int[A = 2]>) -> !quern.tensor<int[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{integer_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.floordiv %x, %i : (!quern.tensor<real[A = 2, B = 3]>, !quern.tensor<int[A = 2]>) -> !quern.tensor<real[A = 2, B = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{integer_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.mod %i, %m : (!quern.tensor<int[A = 2]>, !quern.tensor<bool[A = 2]>) -> !quern.tensor<int[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{logic_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.not %i : (!quern.tensor<int[A = 2]>) -> !quern.tensor<bool[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{logic_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.and %i, %m : (!quern.tensor<int[A = 2]>, !quern.tensor<bool[A = 2]>) -> !quern.tensor<bool[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{compare_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.compare eq %i, %m : (!quern.tensor<int[A = 2]>, !quern.tensor<bool[A = 2]>) -> !quern.tensor<bool[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{compare_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.compare lt %m, %m : (!quern.tensor<bool[A = 2]>, !quern.tensor<bool[A = 2]>) -> !quern.tensor<bool[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{where_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.where %i, %i, %i : (!quern.tensor<int[A = 2]>, !quern.tensor<int[A = 2]>, !quern.tensor<int[A = 2]>) -> !quern.tensor<int[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{where_c2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.where %m, %m, %i : (!quern.tensor<bool[A = 2]>, !quern.tensor<bool[A = 2]>, !quern.tensor<int[A = 2]>) -> !quern.tensor<int[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{elementwise_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.mul %x, %y : (!quern.tensor<real[A = 2, B = 3]>, !quern.tensor<real[A = 5]>) -> !quern.tensor<real[A = 2, B = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{are incompatible with return type}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.add %x, %i : (!quern.tensor<real[A = 2, B = 3]>, !quern.tensor<int[A = 2]>) -> !quern.tensor<int[A = 2, B = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{are incompatible with return type}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.exp %x : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+1 {{const_c1}}
  %r = quern.const 1.0 : f64 -> !quern.tensor<real[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+1 {{const_c2}}
  %r = quern.const 1.0 : f64 -> !quern.tensor<int[]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+1 {{const_c2}}
  %r = quern.const "one" -> !quern.tensor<real[]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+1 {{values_c1}}
  %r = quern.values [1.0, 2.0] : !quern.tensor<real[A = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+1 {{size_c1}}
  %r = quern.size "T /" : !quern.tensor<int[]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+1 {{size_c2}}
  %r = quern.size "T" : !quern.tensor<real[]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+1 {{index_c1}}
  %r = quern.index : !quern.tensor<real[A = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+1 {{index_c1}}
  %r = quern.index : !quern.tensor<int[]>
  return
}

// ---- nothing computes with bf16

// -----

func.func @f(%x: !quern.tensor<real[A = 2]>, %n: !quern.tensor<bf16[A = 2]>, %m: !quern.tensor<bool[A = 2]>) {
  // expected-error @+2 {{binary_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.add %n, %n : (!quern.tensor<bf16[A = 2]>, !quern.tensor<bf16[A = 2]>) -> !quern.tensor<bf16[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2]>, %n: !quern.tensor<bf16[A = 2]>, %m: !quern.tensor<bool[A = 2]>) {
  // expected-error @+2 {{unary_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.exp %n : (!quern.tensor<bf16[A = 2]>) -> !quern.tensor<real[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2]>, %n: !quern.tensor<bf16[A = 2]>, %m: !quern.tensor<bool[A = 2]>) {
  // expected-error @+2 {{cast_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.to_real %n : (!quern.tensor<bf16[A = 2]>) -> !quern.tensor<real[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2]>, %n: !quern.tensor<bf16[A = 2]>, %m: !quern.tensor<bool[A = 2]>) {
  // expected-error @+2 {{compare_c2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.compare lt %n, %n : (!quern.tensor<bf16[A = 2]>, !quern.tensor<bf16[A = 2]>) -> !quern.tensor<bool[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2]>, %n: !quern.tensor<bf16[A = 2]>, %m: !quern.tensor<bool[A = 2]>) {
  // expected-error @+2 {{where_c3}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.where %m, %n, %n : (!quern.tensor<bool[A = 2]>, !quern.tensor<bf16[A = 2]>, !quern.tensor<bf16[A = 2]>) -> !quern.tensor<bf16[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2]>, %n: !quern.tensor<bf16[A = 2]>, %m: !quern.tensor<bool[A = 2]>) {
  // expected-error @+2 {{narrow_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.narrow %n : (!quern.tensor<bf16[A = 2]>) -> !quern.tensor<bf16[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2]>, %n: !quern.tensor<bf16[A = 2]>, %m: !quern.tensor<bool[A = 2]>) {
  // expected-error @+2 {{widen_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.widen %x : (!quern.tensor<real[A = 2]>) -> !quern.tensor<real[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2]>) {
  // expected-error @+1 {{quantize_c1}}
  %r = quern.quantize %x along "A" : (!quern.tensor<real[A = 2]>) -> !quern.tensor<bf16[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[T]>) {
  // expected-error @+1 {{quantize_c2}}
  %r = quern.quantize %x along "T" : (!quern.tensor<real[T]>) -> !quern.tensor<int8[T]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2]>) {
  // expected-error @+1 {{quantize_c3}}
  %r = quern.quantize %x along "A" paired : (!quern.tensor<real[A = 2]>) -> !quern.tensor<q4_k[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2]>) {
  // expected-error @+1 {{alone are paired, not weights}}
  %r = quern.quantize %x along "A" paired {quern.weight} : (!quern.tensor<real[A = 2]>) -> !quern.tensor<int8[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2]>) {
  // expected-error @+2 {{dequantize_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.dequantize %x : (!quern.tensor<real[A = 2]>) -> !quern.tensor<real[A = 2]>
  return
}

// -----

func.func @f(%c: !quern.tensor<int[A = 2]>, %s: !quern.tensor<bf16[A = 2]>) {
  // expected-error @+2 {{rescale_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.rescale %c by %s : (!quern.tensor<int[A = 2]>, !quern.tensor<bf16[A = 2]>) -> !quern.tensor<real[A = 2]>
  return
}

// -----

func.func @f(%c: !quern.tensor<i8[A = 2]>, %s: !quern.tensor<real[A = 2]>) {
  // expected-error @+2 {{rescale_c2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.rescale %c by %s : (!quern.tensor<i8[A = 2]>, !quern.tensor<real[A = 2]>) -> !quern.tensor<real[A = 2]>
  return
}

// -----

func.func @f(%c: !quern.tensor<i8[A = 2]>, %s: !quern.tensor<bf16[B = 3]>) {
  // expected-error @+2 {{rescale_c3}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.rescale %c by %s : (!quern.tensor<i8[A = 2]>, !quern.tensor<bf16[B = 3]>) -> !quern.tensor<real[A = 2, B = 3]>
  return
}
