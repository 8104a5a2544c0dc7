// RUN: quern-opt %s --differentiate --split-input-file | FileCheck %s
// The gradient reads the softmax and %h. To recompute the softmax is cheaper than to write and read it in four bytes a number, but
// more expensive than in two with the rounding; unless memory has a price (--memory).
module attributes {quern.train} {
  // CHECK-LABEL: func.func @loss.grad(
  // CHECK: quern.repeat 2 carry (%[[H:.*]] = %{{.*}}) : !quern.tensor<real[B, D = 4]> gives !quern.tensor<real[iterations = 2, B, D = 4]> {
  // CHECK: quern.yield %{{.*}}, %[[H]] :
  // CHECK: quern.repeat 2 reversed carry
  // CHECK: quern.softmax
  func.func @loss(%x: !quern.tensor<real[B, D = 4]> {quern.name = "x"}) -> (!quern.tensor<real[]> {quern.name = "loss"}) {
    %y = quern.repeat 2 carry (%h = %x) : !quern.tensor<real[B, D = 4]> {
      %w = quern.param [["h.0.w"], ["h.1.w"]] : !quern.tensor<real[D = 4]>
      %0 = quern.neg %h : (!quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[B, D = 4]>
      %1 = quern.add %0, %w : (!quern.tensor<real[B, D = 4]>, !quern.tensor<real[D = 4]>) -> !quern.tensor<real[B, D = 4]>
      %2 = quern.neg %1 : (!quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[B, D = 4]>
      %3 = quern.add %2, %w : (!quern.tensor<real[B, D = 4]>, !quern.tensor<real[D = 4]>) -> !quern.tensor<real[B, D = 4]>
      %4 = quern.neg %3 : (!quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[B, D = 4]>
      %5 = quern.softmax %4 over ["D"] : (!quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[B, D = 4]>
      %6 = quern.mul %5, %h : (!quern.tensor<real[B, D = 4]>, !quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[B, D = 4]>
      quern.yield %6 : !quern.tensor<real[B, D = 4]>
    }
    %r = quern.reduce sum %y over ["B", "D"] : (!quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[]>
    return %r : !quern.tensor<real[]>
  }
}

// -----

module attributes {quern.train, quern.precision = "bf16"} {
  // CHECK-LABEL: func.func @loss.grad(
  // CHECK: quern.repeat 2 carry (%[[H:.*]] = %{{.*}}) : !quern.tensor<real[B, D = 4]> gives !quern.tensor<real[iterations = 2, B, D = 4]>, !quern.tensor<real[iterations = 2, B, D = 4]> {
  // CHECK: quern.softmax
  // CHECK: quern.repeat 2 reversed carry
  // CHECK-NOT: quern.softmax
  // CHECK: return
  func.func @loss(%x: !quern.tensor<real[B, D = 4]> {quern.name = "x"}) -> (!quern.tensor<real[]> {quern.name = "loss"}) {
    %y = quern.repeat 2 carry (%h = %x) : !quern.tensor<real[B, D = 4]> {
      %w = quern.param [["h.0.w"], ["h.1.w"]] : !quern.tensor<real[D = 4]>
      %0 = quern.neg %h : (!quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[B, D = 4]>
      %1 = quern.add %0, %w : (!quern.tensor<real[B, D = 4]>, !quern.tensor<real[D = 4]>) -> !quern.tensor<real[B, D = 4]>
      %2 = quern.neg %1 : (!quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[B, D = 4]>
      %3 = quern.add %2, %w : (!quern.tensor<real[B, D = 4]>, !quern.tensor<real[D = 4]>) -> !quern.tensor<real[B, D = 4]>
      %4 = quern.neg %3 : (!quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[B, D = 4]>
      %5 = quern.softmax %4 over ["D"] : (!quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[B, D = 4]>
      %6 = quern.mul %5, %h : (!quern.tensor<real[B, D = 4]>, !quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[B, D = 4]>
      quern.yield %6 : !quern.tensor<real[B, D = 4]>
    }
    %r = quern.reduce sum %y over ["B", "D"] : (!quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[]>
    return %r : !quern.tensor<real[]>
  }
}

// -----

module attributes {quern.train, quern.precision = "bf16", quern.saving_price = 1.0e-10 : f64} {
  // CHECK-LABEL: func.func @loss.grad(
  // CHECK: quern.repeat 2 reversed carry
  // CHECK: quern.softmax
  func.func @loss(%x: !quern.tensor<real[B, D = 4]> {quern.name = "x"}) -> (!quern.tensor<real[]> {quern.name = "loss"}) {
    %y = quern.repeat 2 carry (%h = %x) : !quern.tensor<real[B, D = 4]> {
      %w = quern.param [["h.0.w"], ["h.1.w"]] : !quern.tensor<real[D = 4]>
      %0 = quern.neg %h : (!quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[B, D = 4]>
      %1 = quern.add %0, %w : (!quern.tensor<real[B, D = 4]>, !quern.tensor<real[D = 4]>) -> !quern.tensor<real[B, D = 4]>
      %2 = quern.neg %1 : (!quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[B, D = 4]>
      %3 = quern.add %2, %w : (!quern.tensor<real[B, D = 4]>, !quern.tensor<real[D = 4]>) -> !quern.tensor<real[B, D = 4]>
      %4 = quern.neg %3 : (!quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[B, D = 4]>
      %5 = quern.softmax %4 over ["D"] : (!quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[B, D = 4]>
      %6 = quern.mul %5, %h : (!quern.tensor<real[B, D = 4]>, !quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[B, D = 4]>
      quern.yield %6 : !quern.tensor<real[B, D = 4]>
    }
    %r = quern.reduce sum %y over ["B", "D"] : (!quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[]>
    return %r : !quern.tensor<real[]>
  }
}
