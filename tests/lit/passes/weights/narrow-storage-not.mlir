// RUN: quern-opt %s --split-input-file --narrow-storage | FileCheck %s
// Not asked for: nothing changes.
module attributes {quern.train} {
  // CHECK: quern.param {{.*}} : <real[F = 8, D = 4]>
  // CHECK-NEXT: quern.contract %arg0, %0
  func.func @loss(%x: !quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[]> {
    %w = quern.param [["w"]] : !quern.tensor<real[F = 8, D = 4]>
    %0 = quern.contract %x, %w over ["D"] : (!quern.tensor<real[B, D = 4]>, !quern.tensor<real[F = 8, D = 4]>) -> !quern.tensor<real[B, F = 8]>
    %l = quern.reduce sum %0 over ["B", "F"] : (!quern.tensor<real[B, F = 8]>) -> !quern.tensor<real[]>
    return %l : !quern.tensor<real[]>
  }
}

// -----

// What stays real: sums of products within a row (the gradient of a norm's scale), a table that is only looked up, weights of
// an attention. What is looked up and multiplied with (a tied embedding) is bf16 in both places; so are matrices that positions pick.
module attributes {quern.train, quern.precision = "bf16"} {
  // CHECK: module attributes {quern.precision = "bf16"
  // CHECK-DAG: quern.param {{\[\[}}"places"]] : <real[P = 8, D = 4]>
  // CHECK-DAG: %[[E:.*]] = quern.param {{\[\[}}"embed"]] : <bf16[V = 9, D = 4]>
  // CHECK: %[[G:.*]] = quern.gather %[[E]]["V"
  // CHECK: quern.widen %[[G]]
  // CHECK: %[[A:.*]] = quern.softmax
  // CHECK-NOT: quern.narrow %[[A]]
  // CHECK: quern.contract %[[A]]
  // CHECK: %[[W:.*]] = quern.param {{\[\[}}"experts.{E}.w"]] {quern.routed_share = 5.000000e-01 : f64} : <bf16[E = 3, D = 4, F = 4]>
  // CHECK: %[[P:.*]] = quern.gather %[[W]]["E" {{.*}} -> !quern.tensor<bf16[B, T, D = 4, F = 4]>
  // CHECK: %[[V:.*]] = quern.widen %[[P]]
  // CHECK: quern.contract %{{.*}}, %[[V]]
  // CHECK: quern.contract %{{.*}} over ["B", "T"]
  // CHECK-NOT: quern.narrow
  // CHECK: return
  func.func @loss(%t: !quern.tensor<int[B, T]>, %c: !quern.tensor<int[B, T]>) -> (!quern.tensor<real[]>, !quern.tensor<real[V = 9]>, !quern.tensor<real[D = 4]>) {
    %p = quern.param [["places"]] : !quern.tensor<real[P = 8, D = 4]>
    %e = quern.param [["embed"]] : !quern.tensor<real[V = 9, D = 4]>
    %i = quern.index : !quern.tensor<int[T]>
    %x = quern.gather %e["V" = %t] : (!quern.tensor<real[V = 9, D = 4]>, !quern.tensor<int[B, T]>) -> !quern.tensor<real[B, T, D = 4]>
    %o = quern.gather %p["P" = %i] : (!quern.tensor<real[P = 8, D = 4]>, !quern.tensor<int[T]>) -> !quern.tensor<real[T, D = 4]>
    %y = quern.add %x, %o : (!quern.tensor<real[B, T, D = 4]>, !quern.tensor<real[T, D = 4]>) -> !quern.tensor<real[B, T, D = 4]>
    %k = quern.rename %y ["T"] to [#quern.dim<S = T>] : (!quern.tensor<real[B, T, D = 4]>) -> !quern.tensor<real[B, S = T, D = 4]>
    %s = quern.contract %y, %k over ["D"] : (!quern.tensor<real[B, T, D = 4]>, !quern.tensor<real[B, S = T, D = 4]>) -> !quern.tensor<real[B, T, S = T]>
    %a = quern.softmax %s over ["S"] : (!quern.tensor<real[B, T, S = T]>) -> !quern.tensor<real[B, T, S = T]>
    %v = quern.contract %a, %k over ["S"] : (!quern.tensor<real[B, T, S = T]>, !quern.tensor<real[B, S = T, D = 4]>) -> !quern.tensor<real[B, T, D = 4]>
    %w = quern.param [["experts.{E}.w"]] {quern.routed_share = 5.000000e-01 : f64} : !quern.tensor<real[E = 3, D = 4, F = 4]>
    %q = quern.gather %w["E" = %c] : (!quern.tensor<real[E = 3, D = 4, F = 4]>, !quern.tensor<int[B, T]>) -> !quern.tensor<real[B, T, D = 4, F = 4]>
    %f = quern.contract %v, %q over ["D"] : (!quern.tensor<real[B, T, D = 4]>, !quern.tensor<real[B, T, D = 4, F = 4]>) -> !quern.tensor<real[B, T, F = 4]>
    %d = quern.rename %f ["F"] to [#quern.dim<D = 4>] : (!quern.tensor<real[B, T, F = 4]>) -> !quern.tensor<real[B, T, D = 4]>
    %g = quern.contract %d, %y over ["B", "T"] : (!quern.tensor<real[B, T, D = 4]>, !quern.tensor<real[B, T, D = 4]>) -> !quern.tensor<real[D = 4]>
    %m = quern.reduce mean %d over ["B", "T"] : (!quern.tensor<real[B, T, D = 4]>) -> !quern.tensor<real[D = 4]>
    %z = quern.contract %y, %e over ["D"] : (!quern.tensor<real[B, T, D = 4]>, !quern.tensor<real[V = 9, D = 4]>) -> !quern.tensor<real[B, T, V = 9]>
    %u = quern.reduce sum %z over ["B", "T"] : (!quern.tensor<real[B, T, V = 9]>) -> !quern.tensor<real[V = 9]>
    %l = quern.reduce sum %m over ["D"] : (!quern.tensor<real[D = 4]>) -> !quern.tensor<real[]>
    return %l, %u, %g : !quern.tensor<real[]>, !quern.tensor<real[V = 9]>, !quern.tensor<real[D = 4]>
  }
}
