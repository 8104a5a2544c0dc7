// RUN: quern-opt %s -hoist-scans | FileCheck %s
// A projection of the input leaves the loop; what is elementwise and larger than what it is made of stays.

// CHECK: func.func @f
func.func @f(%h: !quern.tensor<real[B, E = 4, N = 3]>, %x: !quern.tensor<real[B, T, D = 2]>, %w: !quern.tensor<real[E = 4, D = 2]>, %r: !quern.tensor<real[E = 4, N = 3]>) -> !quern.tensor<real[B, T, E = 4, N = 3]> {
  // CHECK: %[[Y:.*]] = quern.contract %arg1, %arg2 over ["D"] : {{.*}} -> !quern.tensor<real[B, T, E = 4]>
  // CHECK: %[[R:.*]] = quern.exp %arg3
  // CHECK: quern.scan <T> carry %arg0 over %[[Y]] reading %[[R]] {
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT: quern.mul
  // CHECK-NEXT: quern.mul
  // CHECK-NEXT: quern.yield
  %0:2 = quern.scan <T> carry %h over %x reading %w, %r {
  ^bb0(%a: !quern.tensor<real[B, E = 4, N = 3]>, %b: !quern.tensor<real[B, D = 2]>, %c: !quern.tensor<real[E = 4, D = 2]>, %d: !quern.tensor<real[E = 4, N = 3]>):
    %y = quern.contract %b, %c over ["D"] : (!quern.tensor<real[B, D = 2]>, !quern.tensor<real[E = 4, D = 2]>) -> !quern.tensor<real[B, E = 4]>
    %e = quern.exp %d : (!quern.tensor<real[E = 4, N = 3]>) -> !quern.tensor<real[E = 4, N = 3]>
    %m = quern.mul %e, %y : (!quern.tensor<real[E = 4, N = 3]>, !quern.tensor<real[B, E = 4]>) -> !quern.tensor<real[B, E = 4, N = 3]>
    %n = quern.mul %a, %m : (!quern.tensor<real[B, E = 4, N = 3]>, !quern.tensor<real[B, E = 4, N = 3]>) -> !quern.tensor<real[B, E = 4, N = 3]>
    quern.yield %n, %n : !quern.tensor<real[B, E = 4, N = 3]>, !quern.tensor<real[B, E = 4, N = 3]>
  } : (!quern.tensor<real[B, E = 4, N = 3]>, !quern.tensor<real[B, T, D = 2]>, !quern.tensor<real[E = 4, D = 2]>, !quern.tensor<real[E = 4, N = 3]>) -> (!quern.tensor<real[B, E = 4, N = 3]>, !quern.tensor<real[B, T, E = 4, N = 3]>)
  return %0#1 : !quern.tensor<real[B, T, E = 4, N = 3]>
}
