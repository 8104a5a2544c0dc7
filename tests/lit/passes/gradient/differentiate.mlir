// RUN: quern-opt %s --differentiate --canonicalize --cse | FileCheck %s
// RUN: quern-opt %s --differentiate --canonicalize --cse --outline-kernels --plan-memory | FileCheck %s --check-prefix=PLAN
// A loop's gradient is a loop from the last iteration to the first; what it reads of an iteration is on a stack, or recomputed where that
// is cheaper (the tanh), and parameters are read again. A parameter of each iteration has a gradient for each; one that all iterations share is lifted and has one.
module attributes {quern.train} {
  // CHECK-LABEL: func.func @loss(
  // CHECK-NOT: reversed
  // CHECK-LABEL: func.func @loss.grad(
  // CHECK-SAME: !quern.tensor<real[D = 4]> {quern.gradient = {{\[\[}}"shared"]], quern.name = "grad.shared"}
  // CHECK-SAME: !quern.tensor<real[iterations = 2, D = 4]> {quern.gradient = {{\[\[}}"h.0.w"], ["h.1.w"]], quern.name = "grad.h.0.w"}
  // CHECK: %[[SHARED:.*]] = quern.param {{\[\[}}"shared"]]
  // CHECK: %[[OUT:.*]]:2 = quern.repeat 2 carry (%[[X:.*]] = %{{.*}}) : !quern.tensor<real[B, D = 4]> gives !quern.tensor<real[iterations = 2, B, D = 4]> {
  // CHECK: %[[Y:.*]] = quern.tanh
  // CHECK: quern.yield %[[Y]], %[[X]] :
  // CHECK: quern.repeat 2 reversed carry (%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) : !quern.tensor<real[B, D = 4]>, !quern.tensor<real[D = 4]> over (
  // CHECK-SAME: = %[[OUT]]#1)
  // CHECK-SAME: gives !quern.tensor<real[iterations = 2, D = 4]>
  // CHECK: quern.param {{\[\[}}"h.0.w"], ["h.1.w"]]
  // CHECK: quern.tanh

  // Parts are written where they are stored on their stacks.
  // PLAN-LABEL: func.func @loss.grad(
  // PLAN: quern.repeat 2 carry
  // PLAN: quern.launch {{.*}}quern.places = [#quern.place<part 1>]
  // PLAN: quern.repeat 2 reversed
  // PLAN: quern.launch {{.*}}quern.places = [#quern.place<part 2>]
  func.func @loss(%x: !quern.tensor<real[B, D = 4]> {quern.name = "x"}) -> (!quern.tensor<real[]> {quern.name = "loss"}) {
    %s = quern.param [["shared"]] : !quern.tensor<real[D = 4]>
    %c = quern.mul %x, %s : (!quern.tensor<real[B, D = 4]>, !quern.tensor<real[D = 4]>) -> !quern.tensor<real[B, D = 4]>
    %y = quern.repeat 2 carry (%h = %c) : !quern.tensor<real[B, D = 4]> {
      %v = quern.param [["shared"], ["shared"]] : !quern.tensor<real[D = 4]>
      %w = quern.param [["h.0.w"], ["h.1.w"]] : !quern.tensor<real[D = 4]>
      %0 = quern.mul %h, %w : (!quern.tensor<real[B, D = 4]>, !quern.tensor<real[D = 4]>) -> !quern.tensor<real[B, D = 4]>
      %1 = quern.add %0, %v : (!quern.tensor<real[B, D = 4]>, !quern.tensor<real[D = 4]>) -> !quern.tensor<real[B, D = 4]>
      %2 = quern.tanh %1 : (!quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[B, D = 4]>
      quern.yield %2 : !quern.tensor<real[B, D = 4]>
    }
    %r = quern.reduce sum %y over ["B", "D"] : (!quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[]>
    return %r : !quern.tensor<real[]>
  }
}
