// RUN: quern-opt %s --sink-loss-gathers --differentiate --canonicalize --cse | FileCheck %s
// RUN: quern-opt %s --differentiate --canonicalize --cse | FileCheck %s --check-prefix=ALL
// RUN: quern-opt %s --sink-loss-gathers --differentiate --canonicalize --cse --outline-kernels --plan-memory | FileCheck %s --check-prefix=KERNELS
// Experts in a loss: picked before they are computed, so that the gradient treats the picked alone. That of a row is a product for each
// of its picks, then their sum; that of the weights a sum for each expert of outer products, which no kernel stores.
module attributes {quern.train} {
  // CHECK-LABEL: func.func @loss(
  // CHECK: quern.gather %{{.*}}["E" = %arg0] {{.*}} -> !quern.tensor<real[T, C = 2, F = 3, D = 4]>
  // CHECK-NOT: real[T, E = 8
  // CHECK-LABEL: func.func @loss.grad(
  // CHECK: %[[W:.*]] = quern.param {{\[\[}}"{E}.w"]]
  // CHECK: quern.gather %[[W]]["E" = %arg0]
  // CHECK: %[[PICKS:.*]] = quern.contract %[[G:.*]], %{{.*}} over ["F"] {{.*}} -> !quern.tensor<real[T, C = 2, D = 4]>
  // CHECK: quern.reduce sum %[[PICKS]] over ["C"]
  // CHECK: %[[OUTER:.*]] = quern.mul %[[G]], %{{.*}} {{.*}} -> !quern.tensor<real[T, C = 2, F = 3, D = 4]>
  // CHECK: quern.scatter_add %[[OUTER]] at %arg0 over ["T", "C"] into <E = 8>
  // CHECK-NOT: real[T, E = 8

  // ALL-LABEL: func.func @loss.grad(
  // ALL: quern.contract {{.*}} -> !quern.tensor<real[T, E = 8, F = 3]>
  // ALL: quern.scatter_add {{.*}} -> !quern.tensor<real[T, E = 8, F = 3]>

  // KERNELS-LABEL: func.func @loss.grad(
  // KERNELS: quern.launch @[[ROWS:contract_[0-9]+]] {{.*}} -> !quern.tensor<real[T = "2 * T", D = 4]>
  // KERNELS: quern.launch @reduce_
  // KERNELS: quern.launch @[[WEIGHTS:contract_[0-9]+]] {{.*}}quern.places = [#quern.place<output 2>]
  // KERNELS-NOT: real[T, C = 2, F = 3, D = 4]
  // KERNELS: return
  // KERNELS: quern.kernel @[[WEIGHTS]](
  // KERNELS-NEXT: quern.mul
  // KERNELS-NEXT: quern.scatter_add
  // KERNELS-NEXT: quern.yield
  // KERNELS: quern.kernel @[[ROWS]](
  // KERNELS-NEXT: quern.gather
  // KERNELS-NEXT: quern.contract
  // KERNELS-NEXT: quern.yield
  func.func @loss(%p: !quern.tensor<int[T, C = 2]> {quern.name = "p"}, %i: !quern.tensor<real[T, D = 4]> {quern.name = "i"}) -> (!quern.tensor<real[]> {quern.name = "loss"}) {
    %n = quern.param [["n"]] : !quern.tensor<real[D = 4]>
    %x = quern.mul %i, %n : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[D = 4]>) -> !quern.tensor<real[T, D = 4]>
    %w = quern.param [["{E}.w"]] : !quern.tensor<real[E = 8, F = 3, D = 4]>
    %h = quern.contract %x, %w over ["D"] : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[E = 8, F = 3, D = 4]>) -> !quern.tensor<real[T, E = 8, F = 3]>
    %s = quern.sigmoid %h : (!quern.tensor<real[T, E = 8, F = 3]>) -> !quern.tensor<real[T, E = 8, F = 3]>
    %y = quern.gather %s["E" = %p] : (!quern.tensor<real[T, E = 8, F = 3]>, !quern.tensor<int[T, C = 2]>) -> !quern.tensor<real[T, C = 2, F = 3]>
    %sum = quern.reduce sum %y over ["T", "C", "F"] : (!quern.tensor<real[T, C = 2, F = 3]>) -> !quern.tensor<real[]>
    return %sum : !quern.tensor<real[]>
  }
  // Only the loss is trained: other functions wait for `sink-gathers`.
  // CHECK-LABEL: func.func @forward(
  // CHECK: quern.contract {{.*}} -> !quern.tensor<real[T, E = 8, F = 3]>
  func.func @forward(%x: !quern.tensor<real[T, D = 4]>, %p: !quern.tensor<int[T, C = 2]>) -> !quern.tensor<real[T, C = 2, F = 3]> {
    %w = quern.param [["{E}.w"]] : !quern.tensor<real[E = 8, F = 3, D = 4]>
    %h = quern.contract %x, %w over ["D"] : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[E = 8, F = 3, D = 4]>) -> !quern.tensor<real[T, E = 8, F = 3]>
    %y = quern.gather %h["E" = %p] : (!quern.tensor<real[T, E = 8, F = 3]>, !quern.tensor<int[T, C = 2]>) -> !quern.tensor<real[T, C = 2, F = 3]>
    return %y : !quern.tensor<real[T, C = 2, F = 3]>
  }
}
