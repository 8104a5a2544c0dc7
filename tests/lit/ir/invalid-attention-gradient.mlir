// RUN: quern-opt %s -split-input-file -verify-diagnostics
// Sums of attention's gradient. Each constraint is labelled as in its verifier.

// Two rows for one other.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %u: !quern.tensor<real[S]>, %m: !quern.tensor<bool[T, S]>, %z: !quern.tensor<real[S, L]>) {
  // expected-error @+1 {{attention_gradient_c1}}
  %r = quern.attention_gradient %q, %q with %k over "S" of %v {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>) -> !quern.tensor<real[T, C = 3]>
  return
}

// -----

// The summed dimension is one of the rows.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %u: !quern.tensor<real[S]>, %m: !quern.tensor<bool[T, S]>, %z: !quern.tensor<real[S, L]>) {
  // expected-error @+1 {{attention_gradient_c2}}
  %r = quern.attention_gradient %q with %k over "T" of %v {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>) -> !quern.tensor<real[T, C = 3]>
  return
}

// -----

// No value, and no distance.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %u: !quern.tensor<real[S]>, %m: !quern.tensor<bool[T, S]>, %z: !quern.tensor<real[S, L]>) {
  // expected-error @+1 {{attention_gradient_c3}}
  %r = quern.attention_gradient %q with %k over "S" {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>) -> !quern.tensor<real[T, C = 3]>
  return
}

// -----

// A distance without an offset.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %u: !quern.tensor<real[S]>, %m: !quern.tensor<bool[T, S]>, %z: !quern.tensor<real[S, L]>) {
  // expected-error @+1 {{attention_gradient_c4}}
  %r = "quern.attention_gradient"(%q, %k, %v) <{dim = #quern.label<"S">, distance = [#quern.label<"S">, #quern.label<"T">], operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  }) : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>) -> !quern.tensor<real[T, C = 3]>
  return
}

// -----

// A distance of one dimension.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %u: !quern.tensor<real[S]>, %m: !quern.tensor<bool[T, S]>, %z: !quern.tensor<real[S, L]>) {
  // expected-error @+1 {{attention_gradient_c5}}
  %r = quern.attention_gradient %q with %k over "S" along ["S", "S"] from "T" into <N = "S + T"> {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>) -> !quern.tensor<real[N = "S + T"]>
  return
}

// -----

// An offset that is no size.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %u: !quern.tensor<real[S]>, %m: !quern.tensor<bool[T, S]>, %z: !quern.tensor<real[S, L]>) {
  // expected-error @+1 {{attention_gradient_c5}}
  %r = quern.attention_gradient %q with %k over "S" along ["S", "T"] from "T /" into <N = "S + T"> {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>) -> !quern.tensor<real[N = "S + T"]>
  return
}

// -----

// Two weights for one result.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %u: !quern.tensor<real[S]>, %m: !quern.tensor<bool[T, S]>, %z: !quern.tensor<real[S, L]>) {
  // expected-error @+1 {{attention_gradient_c6}}
  %r = quern.attention_gradient %q with %k over "S" of %v {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x, %x : !quern.tensor<real[T, S]>, !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>) -> !quern.tensor<real[T, C = 3]>
  return
}

// -----

// No argument for the mask.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %u: !quern.tensor<real[S]>, %m: !quern.tensor<bool[T, S]>, %z: !quern.tensor<real[S, L]>) {
  // expected-error @+1 {{attention_gradient_c7}}
  %r = quern.attention_gradient %q with %k over "S" of %v reading %m {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>, !quern.tensor<bool[T, S]>) -> !quern.tensor<real[T, C = 3]>
  return
}

// -----

// A product of other dimensions.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %u: !quern.tensor<real[S]>, %m: !quern.tensor<bool[T, S]>, %z: !quern.tensor<real[S, L]>) {
  // expected-error @+1 {{attention_gradient_c8}}
  %r = quern.attention_gradient %q with %k over "S" of %v {
  ^bb0(%x: !quern.tensor<real[T, S, C = 3]>):
    quern.yield %x : !quern.tensor<real[T, S, C = 3]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>) -> !quern.tensor<real[T, C = 3]>
  return
}

