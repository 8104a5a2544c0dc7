// Contractions of one value with several weights become one, over a weight that the loader joins.
// RUN: quern-opt --pack-projections --split-input-file %s | FileCheck %s
// RUN: quern-opt --pack-projections --outline-kernels --split-input-file %s | FileCheck %s --check-prefix=KERNEL

// Queries, keys and values, each with rows of its own: one after the other.
// CHECK-LABEL: func.func @qkv
// CHECK: %[[Q:.*]] = quern.param {{\[\[}}"q"]]
// CHECK: %[[K:.*]] = quern.param {{\[\[}}"k"]]
// CHECK: %[[V:.*]] = quern.param {{\[\[}}"v"]]
// CHECK: %[[W:.*]] = quern.concat %[[Q]], %[[K]], %[[V]] ["Q", "K", "V"] into <P.0 = 32> {quern.weight}
// CHECK: %[[P:.*]] = quern.contract %arg0, %[[W]] over ["D"]
// CHECK: quern.cut %[[P]] "P.0" at "0" into <Q = 16>
// CHECK: quern.cut %[[P]] "P.0" at "16" into <K = 8>
// CHECK: quern.cut %[[P]] "P.0" at "24" into <V = 8>
// CHECK-NOT: quern.contract
// The parts go different ways, and are results of one kernel.
// KERNEL-LABEL: func.func @qkv
// KERNEL: %[[ALL:.*]]:3 = quern.launch @contract_0
// KERNEL-NOT: quern.launch
// KERNEL: return %[[ALL]]#0, %[[ALL]]#1, %[[ALL]]#2
func.func @qkv(%x: !quern.tensor<real[B, T, D = 8]>) -> (!quern.tensor<real[B, T, Q = 16]>, !quern.tensor<real[B, T, K = 8]>, !quern.tensor<real[B, T, V = 8]>) {
  %wq = quern.param [["q"]] : <real[Q = 16, D = 8]>
  %q = quern.contract %x, %wq over ["D"] : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[Q = 16, D = 8]>) -> !quern.tensor<real[B, T, Q = 16]>
  %b = quern.param [["q.bias"]] : <real[Q = 16]>
  %s = quern.add %q, %b : (!quern.tensor<real[B, T, Q = 16]>, !quern.tensor<real[Q = 16]>) -> !quern.tensor<real[B, T, Q = 16]>
  %wk = quern.param [["k"]] : <real[K = 8, D = 8]>
  %k = quern.contract %x, %wk over ["D"] : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[K = 8, D = 8]>) -> !quern.tensor<real[B, T, K = 8]>
  %e = quern.exp %k : (!quern.tensor<real[B, T, K = 8]>) -> !quern.tensor<real[B, T, K = 8]>
  %wv = quern.param [["v"]] : <real[V = 8, D = 8]>
  %v = quern.contract %x, %wv over ["D"] : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[V = 8, D = 8]>) -> !quern.tensor<real[B, T, V = 8]>
  %n = quern.neg %v : (!quern.tensor<real[B, T, V = 8]>) -> !quern.tensor<real[B, T, V = 8]>
  return %s, %e, %n : !quern.tensor<real[B, T, Q = 16]>, !quern.tensor<real[B, T, K = 8]>, !quern.tensor<real[B, T, V = 8]>
}

// -----

// Gate and up share the label of their rows: along a dimension of their own, so that a kernel has the same row of both.
// CHECK-LABEL: func.func @gated
// CHECK: quern.concat {{.*}} into <U.0 = 2> {quern.weight}
// CHECK: %[[P:.*]] = quern.contract
// CHECK: quern.cut %[[P]] "U.0" at "0"
// CHECK: quern.cut %[[P]] "U.0" at "1"
// CHECK-NOT: quern.contract
// KERNEL-LABEL: func.func @gated
// KERNEL-COUNT-1: quern.launch @contract_0
// KERNEL-NOT: quern.launch
// KERNEL: return
func.func @gated(%x: !quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, F = 16]> {
  %wg = quern.param [["gate"]] : <real[F = 16, D = 8]>
  %g = quern.contract %x, %wg over ["D"] : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[F = 16, D = 8]>) -> !quern.tensor<real[B, T, F = 16]>
  %wu = quern.param [["up"]] : <real[F = 16, D = 8]>
  %u = quern.contract %x, %wu over ["D"] : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[F = 16, D = 8]>) -> !quern.tensor<real[B, T, F = 16]>
  %s = quern.sigmoid %g : (!quern.tensor<real[B, T, F = 16]>) -> !quern.tensor<real[B, T, F = 16]>
  %m = quern.mul %s, %u : (!quern.tensor<real[B, T, F = 16]>, !quern.tensor<real[B, T, F = 16]>) -> !quern.tensor<real[B, T, F = 16]>
  return %m : !quern.tensor<real[B, T, F = 16]>
}

// -----

