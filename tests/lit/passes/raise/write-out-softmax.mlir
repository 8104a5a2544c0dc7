// RUN: quern-opt %s -write-out-softmax | FileCheck %s
// A softmax over a state is written out, one outside of scans is not.

// CHECK-LABEL: func.func @f
// CHECK: quern.scan
// CHECK-NOT: quern.softmax
// CHECK-DAG: %[[NONE:.*]] = quern.const 0xFFF0000000000000
// CHECK-DAG: %[[ZERO:.*]] = quern.const 0.000000e+00
// CHECK-DAG: %[[ONE:.*]] = quern.const 1.000000e+00
// CHECK: %[[M:.*]] = quern.reduce max %[[X:.*]] over ["N"]
// CHECK: %[[ANY:.*]] = quern.compare gt %[[M]], %[[NONE]]
// CHECK: %[[SHIFT:.*]] = quern.where %[[ANY]], %[[M]], %[[ZERO]]
// CHECK: %[[D:.*]] = quern.sub %[[X]], %[[SHIFT]]
// CHECK: %[[E:.*]] = quern.exp %[[D]]
// CHECK: %[[S:.*]] = quern.reduce sum %[[E]] over ["N"]
// CHECK: %[[SOME:.*]] = quern.compare gt %[[S]], %[[ZERO]]
// CHECK: %[[BY:.*]] = quern.where %[[SOME]], %[[S]], %[[ONE]]
// CHECK: %[[W:.*]] = quern.div %[[E]], %[[BY]]
// CHECK: quern.yield %[[W]], %[[W]]
// CHECK: quern.softmax
func.func @f(%h: !quern.tensor<real[B, N = 3]>, %x: !quern.tensor<real[B, T, N = 3]>) -> !quern.tensor<real[B, T, N = 3]> {
  %0:2 = quern.scan <T> carry %h over %x {
  ^bb0(%a: !quern.tensor<real[B, N = 3]>, %b: !quern.tensor<real[B, N = 3]>):
    %y = quern.add %a, %b : (!quern.tensor<real[B, N = 3]>, !quern.tensor<real[B, N = 3]>) -> !quern.tensor<real[B, N = 3]>
    %w = quern.softmax %y over ["N"] : (!quern.tensor<real[B, N = 3]>) -> !quern.tensor<real[B, N = 3]>
    quern.yield %w, %w : !quern.tensor<real[B, N = 3]>, !quern.tensor<real[B, N = 3]>
  } : (!quern.tensor<real[B, N = 3]>, !quern.tensor<real[B, T, N = 3]>) -> (!quern.tensor<real[B, N = 3]>, !quern.tensor<real[B, T, N = 3]>)
  %1 = quern.softmax %0#1 over ["N"] : (!quern.tensor<real[B, T, N = 3]>) -> !quern.tensor<real[B, T, N = 3]>
  return %1 : !quern.tensor<real[B, T, N = 3]>
}
