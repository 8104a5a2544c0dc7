// RUN: quern-opt %s -split-input-file -verify-diagnostics
// Recurrences. Each constraint is labelled as in its verifier.

// An input with the dimension.
func.func @f(%h: !quern.tensor<real[E = 4]>, %x: !quern.tensor<real[T, E = 4]>, %w: !quern.tensor<real[E = 4]>, %z: !quern.tensor<real[S, E = 4]>) {
  // expected-error @+1 {{scan_c2}}
  %r = quern.scan <T> carry %h over %x reading %x {
  ^bb0(%a: !quern.tensor<real[E = 4]>, %b: !quern.tensor<real[E = 4]>, %c: !quern.tensor<real[T, E = 4]>):
    %n = quern.add %a, %b : (!quern.tensor<real[E = 4]>, !quern.tensor<real[E = 4]>) -> !quern.tensor<real[E = 4]>
    quern.yield %n : !quern.tensor<real[E = 4]>
  } : (!quern.tensor<real[E = 4]>, !quern.tensor<real[T, E = 4]>, !quern.tensor<real[T, E = 4]>) -> !quern.tensor<real[E = 4]>
  return
}

// -----

// A slice of another dimension.
func.func @f(%h: !quern.tensor<real[E = 4]>, %x: !quern.tensor<real[T, E = 4]>, %w: !quern.tensor<real[E = 4]>, %z: !quern.tensor<real[S, E = 4]>) {
  // expected-error @+1 {{scan_c3}}
  %r = quern.scan <T> carry %h over %z {
  ^bb0(%a: !quern.tensor<real[E = 4]>, %b: !quern.tensor<real[E = 4]>):
    %n = quern.add %a, %b : (!quern.tensor<real[E = 4]>, !quern.tensor<real[E = 4]>) -> !quern.tensor<real[E = 4]>
    quern.yield %n : !quern.tensor<real[E = 4]>
  } : (!quern.tensor<real[E = 4]>, !quern.tensor<real[S, E = 4]>) -> !quern.tensor<real[E = 4]>
  return
}

// -----

// A carried value that changes.
func.func @f(%h: !quern.tensor<real[E = 4]>, %x: !quern.tensor<real[T, E = 4]>, %w: !quern.tensor<real[E = 4]>, %z: !quern.tensor<real[S, E = 4]>) {
  // expected-error @+1 {{scan_c4}}
  %r = quern.scan <T> carry %h over %x {
  ^bb0(%a: !quern.tensor<real[E = 4]>, %b: !quern.tensor<real[E = 4]>):
    %n = quern.add %a, %b : (!quern.tensor<real[E = 4]>, !quern.tensor<real[E = 4]>) -> !quern.tensor<real[E = 4]>
    quern.yield %n : !quern.tensor<real[E = 4]>
  } : (!quern.tensor<real[E = 4]>, !quern.tensor<real[T, E = 4]>) -> !quern.tensor<real[F = 4]>
  return
}

// -----

// A state for each carried value, running forwards.
func.func @f(%h: !quern.tensor<real[E = 4]>, %x: !quern.tensor<real[T, E = 4]>, %w: !quern.tensor<real[E = 4]>, %z: !quern.tensor<real[S, E = 4]>) {
  // expected-error @+1 {{scan_c5}}
  %r = quern.scan <T> reversed carry %h over %x states [@s] {
  ^bb0(%a: !quern.tensor<real[E = 4]>, %b: !quern.tensor<real[E = 4]>):
    %n = quern.add %a, %b : (!quern.tensor<real[E = 4]>, !quern.tensor<real[E = 4]>) -> !quern.tensor<real[E = 4]>
    quern.yield %n : !quern.tensor<real[E = 4]>
  } : (!quern.tensor<real[E = 4]>, !quern.tensor<real[T, E = 4]>) -> !quern.tensor<real[E = 4]>
  return
}

// -----