// -----

// A mask of another kind.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %u: !quern.tensor<real[S]>, %m: !quern.tensor<bool[T, S]>, %z: !quern.tensor<real[S, L]>) {
  // expected-error @+1 {{attention_gradient_c9}}
  %r = quern.attention_gradient %q with %k over "S" of %v reading %m {
  ^bb0(%x: !quern.tensor<real[T, S]>, %y: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>, !quern.tensor<bool[T, S]>) -> !quern.tensor<real[T, C = 3]>
  return
}

// -----

// A sum among the weights.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %u: !quern.tensor<real[S]>, %m: !quern.tensor<bool[T, S]>, %z: !quern.tensor<real[S, L]>) {
  // expected-error @+1 {{attention_gradient_c10}}
  %r = quern.attention_gradient %q with %k over "S" of %v {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    %t = quern.reduce sum %x over ["T"] : (!quern.tensor<real[T, S]>) -> !quern.tensor<real[S]>
    %y = quern.add %x, %t : (!quern.tensor<real[T, S]>, !quern.tensor<real[S]>) -> !quern.tensor<real[T, S]>
    quern.yield %y : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>) -> !quern.tensor<real[T, C = 3]>
  return
}

// -----

// Weights of other dimensions.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %u: !quern.tensor<real[S]>, %m: !quern.tensor<bool[T, S]>, %z: !quern.tensor<real[S, L]>) {
  // expected-error @+1 {{attention_gradient_c11}}
  %r:2 = quern.attention_gradient %q with %k over "S" of %v, %v reading %u {
  ^bb0(%x: !quern.tensor<real[T, S]>, %y: !quern.tensor<real[S]>):
    %t = quern.neg %y : (!quern.tensor<real[S]>) -> !quern.tensor<real[S]>
    quern.yield %x, %t : !quern.tensor<real[T, S]>, !quern.tensor<real[S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>, !quern.tensor<real[S, C = 3]>, !quern.tensor<real[S]>) -> (!quern.tensor<real[T, C = 3]>, !quern.tensor<real[C = 3]>)
  return
}

// -----

// A value without a dimension of its own.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %u: !quern.tensor<real[S]>, %m: !quern.tensor<bool[T, S]>, %z: !quern.tensor<real[S, L]>) {
  // expected-error @+1 {{attention_gradient_c12}}
  %r = quern.attention_gradient %q with %k over "S" of %u {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S]>) -> !quern.tensor<real[T]>
  return
}

// -----

// A value whose own dimension only the run knows.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %u: !quern.tensor<real[S]>, %m: !quern.tensor<bool[T, S]>, %z: !quern.tensor<real[S, L]>) {
  // expected-error @+1 {{attention_gradient_c12}}
  %r = quern.attention_gradient %q with %k over "S" of %z {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, L]>) -> !quern.tensor<real[T, L]>
  return
}

// -----

// A result that lost its rows.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %u: !quern.tensor<real[S]>, %m: !quern.tensor<bool[T, S]>, %z: !quern.tensor<real[S, L]>) {
  // expected-error @+1 {{attention_gradient_c13}}
  %r = quern.attention_gradient %q with %k over "S" of %v {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>) -> !quern.tensor<real[C = 3]>
  return
}

// -----

// A distance whose result has another dimension.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %u: !quern.tensor<real[S]>, %m: !quern.tensor<bool[T, S]>, %z: !quern.tensor<real[S, L]>) {
  // expected-error @+1 {{attention_gradient_c13}}
  %r = quern.attention_gradient %q with %k over "S" along ["S", "T"] from "T" into <N = "S + T"> {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>) -> !quern.tensor<real[M = "S + T"]>
  return
}

// -----

// No dimension of the rows.
func.func @f(%q: !quern.tensor<real[K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>) {
  // expected-error @+1 {{attention_gradient_c14}}
  %r = quern.attention_gradient %q with %k over "S" of %v {
  ^bb0(%x: !quern.tensor<real[S]>):
    quern.yield %x : !quern.tensor<real[S]>
  } : (!quern.tensor<real[K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>) -> !quern.tensor<real[C = 3]>
  return
}
