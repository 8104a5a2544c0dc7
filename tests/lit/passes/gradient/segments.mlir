// RUN: quern-opt %s --differentiate --canonicalize --cse | FileCheck %s
// Five iterations in segments of two: two of them, and one of the iteration that is left. The gradient keeps what each segment starts from; at
// a segment it runs the iterations again, which now save what they read. Parameters keep their iterations.
module attributes {quern.train, quern.segment_iterations = 2 : i64} {
  // CHECK-LABEL: func.func @loss.grad(
  // CHECK: %[[FIRST:.*]]:2 = quern.repeat 2 carry (%[[S:.*]] = %{{.*}}) : !quern.tensor<real[B, D = 4]> gives !quern.tensor<real[iterations = 2, B, D = 4]> {
  // CHECK: %[[E:.*]] = quern.repeat 2 carry (%{{.*}} = %[[S]]) : !quern.tensor<real[B, D = 4]> {
  // CHECK: quern.param {{\[\[}}"h.0.w"], ["h.1.w"], ["h.2.w"], ["h.3.w"]]
  // CHECK: quern.yield %[[E]], %[[S]]
  // CHECK: quern.repeat 1 carry
  // CHECK: quern.param {{\[\[}}"h.4.w"]]
  // CHECK: quern.repeat 1 reversed
  // CHECK: quern.repeat 2 reversed carry ({{.*}}) : {{.*}} over (%[[START:.*]] = %[[FIRST]]#1)
  // CHECK: %[[AGAIN:.*]]:2 = quern.repeat 2 carry (%{{.*}} = %[[START]]) : !quern.tensor<real[B, D = 4]> gives
  // CHECK: quern.repeat 2 reversed carry ({{.*}}) : {{.*}} over (%{{.*}} = %[[AGAIN]]#1)
  func.func @loss(%x: !quern.tensor<real[B, D = 4]> {quern.name = "x"}) -> (!quern.tensor<real[]> {quern.name = "loss"}) {
    %y = quern.repeat 5 carry (%h = %x) : !quern.tensor<real[B, D = 4]> {
      %w = quern.param [["h.0.w"], ["h.1.w"], ["h.2.w"], ["h.3.w"], ["h.4.w"]] : !quern.tensor<real[D = 4]>
      %0 = quern.mul %h, %w : (!quern.tensor<real[B, D = 4]>, !quern.tensor<real[D = 4]>) -> !quern.tensor<real[B, D = 4]>
      %1 = quern.tanh %0 : (!quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[B, D = 4]>
      quern.yield %1 : !quern.tensor<real[B, D = 4]>
    }
    %r = quern.reduce sum %y over ["B", "D"] : (!quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[]>
    return %r : !quern.tensor<real[]>
  }
}