// A norm that only the packed contraction reads is made in its kernel; what the norm is made from is stored.
// CHECK-LABEL: func.func @norm
// KERNEL-LABEL: func.func @norm
// KERNEL-COUNT-1: quern.launch
// KERNEL-NOT: quern.launch
// KERNEL: return
func.func @norm(%x: !quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, F = 16]> {
  %q = quern.mul %x, %x : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
  %m = quern.reduce mean %q over ["D"] : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T]>
  %r = quern.sqrt %m : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T]>
  %h = quern.div %x, %r : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T, D = 8]>
  %wg = quern.param [["gate"]] : <real[F = 16, D = 8]>
  %g = quern.contract %h, %wg over ["D"] : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[F = 16, D = 8]>) -> !quern.tensor<real[B, T, F = 16]>
  %wu = quern.param [["up"]] : <real[F = 16, D = 8]>
  %u = quern.contract %h, %wu over ["D"] : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[F = 16, D = 8]>) -> !quern.tensor<real[B, T, F = 16]>
  %m2 = quern.mul %g, %u : (!quern.tensor<real[B, T, F = 16]>, !quern.tensor<real[B, T, F = 16]>) -> !quern.tensor<real[B, T, F = 16]>
  return %m2 : !quern.tensor<real[B, T, F = 16]>
}

// -----

// Not joined: a weight that somebody else reads too, another input, rows that would begin within a tile.
// CHECK-LABEL: func.func @apart
// CHECK-NOT: quern.concat
// CHECK: return
func.func @apart(%x: !quern.tensor<real[B, T, D = 8]>, %z: !quern.tensor<real[B, T, D = 8]>) -> (!quern.tensor<real[B, T, Q = 16]>, !quern.tensor<real[B, T, K = 16]>, !quern.tensor<real[B, T, V = 5]>, !quern.tensor<real[B, T, H = 16]>, !quern.tensor<real[K = 16, D = 8]>) {
  %wv = quern.param [["v"]] : <real[V = 5, D = 8]>
  %v = quern.contract %x, %wv over ["D"] : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[V = 5, D = 8]>) -> !quern.tensor<real[B, T, V = 5]>
  %wq = quern.param [["q"]] : <real[Q = 16, D = 8]>
  %q = quern.contract %x, %wq over ["D"] : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[Q = 16, D = 8]>) -> !quern.tensor<real[B, T, Q = 16]>
  %wk = quern.param [["k"]] : <real[K = 16, D = 8]>
  %k = quern.contract %x, %wk over ["D"] : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[K = 16, D = 8]>) -> !quern.tensor<real[B, T, K = 16]>
  %wh = quern.param [["h"]] : <real[H = 16, D = 8]>
  %h = quern.contract %z, %wh over ["D"] : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[H = 16, D = 8]>) -> !quern.tensor<real[B, T, H = 16]>
  return %q, %k, %v, %h, %wk : !quern.tensor<real[B, T, Q = 16]>, !quern.tensor<real[B, T, K = 16]>, !quern.tensor<real[B, T, V = 5]>, !quern.tensor<real[B, T, H = 16]>, !quern.tensor<real[K = 16, D = 8]>
}

// -----

// Weights of different formats stay apart; those that share one are joined.
module attributes {quern.quantize = "q4_k,v=q6_k"} {
  // CHECK-LABEL: func.func @formats
  // CHECK: quern.repeat
  // CHECK: quern.concat {{.*}} ["Q", "K"] into <P.0 = 24> {quern.weight}
  // CHECK: %[[V:.*]] = quern.param {{\[\[}}"v"]]
  // CHECK: quern.contract %{{.*}}, %[[V]] over ["D"]
  func.func @formats(%x: !quern.tensor<real[T, D = 8]>) -> !quern.tensor<real[T, D = 8]> {
    %y = quern.repeat 1 carry (%h = %x) : !quern.tensor<real[T, D = 8]> {
      %wq = quern.param [["q"]] : <real[Q = 16, D = 8]>
      %q = quern.contract %h, %wq over ["D"] : (!quern.tensor<real[T, D = 8]>, !quern.tensor<real[Q = 16, D = 8]>) -> !quern.tensor<real[T, Q = 16]>
      %wk = quern.param [["k"]] : <real[K = 8, D = 8]>
      %k = quern.contract %h, %wk over ["D"] : (!quern.tensor<real[T, D = 8]>, !quern.tensor<real[K = 8, D = 8]>) -> !quern.tensor<real[T, K = 8]>
      %wv = quern.param [["v"]] : <real[V = 8, D = 8]>
      %v = quern.contract %h, %wv over ["D"] : (!quern.tensor<real[T, D = 8]>, !quern.tensor<real[V = 8, D = 8]>) -> !quern.tensor<real[T, V = 8]>
      %s = quern.reduce sum %q over ["Q"] : (!quern.tensor<real[T, Q = 16]>) -> !quern.tensor<real[T]>
      %r = quern.rename %k ["K"] to [#quern.dim<D = 8>] : (!quern.tensor<real[T, K = 8]>) -> !quern.tensor<real[T, D = 8]>
      %u = quern.rename %v ["V"] to [#quern.dim<D = 8>] : (!quern.tensor<real[T, V = 8]>) -> !quern.tensor<real[T, D = 8]>
      %a = quern.add %r, %u : (!quern.tensor<real[T, D = 8]>, !quern.tensor<real[T, D = 8]>) -> !quern.tensor<real[T, D = 8]>
      %b = quern.add %a, %s : (!quern.tensor<real[T, D = 8]>, !quern.tensor<real[T]>) -> !quern.tensor<real[T, D = 8]>
      quern.yield %b : !quern.tensor<real[T, D = 8]>
    }
    return %y : !quern.tensor<real[T, D = 8]>
  }
}
