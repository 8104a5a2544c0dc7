// RUN: quern-opt %s --outline-kernels --split-input-file | FileCheck %s
// What a loop carries is stored as real: the products round what they read of it, and no launch only narrows. What goes on a stack in
// bf16 has its own.
// CHECK-LABEL: func.func @carried
// CHECK: quern.repeat 2 carry (%[[H:.*]] = %{{.*}}) :
// CHECK: quern.launch @contract{{.*}}({{.*}}%[[H]]{{.*}})
// CHECK: quern.launch @contract{{.*}}({{.*}}%[[H]]{{.*}})
// CHECK-NOT: quern.launch
// CHECK: quern.launch @map{{.*}}(%{{.*}}) : (!quern.tensor<real[{{.*}}]>) -> !quern.tensor<bf16[
// CHECK-NOT: quern.launch
// CHECK: quern.yield
func.func @carried(%x: !quern.tensor<real[M, D = 8]> {quern.name = "x"}) -> !quern.tensor<bf16[iterations = 2, M, D = 8]> {
  %r:2 = quern.repeat 2 carry (%h = %x) : !quern.tensor<real[M, D = 8]> gives !quern.tensor<bf16[iterations = 2, M, D = 8]> {
    %v = quern.param [["a.0"], ["a.1"]] : !quern.tensor<bf16[F = 16, D = 8]>
    %w = quern.param [["b.0"], ["b.1"]] : !quern.tensor<bf16[D = 8, F = 16]>
    %n = quern.narrow %h : (!quern.tensor<real[M, D = 8]>) -> !quern.tensor<bf16[M, D = 8]>
    %p = quern.widen %n : (!quern.tensor<bf16[M, D = 8]>) -> !quern.tensor<real[M, D = 8]>
    %vw = quern.widen %v : (!quern.tensor<bf16[F = 16, D = 8]>) -> !quern.tensor<real[F = 16, D = 8]>
    %ww = quern.widen %w : (!quern.tensor<bf16[D = 8, F = 16]>) -> !quern.tensor<real[D = 8, F = 16]>
    %a = quern.contract %p, %vw over ["D"] : (!quern.tensor<real[M, D = 8]>, !quern.tensor<real[F = 16, D = 8]>) -> !quern.tensor<real[M, F = 16]>
    %an = quern.narrow %a : (!quern.tensor<real[M, F = 16]>) -> !quern.tensor<bf16[M, F = 16]>
    %aw = quern.widen %an : (!quern.tensor<bf16[M, F = 16]>) -> !quern.tensor<real[M, F = 16]>
    %b = quern.contract %aw, %ww over ["F"] : (!quern.tensor<real[M, F = 16]>, !quern.tensor<real[D = 8, F = 16]>) -> !quern.tensor<real[M, D = 8]>
    %s = quern.mul %b, %p : (!quern.tensor<real[M, D = 8]>, !quern.tensor<real[M, D = 8]>) -> !quern.tensor<real[M, D = 8]>
    %k = quern.narrow %s : (!quern.tensor<real[M, D = 8]>) -> !quern.tensor<bf16[M, D = 8]>
    quern.yield %s, %k : !quern.tensor<real[M, D = 8]>, !quern.tensor<bf16[M, D = 8]>
  }
  return %r#1 : !quern.tensor<bf16[iterations = 2, M, D = 8]>
}

// -----

// A step from a value in bf16 is recomputed by both who read it, as one from a real value is.
// CHECK-LABEL: func.func @light
// CHECK-NOT: quern.launch @map
// CHECK: quern.launch @reduce
// CHECK: quern.launch @reduce
// CHECK-NOT: quern.launch
// CHECK: return
func.func @light(%x: !quern.tensor<bf16[M, D = 8]> {quern.name = "x"}) -> (!quern.tensor<real[M]>, !quern.tensor<real[D = 8]>) {
  %h = quern.const 0.5 : f64 -> !quern.tensor<real[]>
  %w = quern.widen %x : (!quern.tensor<bf16[M, D = 8]>) -> !quern.tensor<real[M, D = 8]>
  %m = quern.mul %w, %h : (!quern.tensor<real[M, D = 8]>, !quern.tensor<real[]>) -> !quern.tensor<real[M, D = 8]>
  %e = quern.exp %m : (!quern.tensor<real[M, D = 8]>) -> !quern.tensor<real[M, D = 8]>
  %a = quern.reduce sum %m over ["D"] : (!quern.tensor<real[M, D = 8]>) -> !quern.tensor<real[M]>
  %b = quern.reduce sum %e over ["M"] : (!quern.tensor<real[M, D = 8]>) -> !quern.tensor<real[D = 8]>
  return %a, %b : !quern.tensor<real[M]>, !quern.tensor<real[D = 8]>
}
