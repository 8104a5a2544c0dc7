// RUN: quern-opt --incremental %s | FileCheck %s
//
// Linear attention in small: a running sum goes on from a state without positions. A comparison with T decides one bit of
// what is remembered; a function of lengths alone computes it. What depends on the other inputs is made once a request.

// CHECK: quern.state @decode.state0 of "decode" : !quern.tensor<real[B, D = 4]>
// CHECK-LABEL: func.func @decode(
// CHECK: quern.size "T + past"
// CHECK: quern.tanh %arg1 {quern.once}
// CHECK: quern.reduce sum {{.*}} {quern.once}
// CHECK: quern.cumsum %{{.*}} along "T" state @decode.state0
// CHECK-LABEL: func.func @decode.epoch() -> !quern.tensor<bool[]>
// CHECK: %[[N:.*]] = quern.size "T + past"
// CHECK: quern.compare gt %[[N]]
// CHECK-LABEL: func.func @decode.last(
// CHECK: quern.cumsum %{{.*}} along "T" state @decode.state0
func.func @decode(%target: !quern.tensor<int[B, T]> {quern.name = "target"},
                  %memory: !quern.tensor<real[B, S]> {quern.name = "memory"}) -> !quern.tensor<real[B, T, D = 4]> {
  %words = quern.param [["words"]] : !quern.tensor<real[V = 9, D = 4]>
  %x = quern.gather %words["V" = %target] : (!quern.tensor<real[V = 9, D = 4]>, !quern.tensor<int[B, T]>) -> !quern.tensor<real[B, T, D = 4]>
  %n = quern.size "T" : !quern.tensor<int[]>
  %c = quern.const 8 : i64 -> !quern.tensor<int[]>
  %long = quern.compare gt %n, %c : (!quern.tensor<int[]>, !quern.tensor<int[]>) -> !quern.tensor<bool[]>
  %t = quern.tanh %memory : (!quern.tensor<real[B, S]>) -> !quern.tensor<real[B, S]>
  %r = quern.reduce sum %t over ["S"] : (!quern.tensor<real[B, S]>) -> !quern.tensor<real[B]>
  %y = quern.mul %x, %r : (!quern.tensor<real[B, T, D = 4]>, !quern.tensor<real[B]>) -> !quern.tensor<real[B, T, D = 4]>
  %z = quern.where %long, %x, %y : (!quern.tensor<bool[]>, !quern.tensor<real[B, T, D = 4]>, !quern.tensor<real[B, T, D = 4]>) -> !quern.tensor<real[B, T, D = 4]>
  %sum = quern.cumsum %z along "T" : (!quern.tensor<real[B, T, D = 4]>) -> !quern.tensor<real[B, T, D = 4]>
  return %sum : !quern.tensor<real[B, T, D = 4]>
}
