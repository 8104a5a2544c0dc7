// RUN: quern-opt %s -split-input-file -verify-diagnostics
// Attention. Each constraint is labelled as in its verifier.

// More queries than keys.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %m: !quern.tensor<bool[T, S]>, %s: !quern.tensor<real[A, U = 1]>, %w: !quern.tensor<real[T, S]>) {
  // expected-error @+1 {{attention_c1}}
  %r = quern.attention %q, %q with %k over "S" of %v {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>) -> !quern.tensor<real[T, C = 3]>
  return
}

// -----

// Queries have the dimension of the keys.
func.func @f(%q: !quern.tensor<real[T, S, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %m: !quern.tensor<bool[T, S]>, %s: !quern.tensor<real[A, U = 1]>, %w: !quern.tensor<real[T, S]>) {
  // expected-error @+1 {{attention_c2}}
  %r = quern.attention %q with %k over "S" of %v {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, S, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>) -> !quern.tensor<real[T, C = 3]>
  return
}

// -----

// Values of another length.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S = 7, C = 3]>, %m: !quern.tensor<bool[T, S]>, %s: !quern.tensor<real[A, U = 1]>, %w: !quern.tensor<real[T, S]>) {
  // expected-error @+1 {{attention_c2}}
  %r = quern.attention %q with %k over "S" of %v {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S = 7, C = 3]>) -> !quern.tensor<real[T, C = 3]>
  return
}

// -----

// A sink without its part.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %m: !quern.tensor<bool[T, S]>, %s: !quern.tensor<real[A, U = 1]>, %w: !quern.tensor<real[T, S]>) {
  // expected-error @+1 {{attention_c3}}
  %r = quern.attention %q with %k over "S" of %v sinks %s [] {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>, !quern.tensor<real[A, U = 1]>) -> !quern.tensor<real[T, C = 3]>
  return
}

// -----

// A sink whose part is of no fixed size.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %m: !quern.tensor<bool[T, S]>, %s: !quern.tensor<real[A, U = 1]>, %w: !quern.tensor<real[T, S]>) {
  // expected-error @+1 {{attention_c4}}
  %r = quern.attention %q with %k over "S" of %v sinks %s ["A"] {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>, !quern.tensor<real[A, U = 1]>) -> !quern.tensor<real[T, C = 3]>
  return
}

// -----

func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %m: !quern.tensor<bool[T, S]>, %s: !quern.tensor<real[A, U = 1]>, %w: !quern.tensor<real[T, S]>) {
  // expected-error @+1 {{attention_c5}}
  %r:2 = quern.attention %q with %k over "S" of %v {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>) -> (!quern.tensor<real[T, C = 3]>, !quern.tensor<real[T]>)
  return
}

// -----

// Two scores.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %m: !quern.tensor<bool[T, S]>, %s: !quern.tensor<real[A, U = 1]>, %w: !quern.tensor<real[T, S]>) {
  // expected-error @+1 {{attention_c6}}
  %r = quern.attention %q with %k over "S" of %v {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x, %x : !quern.tensor<real[T, S]>, !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>) -> !quern.tensor<real[T, C = 3]>
  return
}

// -----

// No argument for the mask.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %m: !quern.tensor<bool[T, S]>, %s: !quern.tensor<real[A, U = 1]>, %w: !quern.tensor<real[T, S]>) {
  // expected-error @+1 {{attention_c7}}
  %r = quern.attention %q with %k over "S" of %v reading %m {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>, !quern.tensor<bool[T, S]>) -> !quern.tensor<real[T, C = 3]>
  return
}

// -----

