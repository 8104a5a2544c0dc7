// RUN: quern-opt %s --differentiate --canonicalize --cse --narrow-storage | FileCheck %s
// RUN: quern-opt %s --differentiate --optimizers --canonicalize --cse --narrow-storage | FileCheck %s --check-prefix=UPDATE
// A layer with a norm and two products: its weights, what they read and what the gradient keeps are bf16; what is carried, the
// norm's divisor and the gradients of parameters stay real. In the gradient %A is both rounded for a product and read element by
// element: in bf16 both times.
module attributes {quern.train, quern.precision = "bf16"} {
  // CHECK-LABEL: func.func @loss.grad(
  // CHECK: quern.repeat 2 carry (%[[H:.*]] = %{{.*}}) : !quern.tensor<real[B, D = 4]> gives !quern.tensor<bf16[iterations = 2, B, D = 4]>
  // CHECK-NEXT: %[[HN:.*]] = quern.narrow %[[H]]
  // CHECK-NEXT: %[[W:.*]] = quern.param {{.*}} : <bf16[F = 8, D = 4]>
  // CHECK-NEXT: %[[WW:.*]] = quern.widen %[[W]]
  // CHECK: %[[ROOT:.*]] = quern.sqrt
  // CHECK-NEXT: %[[X:.*]] = quern.div %[[H]], %[[ROOT]]
  // CHECK-NEXT: %[[XN:.*]] = quern.narrow %[[X]]
  // CHECK-NEXT: %[[XW:.*]] = quern.widen %[[XN]]
  // CHECK-NEXT: %[[Y:.*]] = quern.contract %[[XW]], %[[WW]]
  // CHECK-NEXT: quern.tanh %[[Y]]
  // CHECK: %[[S:.*]] = quern.add %[[H]], %{{.*}} : (!quern.tensor<real
  // CHECK-NEXT: quern.yield %[[S]], %[[HN]] : !quern.tensor<real[B, D = 4]>, !quern.tensor<bf16[B, D = 4]>
  // CHECK: quern.repeat 2 reversed carry (%{{.*}} = %{{.*}}) : !quern.tensor<real[B, D = 4]> over (%[[K:.*]] = %{{.*}}) : !quern.tensor<bf16[iterations = 2, B, D = 4]> gives
  // CHECK-SAME: !quern.tensor<real[iterations = 2, D = 4, F = 8]>
  // CHECK: quern.widen %[[K]]
  // CHECK: %[[A:.*]] = quern.tanh
  // CHECK-NEXT: %[[AN:.*]] = quern.narrow %[[A]]
  // CHECK-NEXT: %[[AW:.*]] = quern.widen %[[AN]]
  // CHECK: quern.contract %{{.*}}, %[[AW]] over ["B"]
  // CHECK: quern.mul %[[AW]], %[[AW]]
  // UPDATE-LABEL: func.func @update.sgd(
  // UPDATE-SAME: -> (!quern.tensor<real[E = elements]> {quern.name = "p"}, !quern.tensor<bf16[E = elements]> {quern.name = "p.narrow"})
  // UPDATE: %[[P:.*]] = quern.sub
  // UPDATE: %[[PN:.*]] = quern.narrow %[[P]]
  // UPDATE: return %[[P]], %[[PN]]
  func.func @loss(%x: !quern.tensor<real[B, D = 4]> {quern.name = "x"}) -> (!quern.tensor<real[]> {quern.name = "loss"}) {
    %y = quern.repeat 2 carry (%h = %x) : !quern.tensor<real[B, D = 4]> {
      %w = quern.param [["h.0.w"], ["h.1.w"]] : !quern.tensor<real[F = 8, D = 4]>
      %v = quern.param [["h.0.v"], ["h.1.v"]] : !quern.tensor<real[D = 4, F = 8]>
      %s = quern.mul %h, %h : (!quern.tensor<real[B, D = 4]>, !quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[B, D = 4]>
      %m = quern.reduce mean %s over ["D"] : (!quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[B]>
      %r = quern.sqrt %m : (!quern.tensor<real[B]>) -> !quern.tensor<real[B]>
      %n = quern.div %h, %r : (!quern.tensor<real[B, D = 4]>, !quern.tensor<real[B]>) -> !quern.tensor<real[B, D = 4]>
      %0 = quern.contract %n, %w over ["D"] : (!quern.tensor<real[B, D = 4]>, !quern.tensor<real[F = 8, D = 4]>) -> !quern.tensor<real[B, F = 8]>
      %1 = quern.tanh %0 : (!quern.tensor<real[B, F = 8]>) -> !quern.tensor<real[B, F = 8]>
      %2 = quern.contract %1, %v over ["F"] : (!quern.tensor<real[B, F = 8]>, !quern.tensor<real[D = 4, F = 8]>) -> !quern.tensor<real[B, D = 4]>
      %3 = quern.add %h, %2 : (!quern.tensor<real[B, D = 4]>, !quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[B, D = 4]>
      quern.yield %3 : !quern.tensor<real[B, D = 4]>
    }
    %l = quern.reduce sum %y over ["B", "D"] : (!quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[]>
    return %l : !quern.tensor<real[]>
  }
}
