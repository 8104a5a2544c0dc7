// Weights of many dimensions become matrices: other strides of the same memory.
// RUN: quern-opt --flatten-weights --split-input-file %s | FileCheck %s
// RUN: quern-opt --flatten-weights --pack-projections --outline-kernels --split-input-file %s | FileCheck %s --check-prefix=KERNEL

// Heads and what each has are rows of one matrix, and apart again behind the contraction.
// CHECK-LABEL: func.func @rows
// CHECK: %[[W:.*]] = quern.param {{\[\[}}"q"]] : <real[H = 4, K = 8, D = 16]>
// CHECK: %[[M:.*]] = quern.merge %[[W]] ["H", "K"] into <F.0 = 32>
// CHECK: %[[Y:.*]] = quern.contract %arg0, %[[M]] over ["D"]
// CHECK-SAME: -> !quern.tensor<real[B, T, F.0 = 32]>
// CHECK: quern.split %[[Y]] "F.0" into [#quern.dim<H = 4>, #quern.dim<K = 8>]
// KERNEL-LABEL: func.func @rows
// KERNEL-COUNT-1: quern.launch
// KERNEL-NOT: quern.launch
// KERNEL: quern.kernel @contract_0{{.*}}"packed"
func.func @rows(%x: !quern.tensor<real[B, T, D = 16]>) -> !quern.tensor<real[B, T, H = 4, K = 8]> {
  %w = quern.param [["q"]] : <real[H = 4, K = 8, D = 16]>
  %y = quern.contract %x, %w over ["D"] : (!quern.tensor<real[B, T, D = 16]>, !quern.tensor<real[H = 4, K = 8, D = 16]>) -> !quern.tensor<real[B, T, H = 4, K = 8]>
  return %y : !quern.tensor<real[B, T, H = 4, K = 8]>
}

// -----

// What is summed is merged in both; the weight may come first and its rows last.
// CHECK-LABEL: func.func @depth
// CHECK: %[[W:.*]] = quern.param {{\[\[}}"o"]]
// CHECK: %[[M:.*]] = quern.merge %[[W]] ["H", "K"] into <I.0 = 32>
// CHECK: %[[X:.*]] = quern.merge %arg0 ["H", "K"] into <I.0 = 32>
// CHECK: quern.contract %[[M]], %[[X]] over ["I.0"]
// CHECK-NOT: quern.split
func.func @depth(%x: !quern.tensor<real[B, T, H = 4, K = 8]>) -> !quern.tensor<real[D = 16, B, T]> {
  %w = quern.param [["o"]] : <real[H = 4, K = 8, D = 16]>
  %y = quern.contract %w, %x over ["H", "K"] : (!quern.tensor<real[H = 4, K = 8, D = 16]>, !quern.tensor<real[B, T, H = 4, K = 8]>) -> !quern.tensor<real[D = 16, B, T]>
  return %y : !quern.tensor<real[D = 16, B, T]>
}

// -----

// Queries, keys and values of many dimensions are packed like any others.
// CHECK-LABEL: func.func @qkv
// KERNEL-LABEL: func.func @qkv
// KERNEL: quern.concat {{.*}}["F.0", "F.1"] into <P.0 = 64> {quern.weight}
// KERNEL: quern.launch
// KERNEL-NOT: quern.launch
// KERNEL: return
func.func @qkv(%x: !quern.tensor<real[B, T, D = 16]>) -> (!quern.tensor<real[B, T, H = 4, K = 8]>, !quern.tensor<real[B, T, H = 4, K = 8]>) {
  %wq = quern.param [["q"]] : <real[H = 4, K = 8, D = 16]>
  %wk = quern.param [["k"]] : <real[H = 4, K = 8, D = 16]>
  %q = quern.contract %x, %wq over ["D"] : (!quern.tensor<real[B, T, D = 16]>, !quern.tensor<real[H = 4, K = 8, D = 16]>) -> !quern.tensor<real[B, T, H = 4, K = 8]>
  %k = quern.contract %x, %wk over ["D"] : (!quern.tensor<real[B, T, D = 16]>, !quern.tensor<real[H = 4, K = 8, D = 16]>) -> !quern.tensor<real[B, T, H = 4, K = 8]>
  return %q, %k : !quern.tensor<real[B, T, H = 4, K = 8]>, !quern.tensor<real[B, T, H = 4, K = 8]>
}

// -----

// Not: rows on both sides of what is summed, a matrix for each group, and matrices that are chosen from somewhere.
// CHECK-LABEL: func.func @apart
// CHECK-NOT: quern.merge
// CHECK: return
func.func @apart(%x: !quern.tensor<real[B, G = 2, D = 16]>) -> (!quern.tensor<real[B, G = 2, H = 4, K = 8]>, !quern.tensor<real[B, G = 2, K = 8]>, !quern.tensor<real[B, G = 2, E = 4, K = 8]>) {
  %w = quern.param [["between"]] : <real[H = 4, D = 16, K = 8]>
  %y = quern.contract %x, %w over ["D"] : (!quern.tensor<real[B, G = 2, D = 16]>, !quern.tensor<real[H = 4, D = 16, K = 8]>) -> !quern.tensor<real[B, G = 2, H = 4, K = 8]>
  %v = quern.param [["groups"]] : <real[G = 2, K = 8, D = 16]>
  %z = quern.contract %x, %v over ["D"] : (!quern.tensor<real[B, G = 2, D = 16]>, !quern.tensor<real[G = 2, K = 8, D = 16]>) -> !quern.tensor<real[B, G = 2, K = 8]>
  %e = quern.param [["experts"]] : <real[E = 4, K = 8, D = 16]>
  %a = quern.contract %x, %e over ["D"] : (!quern.tensor<real[B, G = 2, D = 16]>, !quern.tensor<real[E = 4, K = 8, D = 16]>) -> !quern.tensor<real[B, G = 2, E = 4, K = 8]>
  return %y, %z, %a : !quern.tensor<real[B, G = 2, H = 4, K = 8]>, !quern.tensor<real[B, G = 2, K = 8]>, !quern.tensor<real[B, G = 2, E = 4, K = 8]>
}

func.func @chosen(%n: !quern.tensor<int[B, C = 2]>, %x: !quern.tensor<real[B, D = 16]>) -> !quern.tensor<real[B, C = 2, K = 8]> {
  %e = quern.param [["experts"]] : <real[E = 4, K = 8, D = 16]>
  %p = quern.gather %e["E" = %n] : (!quern.tensor<real[E = 4, K = 8, D = 16]>, !quern.tensor<int[B, C = 2]>) -> !quern.tensor<real[B, C = 2, K = 8, D = 16]>
  %y = quern.contract %x, %p over ["D"] : (!quern.tensor<real[B, D = 16]>, !quern.tensor<real[B, C = 2, K = 8, D = 16]>) -> !quern.tensor<real[B, C = 2, K = 8]>
  return %y : !quern.tensor<real[B, C = 2, K = 8]>
}