// A product that lost a dimension.
func.func @f(%q: !quern.tensor<real[B, T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %m: !quern.tensor<bool[T, S]>, %s: !quern.tensor<real[A, U = 1]>, %w: !quern.tensor<real[T, S]>) {
  // expected-error @+1 {{attention_c8}}
  %r = quern.attention %q with %k over "S" of %v {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[B, T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>) -> !quern.tensor<real[T, C = 3]>
  return
}

// -----

// A product over a length that only the run knows.
func.func @f(%q: !quern.tensor<real[T, L]>, %k: !quern.tensor<real[S, L]>, %v: !quern.tensor<real[S, C = 3]>, %m: !quern.tensor<bool[T, S]>, %s: !quern.tensor<real[A, U = 1]>, %w: !quern.tensor<real[T, S]>) {
  // expected-error @+1 {{attention_c8}}
  %r = quern.attention %q with %k over "S" of %v {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, L]>, !quern.tensor<real[S, L]>, !quern.tensor<real[S, C = 3]>) -> !quern.tensor<real[T, C = 3]>
  return
}

// -----

// Another kind than that of the input.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %m: !quern.tensor<bool[T, S]>, %s: !quern.tensor<real[A, U = 1]>, %w: !quern.tensor<real[T, S]>) {
  // expected-error @+1 {{attention_c9}}
  %r = quern.attention %q with %k over "S" of %v reading %m {
  ^bb0(%x: !quern.tensor<real[T, S]>, %y: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>, !quern.tensor<bool[T, S]>) -> !quern.tensor<real[T, C = 3]>
  return
}

// -----

// A score that looks at the others.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %m: !quern.tensor<bool[T, S]>, %s: !quern.tensor<real[A, U = 1]>, %w: !quern.tensor<real[T, S]>) {
  // expected-error @+1 {{attention_c10}}
  %r = quern.attention %q with %k over "S" of %v {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    %y = quern.softmax %x over ["S"] : (!quern.tensor<real[T, S]>) -> !quern.tensor<real[T, S]>
    quern.yield %y : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>) -> !quern.tensor<real[T, C = 3]>
  return
}

// -----

// The score is a bool.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %m: !quern.tensor<bool[T, S]>, %s: !quern.tensor<real[A, U = 1]>, %w: !quern.tensor<real[T, S]>) {
  // expected-error @+1 {{attention_c11}}
  %r = quern.attention %q with %k over "S" of %v {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    %y = quern.compare lt %x, %x : (!quern.tensor<real[T, S]>, !quern.tensor<real[T, S]>) -> !quern.tensor<bool[T, S]>
    quern.yield %y : !quern.tensor<bool[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>) -> !quern.tensor<real[T, C = 3]>
  return
}

// -----

// A sink of rows that are none.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %m: !quern.tensor<bool[T, S]>, %s: !quern.tensor<real[A, U = 1]>, %w: !quern.tensor<real[T, S]>) {
  // expected-error @+1 {{attention_c12}}
  %r = quern.attention %q with %k over "S" of %v sinks %s ["U"] {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>, !quern.tensor<real[A, U = 1]>) -> !quern.tensor<real[T, C = 3]>
  return
}

// -----

func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %m: !quern.tensor<bool[T, S]>, %s: !quern.tensor<real[A, U = 1]>, %w: !quern.tensor<real[T, S]>) {
  // expected-error @+1 {{attention_c13}}
  %r = quern.attention %q with %k over "S" of %v {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>) -> !quern.tensor<real[T, S, C = 3]>
  return
}

// -----

// Statistics are of rows.
func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %m: !quern.tensor<bool[T, S]>, %s: !quern.tensor<real[A, U = 1]>, %w: !quern.tensor<real[T, S]>) {
  // expected-error @+1 {{attention_c13}}
  %r:3 = quern.attention %q with %k over "S" of %v {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>) -> (!quern.tensor<real[T, C = 3]>, !quern.tensor<real[T]>, !quern.tensor<real[S]>)
  return
}

// -----

func.func @f(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>) {
  // expected-error @+1 {{attention_c14}}
  %r:3 = quern.attention %q with %k over "S" of %v narrow {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>) -> (!quern.tensor<real[T, C = 3]>, !quern.tensor<real[T]>, !quern.tensor<real[T]>)
  return
}
