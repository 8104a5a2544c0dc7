// Places of buffers: results go straight to outputs, a loop's value is written where the loop carries it.
// RUN: quern-opt --outline-kernels --plan-memory %s | FileCheck %s

// CHECK-LABEL: func.func @loop
// CHECK-SAME:    quern.arena = [
// CHECK:         quern.launch {{.*}} {quern.places = [#quern.place<arena [[CARRIED:[0-9]+]]>]}
// CHECK:         quern.repeat 3
// CHECK:           quern.launch {{.*}} {quern.places = [#quern.place<arena [[OTHER:[0-9]+]]>]}
// CHECK:           quern.launch {{.*}} {quern.places = [#quern.place<arena [[CARRIED]]>]}
// CHECK:         {quern.copy_in = [false], quern.copy_out = [false], quern.places = [#quern.place<arena [[CARRIED]]>]}
// CHECK:         quern.launch {{.*}} {quern.places = [#quern.place<output 0>]}
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

// Both residuals of a block are added where the carried value lies: the loop needs one buffer of this size.
// CHECK-LABEL: func.func @residuals
// CHECK:         quern.repeat 3
// CHECK:           quern.launch {{.*}} {quern.places = [#quern.place<arena [[INNER:[0-9]+]]>]}
// CHECK:           quern.launch {{.*}} {quern.places = [#quern.place<arena [[X:[0-9]+]]>]}
// CHECK:           quern.launch {{.*}} {quern.places = [#quern.place<arena [[INNER]]>]}
// CHECK:           quern.launch {{.*}} {quern.places = [#quern.place<arena [[X]]>]}
// CHECK:         {quern.copy_in = [false], quern.copy_out = [false], quern.places = [#quern.place<arena [[X]]>]}
func.func @residuals(%x: !quern.tensor<real[B, D = 8]>) -> !quern.tensor<real[B, D = 8]> {
  %start = quern.tanh %x : (!quern.tensor<real[B, D = 8]>) -> !quern.tensor<real[B, D = 8]>
  %y = quern.repeat 3 carry (%a = %start) : !quern.tensor<real[B, D = 8]> {
    %w = quern.param [["w.0"], ["w.1"], ["w.2"]] : <real[F = 16, D = 8]>
    %v = quern.param [["v.0"], ["v.1"], ["v.2"]] : <real[D = 8, F = 16]>
    %h = quern.contract %a, %w over ["D"] : (!quern.tensor<real[B, D = 8]>, !quern.tensor<real[F = 16, D = 8]>) -> !quern.tensor<real[B, F = 16]>
    %p = quern.contract %h, %v over ["F"] : (!quern.tensor<real[B, F = 16]>, !quern.tensor<real[D = 8, F = 16]>) -> !quern.tensor<real[B, D = 8]>
    %b = quern.add %a, %p : (!quern.tensor<real[B, D = 8]>, !quern.tensor<real[B, D = 8]>) -> !quern.tensor<real[B, D = 8]>
    %i = quern.contract %b, %w over ["D"] : (!quern.tensor<real[B, D = 8]>, !quern.tensor<real[F = 16, D = 8]>) -> !quern.tensor<real[B, F = 16]>
    %q = quern.contract %i, %v over ["F"] : (!quern.tensor<real[B, F = 16]>, !quern.tensor<real[D = 8, F = 16]>) -> !quern.tensor<real[B, D = 8]>
    %c = quern.add %b, %q : (!quern.tensor<real[B, D = 8]>, !quern.tensor<real[B, D = 8]>) -> !quern.tensor<real[B, D = 8]>
    quern.yield %c : !quern.tensor<real[B, D = 8]>
  }
  %z = quern.exp %y : (!quern.tensor<real[B, D = 8]>) -> !quern.tensor<real[B, D = 8]>
  return %z : !quern.tensor<real[B, D = 8]>
}

// Not in place: what the contraction itself reads; what is read again afterwards.
// CHECK-LABEL: func.func @apart
// CHECK:         quern.launch {{.*}} {quern.places = [#quern.place<arena [[A:[0-9]+]]>]}
// CHECK-NOT:     {quern.places = [#quern.place<arena [[A]]>]}
// CHECK:         quern.launch {{.*}} {quern.places = [#quern.place<output 0>]}
func.func @apart(%x: !quern.tensor<real[B, D = 8]>) -> !quern.tensor<real[B, D = 8]> {
  %w = quern.param [["w"]] : <real[F = 8, D = 8]>
  %v = quern.param [["v"]] : <real[G = 8, D = 8]>
  %a = quern.tanh %x : (!quern.tensor<real[B, D = 8]>) -> !quern.tensor<real[B, D = 8]>
  %p = quern.contract %a, %w over ["D"] : (!quern.tensor<real[B, D = 8]>, !quern.tensor<real[F = 8, D = 8]>) -> !quern.tensor<real[B, F = 8]>
  %r = quern.rename %p ["F"] to [#quern.dim<D = 8>] : (!quern.tensor<real[B, F = 8]>) -> !quern.tensor<real[B, D = 8]>
  %b = quern.add %a, %r : (!quern.tensor<real[B, D = 8]>, !quern.tensor<real[B, D = 8]>) -> !quern.tensor<real[B, D = 8]>
  %q = quern.contract %b, %v over ["D"] : (!quern.tensor<real[B, D = 8]>, !quern.tensor<real[G = 8, D = 8]>) -> !quern.tensor<real[B, G = 8]>
  %s = quern.rename %q ["G"] to [#quern.dim<D = 8>] : (!quern.tensor<real[B, G = 8]>) -> !quern.tensor<real[B, D = 8]>
  %c = quern.add %a, %s : (!quern.tensor<real[B, D = 8]>, !quern.tensor<real[B, D = 8]>) -> !quern.tensor<real[B, D = 8]>
  %d = quern.mul %c, %b : (!quern.tensor<real[B, D = 8]>, !quern.tensor<real[B, D = 8]>) -> !quern.tensor<real[B, D = 8]>
  return %d : !quern.tensor<real[B, D = 8]>
}
