// RUN: quern-opt %s --differentiate | FileCheck %s
// The rule of attention: it gives two numbers a row, and its gradient is one operation for each kernel. What learns beside the products is summed
// with them: over queries what lacks these, over keys what lacks those. No plain operation has both, S and T.
module attributes {quern.train} {
  // CHECK-LABEL: func.func @loss.grad(
  // CHECK: %[[A:.*]]:3 = quern.attention %{{.*}} with %{{.*}} over "S" of %{{.*}} reading %[[HEAT:[0-9]*]], %{{.*}} sinks %[[SINK:[0-9]*]] ["N"] {
  // CHECK: %[[Q:.*]] = quern.mul {{.*}} {quern.again}
  // CHECK: %[[K:.*]] = quern.mul {{.*}} {quern.again}
  // CHECK: %[[V:.*]] = quern.mul {{.*}} {quern.again}
  // CHECK: %[[BIAS:.*]] = quern.mul {{.*}} {quern.again}
  // CHECK: %[[G:.*]] = quern.expand {{.*}} -> !quern.tensor<real[T, H = 2, C = 3]>
  // CHECK: %[[HEATS:.*]] = quern.expand %[[HEAT]] : (!quern.tensor<real[H = 2]>) -> !quern.tensor<real[T, H = 2, S]>
  // CHECK: %[[BIASES:.*]] = quern.expand %[[BIAS]] : (!quern.tensor<real[S]>) -> !quern.tensor<real[T, H = 2, S]>
  // CHECK: %[[DELTA:.*]] = quern.contract %[[G]], %[[A]]#0 over ["C"]
  // CHECK: %[[ONES:.*]] = quern.expand %{{.*}} -> !quern.tensor<real[S, S.one = 1]>
  // CHECK: %[[ROWS:.*]] = quern.expand %{{.*}} -> !quern.tensor<real[T, T.one = 1]>

  // A sink is a score without a value.
  // CHECK: %[[Z:.*]] = quern.sub %[[SINK]], %[[A]]#1
  // CHECK: quern.exp %[[Z]]

  // The kernel of keys and values: rows are keys.
  // CHECK: %[[KV:.*]]:3 = quern.attention_gradient %[[K]], %[[V]] with %[[Q]], %[[G]] over "T" of %[[G]], %[[Q]], %[[ROWS]] reading %[[HEATS]], %[[BIASES]], %[[A]]#1, %[[A]]#2, %[[DELTA]] {
  // CHECK-NEXT: ^bb0(%[[X:.*]]: !quern.tensor<real[T, H = 2, S]>, %[[DP:.*]]: !quern.tensor<real[T, H = 2, S]>, %[[H:.*]]: {{.*}}, %[[B:.*]]: {{.*}}, %[[SHIFT:.*]]: {{.*}}, %[[SHARE:.*]]: {{.*}}, %[[D:.*]]: !quern.tensor<real[T, H = 2]>):
  // CHECK-NEXT: %[[Y:.*]] = quern.mul %[[X]], %[[H]]
  // CHECK-NEXT: %[[S:.*]] = quern.add %[[Y]], %[[B]]
  // CHECK-NEXT: %[[LESS:.*]] = quern.sub %[[S]], %[[SHIFT]]
  // CHECK-NEXT: %[[E:.*]] = quern.exp %[[LESS]]
  // CHECK-NEXT: %[[P:.*]] = quern.mul %[[E]], %[[SHARE]]
  // CHECK-NEXT: %[[APART:.*]] = quern.sub %[[DP]], %[[D]]
  // CHECK-NEXT: %[[DS:.*]] = quern.mul %[[P]], %[[APART]]
  // CHECK-NEXT: %[[DX:.*]] = quern.mul %[[DS]], %[[H]]
  // CHECK-NEXT: quern.yield %[[P]], %[[DX]], %[[DS]]
  // CHECK: -> (!quern.tensor<real[S, H = 2, C = 3]>, !quern.tensor<real[S, H = 2, K = 4]>, !quern.tensor<real[H = 2, T.one = 1, S]>)
  // Heads share keys: their gradients are summed afterwards.
  // CHECK: quern.reduce sum %[[KV]]#0 over ["H"]

  // The kernel of queries.
  // CHECK: %[[DQ:.*]]:2 = quern.attention_gradient %[[Q]], %[[G]] with %[[K]], %[[V]] over "S" of %[[K]], %[[ONES]] reading
  // CHECK: -> (!quern.tensor<real[T, H = 2, K = 4]>, !quern.tensor<real[T, S.one = 1, H = 2]>)

  // CHECK-NOT: T, H = 2, S]>
  // CHECK: return
  func.func @loss(%x: !quern.tensor<real[T, H = 2, K = 4]> {quern.name = "x"}, %y: !quern.tensor<real[S, K = 4]> {quern.name = "y"}, %u: !quern.tensor<real[S, C = 3]> {quern.name = "u"}, %w: !quern.tensor<real[S]> {quern.name = "w"}) -> (!quern.tensor<real[]> {quern.name = "loss"}) {
    %one = quern.param [["one"]] : !quern.tensor<real[]>
    %heat = quern.param [["heat"]] : !quern.tensor<real[H = 2]>
    %z = quern.param [["z"]] : !quern.tensor<real[H = 2, N = 1]>
    %q = quern.mul %x, %one : (!quern.tensor<real[T, H = 2, K = 4]>, !quern.tensor<real[]>) -> !quern.tensor<real[T, H = 2, K = 4]>
    %k = quern.mul %y, %one : (!quern.tensor<real[S, K = 4]>, !quern.tensor<real[]>) -> !quern.tensor<real[S, K = 4]>
    %v = quern.mul %u, %one : (!quern.tensor<real[S, C = 3]>, !quern.tensor<real[]>) -> !quern.tensor<real[S, C = 3]>
    %b = quern.mul %w, %one : (!quern.tensor<real[S]>, !quern.tensor<real[]>) -> !quern.tensor<real[S]>
    %o = quern.attention %q with %k over "S" of %v reading %heat, %b sinks %z ["N"] {
    ^bb0(%p: !quern.tensor<real[T, H = 2, S]>, %h: !quern.tensor<real[H = 2]>, %c: !quern.tensor<real[S]>):
      %m = quern.mul %p, %h : (!quern.tensor<real[T, H = 2, S]>, !quern.tensor<real[H = 2]>) -> !quern.tensor<real[T, H = 2, S]>
      %s = quern.add %m, %c : (!quern.tensor<real[T, H = 2, S]>, !quern.tensor<real[S]>) -> !quern.tensor<real[T, H = 2, S]>
      quern.yield %s : !quern.tensor<real[T, H = 2, S]>
    } : (!quern.tensor<real[T, H = 2, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>, !quern.tensor<real[H = 2]>, !quern.tensor<real[S]>, !quern.tensor<real[H = 2, N = 1]>) -> !quern.tensor<real[T, H = 2, C = 3]>
    %l = quern.reduce sum %o over ["T", "H", "C"] : (!quern.tensor<real[T, H = 2, C = 3]>) -> !quern.tensor<real[]>
    return %l : !quern.tensor<real[]>
  }
}