// More yielded than there are results.
func.func @f(%h: !quern.tensor<real[E = 4]>, %x: !quern.tensor<real[T, E = 4]>, %w: !quern.tensor<real[E = 4]>, %z: !quern.tensor<real[S, E = 4]>) {
  // expected-error @+1 {{scan_c6}}
  %r = quern.scan <T> carry %h over %x {
  ^bb0(%a: !quern.tensor<real[E = 4]>, %b: !quern.tensor<real[E = 4]>):
    %n = quern.add %a, %b : (!quern.tensor<real[E = 4]>, !quern.tensor<real[E = 4]>) -> !quern.tensor<real[E = 4]>
    quern.yield %n, %n : !quern.tensor<real[E = 4]>, !quern.tensor<real[E = 4]>
  } : (!quern.tensor<real[E = 4]>, !quern.tensor<real[T, E = 4]>) -> !quern.tensor<real[E = 4]>
  return
}

// -----

// A slice that keeps the dimension inside.
func.func @f(%h: !quern.tensor<real[E = 4]>, %x: !quern.tensor<real[T, E = 4]>, %w: !quern.tensor<real[E = 4]>, %z: !quern.tensor<real[S, E = 4]>) {
  // expected-error @+1 {{scan_c7}}
  %r = quern.scan <T> carry %h over %x {
  ^bb0(%a: !quern.tensor<real[E = 4]>, %b: !quern.tensor<real[T, E = 4]>):
    quern.yield %a : !quern.tensor<real[E = 4]>
  } : (!quern.tensor<real[E = 4]>, !quern.tensor<real[T, E = 4]>) -> !quern.tensor<real[E = 4]>
  return
}

// -----

// A result that is not stacked.
func.func @f(%h: !quern.tensor<real[E = 4]>, %x: !quern.tensor<real[T, E = 4]>, %w: !quern.tensor<real[E = 4]>, %z: !quern.tensor<real[S, E = 4]>) {
  // expected-error @+1 {{scan_c8}}
  %r:2 = quern.scan <T> carry %h over %x {
  ^bb0(%a: !quern.tensor<real[E = 4]>, %b: !quern.tensor<real[E = 4]>):
    %n = quern.add %a, %b : (!quern.tensor<real[E = 4]>, !quern.tensor<real[E = 4]>) -> !quern.tensor<real[E = 4]>
    quern.yield %n, %n : !quern.tensor<real[E = 4]>, !quern.tensor<real[E = 4]>
  } : (!quern.tensor<real[E = 4]>, !quern.tensor<real[T, E = 4]>) -> (!quern.tensor<real[E = 4]>, !quern.tensor<real[E = 4]>)
  return
}

// -----

// A parameter inside.
func.func @f(%h: !quern.tensor<real[E = 4]>, %x: !quern.tensor<real[T, E = 4]>, %w: !quern.tensor<real[E = 4]>, %z: !quern.tensor<real[S, E = 4]>) {
  %r = quern.scan <T> carry %h over %x {
  ^bb0(%a: !quern.tensor<real[E = 4]>, %b: !quern.tensor<real[E = 4]>):
    // expected-error @+1 {{scan_c9}}
    %p = quern.param [["p"]] : <real[E = 4]>
    quern.yield %p : !quern.tensor<real[E = 4]>
  } : (!quern.tensor<real[E = 4]>, !quern.tensor<real[T, E = 4]>) -> !quern.tensor<real[E = 4]>
  return
}

// -----

// The dimension itself inside.
func.func @f(%h: !quern.tensor<real[E = 4]>, %x: !quern.tensor<real[T, E = 4]>, %w: !quern.tensor<real[E = 4]>, %z: !quern.tensor<real[S, E = 4]>) {
  %r = quern.scan <T> carry %h over %x {
  ^bb0(%a: !quern.tensor<real[E = 4]>, %b: !quern.tensor<real[E = 4]>):
    // expected-error @+1 {{scan_c10}}
    %i = quern.index : <int[T]>
    quern.yield %a : !quern.tensor<real[E = 4]>
  } : (!quern.tensor<real[E = 4]>, !quern.tensor<real[T, E = 4]>) -> !quern.tensor<real[E = 4]>
  return
}

// -----

// Nothing carried.
func.func @f(%x: !quern.tensor<real[T, E = 4]>) {
  // expected-error @+1 {{scan_c1}}
  %r = quern.scan <T> carry over %x {
  ^bb0(%b: !quern.tensor<real[E = 4]>):
    quern.yield %b : !quern.tensor<real[E = 4]>
  } : (!quern.tensor<real[T, E = 4]>) -> !quern.tensor<real[T, E = 4]>
  return
}
