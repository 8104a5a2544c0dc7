// RUN: quern-opt --absorb-projections %s | FileCheck %s
//
// What new rows meet after a fixed projection of the memory they meet before it: keys through the query, values after
// the weighted sum. Where the projection has other uses, or is cheaper than that, it stays.

// CHECK-LABEL: func.func @keys
// CHECK: %[[W:.*]] = quern.param
// CHECK: %[[H:.*]] = quern.split %[[W]] "O" into [#quern.dim<H = 8>, #quern.dim<K = 4>]
// CHECK: %[[P:.*]] = quern.contract %arg0, %[[H]] over ["K"] {{.*}} -> !quern.tensor<real[B, T, H = 8, L = 6]>
// CHECK: %[[S:.*]] = quern.contract %[[P]], %arg1 over ["L"] {{.*}} -> !quern.tensor<real[B, T, H = 8, S = "T + past"]>
// CHECK: return %[[S]]
func.func @keys(%q: !quern.tensor<real[B, T, H = 8, K = 4]>, %c: !quern.tensor<real[B, S = "T + past", L = 6]>) -> !quern.tensor<real[B, T, H = 8, S = "T + past"]> {
  %w = quern.param [["w"]] : !quern.tensor<real[O = 32, L = 6]>
  %y = quern.contract %c, %w over ["L"] : (!quern.tensor<real[B, S = "T + past", L = 6]>, !quern.tensor<real[O = 32, L = 6]>) -> !quern.tensor<real[B, S = "T + past", O = 32]>
  %k = quern.split %y "O" into [#quern.dim<H = 8>, #quern.dim<K = 4>] : (!quern.tensor<real[B, S = "T + past", O = 32]>) -> !quern.tensor<real[B, S = "T + past", H = 8, K = 4]>
  %s = quern.contract %q, %k over ["K"] : (!quern.tensor<real[B, T, H = 8, K = 4]>, !quern.tensor<real[B, S = "T + past", H = 8, K = 4]>) -> !quern.tensor<real[B, T, H = 8, S = "T + past"]>
  return %s : !quern.tensor<real[B, T, H = 8, S = "T + past"]>
}

// CHECK-LABEL: func.func @values
// CHECK: %[[M:.*]] = quern.contract %arg0, %arg1 over ["S"] {{.*}} -> !quern.tensor<real[B, T, H = 8, L = 6]>
// CHECK: %[[O:.*]] = quern.contract %[[M]], %{{.*}} over ["L"] {{.*}} -> !quern.tensor<real[B, T, H = 8, U = 4]>
// CHECK: return %[[O]]
func.func @values(%a: !quern.tensor<real[B, T, H = 8, S = "T + past"]>, %c: !quern.tensor<real[B, S = "T + past", L = 6]>) -> !quern.tensor<real[B, T, H = 8, U = 4]> {
  %w = quern.param [["w"]] : !quern.tensor<real[O = 32, L = 6]>
  %y = quern.contract %c, %w over ["L"] : (!quern.tensor<real[B, S = "T + past", L = 6]>, !quern.tensor<real[O = 32, L = 6]>) -> !quern.tensor<real[B, S = "T + past", O = 32]>
  %v = quern.split %y "O" into [#quern.dim<H = 8>, #quern.dim<U = 4>] : (!quern.tensor<real[B, S = "T + past", O = 32]>) -> !quern.tensor<real[B, S = "T + past", H = 8, U = 4]>
  %o = quern.contract %a, %v over ["S"] : (!quern.tensor<real[B, T, H = 8, S = "T + past"]>, !quern.tensor<real[B, S = "T + past", H = 8, U = 4]>) -> !quern.tensor<real[B, T, H = 8, U = 4]>
  return %o : !quern.tensor<real[B, T, H = 8, U = 4]>
}

// A part that all heads share (DeepSeek's rotary key) is met as it is; the scores are a sum.
// CHECK-LABEL: func.func @joined
// CHECK-DAG: %[[N:.*]] = quern.cut %arg0 "K" at "0" into <N = 4>
// CHECK-DAG: %[[R:.*]] = quern.cut %arg0 "K" at "4" into <R = 2>
// CHECK-DAG: %[[P:.*]] = quern.contract %[[N]], %{{.*}} over ["N"] {{.*}} -> !quern.tensor<real[B, T, H = 8, L = 6]>
// CHECK-DAG: %[[S:.*]] = quern.contract %[[P]], %arg1 over ["L"]
// CHECK-DAG: %[[Z:.*]] = quern.contract %[[R]], %arg2 over ["R"]
// CHECK: %[[X:.*]] = quern.add %[[S]], %[[Z]]
// CHECK: return %[[X]]
func.func @joined(%q: !quern.tensor<real[B, T, H = 8, K = 6]>, %c: !quern.tensor<real[B, S = "T + past", L = 6]>, %r: !quern.tensor<real[B, S = "T + past", R = 2]>) -> !quern.tensor<real[B, T, H = 8, S = "T + past"]> {
  %w = quern.param [["w"]] : !quern.tensor<real[H = 8, N = 4, L = 6]>
  %y = quern.contract %c, %w over ["L"] : (!quern.tensor<real[B, S = "T + past", L = 6]>, !quern.tensor<real[H = 8, N = 4, L = 6]>) -> !quern.tensor<real[B, S = "T + past", H = 8, N = 4]>
  %k = quern.concat %y, %r ["N", "R"] into <K = 6> : (!quern.tensor<real[B, S = "T + past", H = 8, N = 4]>, !quern.tensor<real[B, S = "T + past", R = 2]>) -> !quern.tensor<real[B, S = "T + past", H = 8, K = 6]>
  %s = quern.contract %q, %k over ["K"] : (!quern.tensor<real[B, T, H = 8, K = 6]>, !quern.tensor<real[B, S = "T + past", H = 8, K = 6]>) -> !quern.tensor<real[B, T, H = 8, S = "T + past"]>
  return %s : !quern.tensor<real[B, T, H = 8, S = "T + past"]>
}

// A bias lies between: the keys are made.
// CHECK-LABEL: func.func @biased
// CHECK: quern.contract %arg1, %{{.*}} over ["L"] {{.*}} -> !quern.tensor<real[B, S = "T + past", H = 8, K = 4]>
// CHECK: quern.add
// CHECK: quern.contract %arg0, %{{.*}} over ["K"]
func.func @biased(%q: !quern.tensor<real[B, T, H = 8, K = 4]>, %c: !quern.tensor<real[B, S = "T + past", L = 6]>) -> !quern.tensor<real[B, T, H = 8, S = "T + past"]> {
  %w = quern.param [["w"]] : !quern.tensor<real[H = 8, K = 4, L = 6]>
  %b = quern.param [["b"]] : !quern.tensor<real[H = 8, K = 4]>
  %y = quern.contract %c, %w over ["L"] : (!quern.tensor<real[B, S = "T + past", L = 6]>, !quern.tensor<real[H = 8, K = 4, L = 6]>) -> !quern.tensor<real[B, S = "T + past", H = 8, K = 4]>
  %k = quern.add %y, %b : (!quern.tensor<real[B, S = "T + past", H = 8, K = 4]>, !quern.tensor<real[H = 8, K = 4]>) -> !quern.tensor<real[B, S = "T + past", H = 8, K = 4]>
  %s = quern.contract %q, %k over ["K"] : (!quern.tensor<real[B, T, H = 8, K = 4]>, !quern.tensor<real[B, S = "T + past", H = 8, K = 4]>) -> !quern.tensor<real[B, T, H = 8, S = "T + past"]>
  return %s : !quern.tensor<real[B, T, H = 8, S = "T + past"]>
}

// A wide latent and narrow heads: even for one row the projection costs less than its detour.
// CHECK-LABEL: func.func @narrow
// CHECK: quern.contract %arg1, %{{.*}} over ["L"] {{.*}} -> !quern.tensor<real[B, S = "T + past", K = 2]>
// CHECK: quern.contract %arg0, %{{.*}} over ["K"]
func.func @narrow(%q: !quern.tensor<real[B, T, H = 8, K = 2]>, %c: !quern.tensor<real[B, S = "T + past", L = 64]>) -> !quern.tensor<real[B, T, H = 8, S = "T + past"]> {
  %w = quern.param [["w"]] : !quern.tensor<real[K = 2, L = 64]>
  %k = quern.contract %c, %w over ["L"] : (!quern.tensor<real[B, S = "T + past", L = 64]>, !quern.tensor<real[K = 2, L = 64]>) -> !quern.tensor<real[B, S = "T + past", K = 2]>
  %s = quern.contract %q, %k over ["K"] : (!quern.tensor<real[B, T, H = 8, K = 2]>, !quern.tensor<real[B, S = "T + past", K = 2]>) -> !quern.tensor<real[B, T, H = 8, S = "T + past"]>
  return %s : !quern.tensor<real[B, T, H = 8, S = "T + past"]>
}
