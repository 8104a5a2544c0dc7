// RUN: quern-opt %s | quern-opt | FileCheck %s
// Attention: products, what the score does to them, sinks, what is kept of the softmax; sums of its gradient.

// CHECK: @plain(
func.func @plain(%q: !quern.tensor<real[B, T, H = 2, K = 4]>, %k: !quern.tensor<real[B, S, H = 2, K = 4]>, %v: !quern.tensor<real[B, S, H = 2, C = 3]>) -> !quern.tensor<real[B, T, H = 2, C = 3]> {
  // CHECK: %[[O:.*]] = quern.attention %{{.*}} with %{{.*}} over "S" of %{{.*}} {
  // CHECK-NEXT: ^bb0(%[[X:.*]]: !quern.tensor<real[B, T, H = 2, S]>):
  // CHECK-NEXT: quern.yield %[[X]] : !quern.tensor<real[B, T, H = 2, S]>
  // CHECK-NEXT: } : (!quern.tensor<real[B, T, H = 2, K = 4]>, !quern.tensor<real[B, S, H = 2, K = 4]>, !quern.tensor<real[B, S, H = 2, C = 3]>) -> !quern.tensor<real[B, T, H = 2, C = 3]>
  %0 = quern.attention %q with %k over "S" of %v {
  ^bb0(%x: !quern.tensor<real[B, T, H = 2, S]>):
    quern.yield %x : !quern.tensor<real[B, T, H = 2, S]>
  } : (!quern.tensor<real[B, T, H = 2, K = 4]>, !quern.tensor<real[B, S, H = 2, K = 4]>, !quern.tensor<real[B, S, H = 2, C = 3]>) -> !quern.tensor<real[B, T, H = 2, C = 3]>
  // CHECK: return %[[O]]
  return %0 : !quern.tensor<real[B, T, H = 2, C = 3]>
}

// CHECK: @narrow(
func.func @narrow(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>, %z: !quern.tensor<real[U = 1]>) {
  // CHECK: quern.attention %{{.*}} with %{{.*}} over "S" of %{{.*}} sinks %{{.*}} ["U"] narrow {
  %0 = quern.attention %q with %k over "S" of %v sinks %z ["U"] narrow {
  ^bb0(%x: !quern.tensor<real[T, S]>):
    quern.yield %x : !quern.tensor<real[T, S]>
  } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>, !quern.tensor<real[U = 1]>) -> !quern.tensor<real[T, C = 3]>
  return
}

// CHECK: @everything(
func.func @everything(%q: !quern.tensor<real[T, H = 2, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %p: !quern.tensor<real[T, J = 5]>, %r: !quern.tensor<real[S, H = 2, J = 5]>, %v: !quern.tensor<real[S, C = 3]>, %m: !quern.tensor<bool[T, S]>, %z: !quern.tensor<real[H = 2, U = 1]>) {
  // CHECK: %{{.*}}:3 = quern.attention %{{.*}}, %{{.*}} with %{{.*}}, %{{.*}} over "S" of %{{.*}} reading %[[M:.*]] sinks %{{.*}} ["U"] {
  %0:3 = quern.attention %q, %p with %k, %r over "S" of %v reading %m sinks %z ["U"] {
  // CHECK-NEXT: ^bb0(%[[X:.*]]: !quern.tensor<real[T, H = 2, S]>, %[[Y:.*]]: !quern.tensor<real[T, S, H = 2]>, %[[SEEN:.*]]: !quern.tensor<bool[T, S]>):
  ^bb0(%x: !quern.tensor<real[T, H = 2, S]>, %y: !quern.tensor<real[T, S, H = 2]>, %seen: !quern.tensor<bool[T, S]>):
    %nothing = quern.const 0xFFF0000000000000 : f64 -> <real[]>
    // CHECK: quern.add %[[X]], %[[Y]]
    %both = quern.add %x, %y : (!quern.tensor<real[T, H = 2, S]>, !quern.tensor<real[T, S, H = 2]>) -> !quern.tensor<real[T, H = 2, S]>
    // CHECK: quern.where %[[SEEN]]
    %score = quern.where %seen, %both, %nothing : (!quern.tensor<bool[T, S]>, !quern.tensor<real[T, H = 2, S]>, !quern.tensor<real[]>) -> !quern.tensor<real[T, H = 2, S]>
    quern.yield %score : !quern.tensor<real[T, H = 2, S]>
    // CHECK: } : ({{.*}}) -> (!quern.tensor<real[T, H = 2, C = 3]>, !quern.tensor<real[T, H = 2]>, !quern.tensor<real[H = 2, T]>)
  } : (!quern.tensor<real[T, H = 2, K = 4]>, !quern.tensor<real[T, J = 5]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, H = 2, J = 5]>, !quern.tensor<real[S, C = 3]>, !quern.tensor<bool[T, S]>, !quern.tensor<real[H = 2, U = 1]>) -> (!quern.tensor<real[T, H = 2, C = 3]>, !quern.tensor<real[T, H = 2]>, !quern.tensor<real[H = 2, T]>)
  return
}

// CHECK: @gradients(
func.func @gradients(%q: !quern.tensor<real[T, H = 2, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %g: !quern.tensor<real[T, H = 2, C = 3]>, %v: !quern.tensor<real[S, C = 3]>, %m: !quern.tensor<bool[T, S]>) {
  // CHECK: %{{.*}}:2 = quern.attention_gradient %{{.*}}, %{{.*}} with %{{.*}}, %{{.*}} over "T" of %{{.*}}, %{{.*}} reading %{{.*}} {
  %0:2 = quern.attention_gradient %k, %v with %q, %g over "T" of %g, %q reading %m {
  ^bb0(%x: !quern.tensor<real[T, H = 2, S]>, %y: !quern.tensor<real[T, H = 2, S]>, %seen: !quern.tensor<bool[T, S]>):
    %none = quern.const 0.000000e+00 : f64 -> <real[]>
    %w = quern.where %seen, %y, %none : (!quern.tensor<bool[T, S]>, !quern.tensor<real[T, H = 2, S]>, !quern.tensor<real[]>) -> !quern.tensor<real[T, H = 2, S]>
    // CHECK: quern.yield %{{.*}}, %{{.*}} : !quern.tensor<real[T, H = 2, S]>, !quern.tensor<real[T, H = 2, S]>
    quern.yield %x, %w : !quern.tensor<real[T, H = 2, S]>, !quern.tensor<real[T, H = 2, S]>
  } : (!quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>, !quern.tensor<real[T, H = 2, K = 4]>, !quern.tensor<real[T, H = 2, C = 3]>, !quern.tensor<real[T, H = 2, C = 3]>, !quern.tensor<real[T, H = 2, K = 4]>, !quern.tensor<bool[T, S]>) -> (!quern.tensor<real[S, H = 2, C = 3]>, !quern.tensor<real[S, H = 2, K = 4]>)
  // CHECK: quern.attention_gradient %{{.*}} with %{{.*}} over "S" along ["S", "T"] from "T" into <N = "S + T"> {
  %1 = quern.attention_gradient %q with %k over "S" along ["S", "T"] from "T" into <N = "S + T"> {
  ^bb0(%x: !quern.tensor<real[T, H = 2, S]>):
    quern.yield %x : !quern.tensor<real[T, H = 2, S]>
    // CHECK: -> !quern.tensor<real[H = 2, N = "S + T"]>
  } : (!quern.tensor<real[T, H = 2, K = 4]>, !quern.tensor<real[S, K = 4]>) -> !quern.tensor<real[H = 2, N = "S + T"]>
  return
}
