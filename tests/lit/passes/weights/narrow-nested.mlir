// RUN: quern-opt %s --differentiate --canonicalize --cse --narrow-storage | FileCheck %s
// Loops in a loop: the divisor of the norm, which follows from a sum, is real on the inner loop's stacks and on the outer one's; what a
// product reads is bf16 on both, forwards and backwards.
module attributes {quern.train, quern.precision = "bf16"} {
  // CHECK-LABEL: func.func @loss.grad(
  // CHECK: quern.repeat 2 carry ({{.*}}) : !quern.tensor<real[B, D = 1024]> gives !quern.tensor<bf16[iterations.1 = 2, iterations = 3, B, D = 1024]>, !quern.tensor<real[iterations.1 = 2, iterations = 3, B]> {
  // CHECK: quern.repeat 3 carry ({{.*}}) : !quern.tensor<real[B, D = 1024]> gives !quern.tensor<bf16[iterations = 3, B, D = 1024]>, !quern.tensor<real[iterations = 3, B]> {
  // CHECK: quern.repeat 2 reversed carry ({{.*}}) : !quern.tensor<real[B, D = 1024]> over (%[[H:.*]] = %{{.*}}, %[[R:.*]] = %{{.*}}) : !quern.tensor<bf16[iterations.1 = 2, iterations = 3, B, D = 1024]>, !quern.tensor<real[iterations.1 = 2, iterations = 3, B]> gives
  // CHECK: quern.repeat 3 reversed carry ({{.*}}) : !quern.tensor<real[B, D = 1024]> over (%{{.*}} = %[[H]], %{{.*}} = %[[R]]) : !quern.tensor<bf16[iterations = 3, B, D = 1024]>, !quern.tensor<real[iterations = 3, B]> gives
  func.func @loss(%x: !quern.tensor<real[B, D = 1024]> {quern.name = "x"}) -> (!quern.tensor<real[]> {quern.name = "loss"}) {
    %y = quern.repeat 2 carry (%g = %x) : !quern.tensor<real[B, D = 1024]> {
      %z = quern.repeat 3 carry (%h = %g) : !quern.tensor<real[B, D = 1024]> {
        %w = quern.param [["0.w"], ["1.w"], ["2.w"], ["3.w"], ["4.w"], ["5.w"]] : !quern.tensor<real[F = 1024, D = 1024]>
        %s = quern.mul %h, %h : (!quern.tensor<real[B, D = 1024]>, !quern.tensor<real[B, D = 1024]>) -> !quern.tensor<real[B, D = 1024]>
        %m = quern.reduce mean %s over ["D"] : (!quern.tensor<real[B, D = 1024]>) -> !quern.tensor<real[B]>
        %r = quern.sqrt %m : (!quern.tensor<real[B]>) -> !quern.tensor<real[B]>
        %n = quern.div %h, %r : (!quern.tensor<real[B, D = 1024]>, !quern.tensor<real[B]>) -> !quern.tensor<real[B, D = 1024]>
        %0 = quern.contract %n, %w over ["D"] : (!quern.tensor<real[B, D = 1024]>, !quern.tensor<real[F = 1024, D = 1024]>) -> !quern.tensor<real[B, F = 1024]>
        %1 = quern.rename %0 ["F"] to [#quern.dim<D = 1024>] : (!quern.tensor<real[B, F = 1024]>) -> !quern.tensor<real[B, D = 1024]>
        %2 = quern.add %h, %1 : (!quern.tensor<real[B, D = 1024]>, !quern.tensor<real[B, D = 1024]>) -> !quern.tensor<real[B, D = 1024]>
        quern.yield %2 : !quern.tensor<real[B, D = 1024]>
      }
      quern.yield %z : !quern.tensor<real[B, D = 1024]>
    }
    %l = quern.reduce sum %y over ["B", "D"] : (!quern.tensor<real[B, D = 1024]>) -> !quern.tensor<real[]>
    return %l : !quern.tensor<real[]>
  }
}
