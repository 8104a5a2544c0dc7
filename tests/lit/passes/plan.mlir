// Places of buffers: results go straight to outputs, a loop's value is written where the loop carries it.
// RUN: quern-opt --outline-kernels --plan-memory %s | FileCheck %s

// CHECK-LABEL: func.func @loop
// CHECK-SAME:    quern.arena = [
// CHECK:         quern.launch {{.*}} {quern.places = ["arena [[CARRIED:[0-9]+]]"]}
// CHECK:         quern.repeat 3
// CHECK:           quern.launch {{.*}} {quern.places = ["arena [[OTHER:[0-9]+]]"]}
// CHECK:           quern.launch {{.*}} {quern.places = ["arena [[CARRIED]]"]}
// CHECK:         {quern.copy_in = [false], quern.copy_out = [false], quern.places = ["arena [[CARRIED]]"]}
// CHECK:         quern.launch {{.*}} {quern.places = ["output 0"]}
func.func @loop(%x: !quern.tensor<real[B, D = 8]>) -> !quern.tensor<real[B, D = 8]> {
  %start = quern.tanh %x : (!quern.tensor<real[B, D = 8]>) -> !quern.tensor<real[B, D = 8]>
  %y = quern.repeat 3 carry (%a = %start) : !quern.tensor<real[B, D = 8]> {
    %w = quern.param [["w.0"], ["w.1"], ["w.2"]] : <real[F = 16, D = 8]>
    %h = quern.contract %a, %w over ["D"] : (!quern.tensor<real[B, D = 8]>, !quern.tensor<real[F = 16, D = 8]>) -> !quern.tensor<real[B, F = 16]>
    %v = quern.param [["v.0"], ["v.1"], ["v.2"]] : <real[D = 8, F = 16]>
    %b = quern.contract %h, %v over ["F"] : (!quern.tensor<real[B, F = 16]>, !quern.tensor<real[D = 8, F = 16]>) -> !quern.tensor<real[B, D = 8]>
    quern.yield %b : !quern.tensor<real[B, D = 8]>
  }
  %z = quern.exp %y : (!quern.tensor<real[B, D = 8]>) -> !quern.tensor<real[B, D = 8]>
  return %z : !quern.tensor<real[B, D = 8]>
}
