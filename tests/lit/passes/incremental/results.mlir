// RUN: quern-opt --incremental --split-input-file %s | FileCheck %s
//
// A step can give results for new rows only.

// CHECK: quern.refusal = "{{.*}}results.mlir:8:8: the result has a twin of T"
func.func @forward(%x: !quern.tensor<real[B, T]> {quern.name = "tokens"}) -> !quern.tensor<real[B, T, S = T]> {
  %s = quern.rename %x ["T"] to [#quern.dim<S = T>] : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[B, S = T]>
  %y = quern.add %x, %s : (!quern.tensor<real[B, T]>, !quern.tensor<real[B, S = T]>) -> !quern.tensor<real[B, T, S = T]>
  return %y : !quern.tensor<real[B, T, S = T]>
}

// -----

// CHECK: quern.refusal = "{{.*}}: the result has no T"
func.func @forward(%x: !quern.tensor<real[B, T]> {quern.name = "tokens"}) -> !quern.tensor<real[]> {
  %s = quern.const 1.0 : f64 -> !quern.tensor<real[]>
  return %s : !quern.tensor<real[]>
}
