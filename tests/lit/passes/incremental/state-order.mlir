// RUN: quern-opt --outline-kernels %s | FileCheck %s
// What a running sum gives is stored once, though a step from it would be cheap to recompute: the second reader would find the next
// state where the first found this one.
// CHECK-LABEL: func.func @mean
// CHECK: %[[BEFORE:.*]] = quern.recall @total
// CHECK: %[[SUM:.*]] = quern.launch @cumsum_{{[0-9]+}}
// CHECK: %[[ALL:.*]] = quern.launch {{.*}}(%[[SUM]], %[[BEFORE]])
// CHECK-NOT: (%{{.*}}, %[[BEFORE]])
// CHECK: quern.store
// CHECK-NOT: %[[BEFORE]]
// CHECK: return
quern.state @total of "mean" : !quern.tensor<real[B, D = 4]>
func.func @mean(%x: !quern.tensor<real[B, T, D = 4]>) -> (!quern.tensor<real[B, T]>, !quern.tensor<real[B, T, D = 4]>) {
  %sum = quern.cumsum %x along "T" state @total : (!quern.tensor<real[B, T, D = 4]>) -> !quern.tensor<real[B, T, D = 4]>
  %e = quern.exp %sum : (!quern.tensor<real[B, T, D = 4]>) -> !quern.tensor<real[B, T, D = 4]>
  %r = quern.reduce sum %sum over ["D"] : (!quern.tensor<real[B, T, D = 4]>) -> !quern.tensor<real[B, T]>
  return %r, %e : !quern.tensor<real[B, T]>, !quern.tensor<real[B, T, D = 4]>
}
