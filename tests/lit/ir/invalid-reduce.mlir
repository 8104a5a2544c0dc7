// RUN: quern-opt %s -split-input-file -verify-diagnostics
// Dimensions that are not there, kinds that cannot be combined. Each constraint is labelled as in its verifier.

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{reduce_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.reduce sum %x over ["C"] : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[A = 2, B = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{reduce_c2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.reduce sum %m over ["A"] : (!quern.tensor<bool[A = 2]>) -> !quern.tensor<bool[]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{reduce_c2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.reduce any %i over ["A"] : (!quern.tensor<int[A = 2]>) -> !quern.tensor<int[]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{contract_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.contract %x, %i over ["C"] : (!quern.tensor<real[A = 2, B = 3]>, !quern.tensor<int[A = 2]>) -> !quern.tensor<real[A = 2, B = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{contract_c2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.contract %x, %m over ["A"] : (!quern.tensor<real[A = 2, B = 3]>, !quern.tensor<bool[A = 2]>) -> !quern.tensor<real[A = 2, B = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{contract_c3}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.contract %x, %y over ["A"] : (!quern.tensor<real[A = 2, B = 3]>, !quern.tensor<real[A = 5]>) -> !quern.tensor<real[A = 2, B = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{softmax_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.softmax %x over ["C"] : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[A = 2, B = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{softmax_c2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.softmax %m over ["A"] : (!quern.tensor<bool[A = 2]>) -> !quern.tensor<real[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{cumsum_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.cumsum %x along "C" : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[A = 2, B = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{cumsum_c2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.cumsum %m along "A" : (!quern.tensor<bool[A = 2]>) -> !quern.tensor<bool[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{cumsum_c3}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.cumsum %x along "A" reverse state @s : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[A = 2, B = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{scatter_add_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.scatter_add %i at %i over ["A"] into <V = 5> : (!quern.tensor<int[A = 2]>, !quern.tensor<int[A = 2]>) -> !quern.tensor<real[V = 5]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{scatter_add_c2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.scatter_add %y at %i over ["A"] into <V = 5> : (!quern.tensor<real[A = 5]>, !quern.tensor<int[A = 2]>) -> !quern.tensor<real[V = 5]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{scatter_add_c3}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.scatter_add %x at %i over ["C"] into <V = 5> : (!quern.tensor<real[A = 2, B = 3]>, !quern.tensor<int[A = 2]>) -> !quern.tensor<real[V = 5, A = 2, B = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{scatter_add_c4}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.scatter_add %x at %i over ["A"] into <B = 5> : (!quern.tensor<real[A = 2, B = 3]>, !quern.tensor<int[A = 2]>) -> !quern.tensor<real[B = 5]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{argmax_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.argmax %x along "C" : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<int[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{argmax_c2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.argmax %m along "A" : (!quern.tensor<bool[A = 2]>) -> !quern.tensor<int[]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{top_k_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %v, %p = quern.top_k %x along "C" into <K = 1> : (!quern.tensor<real[A = 2, B = 3]>) -> (!quern.tensor<real[A = 2, K = 1]>, !quern.tensor<int[A = 2, K = 1]>)
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{top_k_c2}}
  // expected-error @+1 {{failed to infer returned types}}
  %v, %p = quern.top_k %m along "A" into <K = 1> : (!quern.tensor<bool[A = 2]>) -> (!quern.tensor<bool[K = 1]>, !quern.tensor<int[K = 1]>)
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{top_k_c3}}
  // expected-error @+1 {{failed to infer returned types}}
  %v, %p = quern.top_k %x along "B" into <K = 4> : (!quern.tensor<real[A = 2, B = 3]>) -> (!quern.tensor<real[A = 2, K = 4]>, !quern.tensor<int[A = 2, K = 4]>)
  return
}

// -----

func.func @f(%n: !quern.tensor<bf16[A = 2]>) {
  // expected-error @+2 {{reduce_c3}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.reduce sum %n over ["A"] : (!quern.tensor<bf16[A = 2]>) -> !quern.tensor<bf16[]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2]>, %n: !quern.tensor<bf16[A = 2]>) {
  // expected-error @+2 {{contract_c2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.contract %x, %n over ["A"] : (!quern.tensor<real[A = 2]>, !quern.tensor<bf16[A = 2]>) -> !quern.tensor<real[]>
  return
}
