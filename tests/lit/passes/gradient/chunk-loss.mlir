// RUN: quern-opt %s --differentiate --canonicalize --cse --chunk-loss | FileCheck %s
// RUN: quern-opt %s --differentiate --canonicalize --cse --chunk-loss --outline-kernels --plan-memory | FileCheck %s --check-prefix=PLAN
// From the hidden rows to the loss and back a loop takes some rows at a time: logits, their gradient, the rows' gradient, and
// the matrix's added up. Nothing with all rows and the vocabulary is left outside; the sum is made in the output itself.
module attributes {quern.train, quern.chunk_rows = 4 : i64} {
  // CHECK-LABEL: func.func @loss(
  // CHECK: %[[LOSS:.*]] = quern.repeat rows 4 over (%[[H:.*]] = %{{.*}}, %[[N:.*]] = %{{.*}}) : !quern.tensor<real[rows = "B * T", D = 3]>, !quern.tensor<int[rows = "B * T"]> gives !quern.tensor<real[rows = "B * T"]> {
  // CHECK: quern.contract %[[H]], %{{.*}} over ["D"] : {{.*}} -> !quern.tensor<real[rows = "chunk(4, B * T)", V = 5]>
  // CHECK: quern.split %[[LOSS]] "rows" into [#quern.dim<B>, #quern.dim<T>]
  // CHECK: return
  // CHECK-LABEL: func.func @loss.grad(
  // CHECK-NOT: B, T, V = 5
  // CHECK: quern.repeat rows 4 carry (%[[SUM:.*]] = %{{.*}}) : !quern.tensor<real[V = 5, D = 3]> over (
  // CHECK-SAME: gives !quern.tensor<real[rows = "B * T"]>, !quern.tensor<real[rows = "B * T", D = 3]>
  // CHECK: %[[PART:.*]] = quern.contract %{{.*}} over ["rows"]
  // CHECK: %[[NEXT:.*]] = quern.add %[[SUM]], %[[PART]]
  // CHECK: quern.yield %[[NEXT]],
  // CHECK-NOT: B, T, V = 5
  // CHECK: return
  // PLAN-LABEL: func.func @loss.grad(
  // PLAN: quern.repeat rows 4
  // PLAN: quern.launch @contract{{.*}}quern.places = [#quern.place<output 2>]
  // PLAN: quern.places = [#quern.place<output 2>, #quern.place<arena
  func.func @loss(%x: !quern.tensor<real[B, T, D = 3]> {quern.name = "x"}, %n: !quern.tensor<int[B, T]> {quern.name = "n"}) -> (!quern.tensor<real[]> {quern.name = "loss"}) {
    %s = quern.param [["s"]] : !quern.tensor<real[D = 3]>
    %w = quern.param [["w"]] : !quern.tensor<real[V = 5, D = 3]>
    %h = quern.mul %x, %s : (!quern.tensor<real[B, T, D = 3]>, !quern.tensor<real[D = 3]>) -> !quern.tensor<real[B, T, D = 3]>
    %l = quern.contract %h, %w over ["D"] : (!quern.tensor<real[B, T, D = 3]>, !quern.tensor<real[V = 5, D = 3]>) -> !quern.tensor<real[B, T, V = 5]>
    %m = quern.reduce max %l over ["V"] : (!quern.tensor<real[B, T, V = 5]>) -> !quern.tensor<real[B, T]>
    %z = quern.sub %l, %m : (!quern.tensor<real[B, T, V = 5]>, !quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T, V = 5]>
    %e = quern.exp %z : (!quern.tensor<real[B, T, V = 5]>) -> !quern.tensor<real[B, T, V = 5]>
    %t = quern.reduce sum %e over ["V"] : (!quern.tensor<real[B, T, V = 5]>) -> !quern.tensor<real[B, T]>
    %g = quern.log %t : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T]>
    %y = quern.sub %z, %g : (!quern.tensor<real[B, T, V = 5]>, !quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T, V = 5]>
    %p = quern.gather %y["V" = %n] : (!quern.tensor<real[B, T, V = 5]>, !quern.tensor<int[B, T]>) -> !quern.tensor<real[B, T]>
    %r = quern.reduce sum %p over ["B", "T"] : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[]>
    return %r : !quern.tensor<real[]>
  }
}
