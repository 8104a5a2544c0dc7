// RUN: quern-opt %s --split-input-file --narrow-attention | FileCheck %s
// What is in bf16 already, behind moves, stays; the rest is rounded where it is made, and so are weights.
module attributes {quern.quantize = "w16a16", quern.kv_cache = "bf16"} {
  // CHECK-LABEL: @rounded
  // CHECK-DAG: %[[QN:.*]] = quern.narrow %arg0 :
  // CHECK-DAG: %[[Q:.*]] = quern.widen %[[QN]] :
  // CHECK-DAG: %[[VN:.*]] = quern.narrow %arg2 :
  // CHECK-DAG: %[[V:.*]] = quern.widen %[[VN]] :
  // CHECK: %[[K:.*]] = quern.widen %arg1 :
  // CHECK-NEXT: %[[P:.*]] = quern.permute %[[K]] :
  // CHECK-NEXT: quern.attention %[[Q]] with %[[P]] over "S" of %[[V]] narrow {
  func.func @rounded(%q: !quern.tensor<real[T, K = 4]>, %cache: !quern.tensor<bf16[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>) -> !quern.tensor<real[T, C = 3]> {
    %k = quern.widen %cache : (!quern.tensor<bf16[S, K = 4]>) -> !quern.tensor<real[S, K = 4]>
    %p = quern.permute %k : (!quern.tensor<real[S, K = 4]>) -> !quern.tensor<real[K = 4, S]>
    %o = quern.attention %q with %p over "S" of %v {
    ^bb0(%x: !quern.tensor<real[T, S]>):
      quern.yield %x : !quern.tensor<real[T, S]>
    } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[K = 4, S]>, !quern.tensor<real[S, C = 3]>) -> !quern.tensor<real[T, C = 3]>
    return %o : !quern.tensor<real[T, C = 3]>
  }
}

// -----

// Rows of weights that are not rounded; caches in f32, or in codes: as it was.
module attributes {quern.quantize = "int8", quern.kv_cache = "bf16"} {
  // CHECK-LABEL: @exact
  // CHECK: quern.attention %arg0 with %{{.*}} over "S" of %arg2 {
  func.func @exact(%q: !quern.tensor<real[T, K = 4]>, %cache: !quern.tensor<bf16[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>) -> !quern.tensor<real[T, C = 3]> {
    %k = quern.widen %cache : (!quern.tensor<bf16[S, K = 4]>) -> !quern.tensor<real[S, K = 4]>
    %p = quern.permute %k : (!quern.tensor<real[S, K = 4]>) -> !quern.tensor<real[K = 4, S]>
    %o = quern.attention %q with %p over "S" of %v {
    ^bb0(%x: !quern.tensor<real[T, S]>):
      quern.yield %x : !quern.tensor<real[T, S]>
    } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[K = 4, S]>, !quern.tensor<real[S, C = 3]>) -> !quern.tensor<real[T, C = 3]>
    return %o : !quern.tensor<real[T, C = 3]>
  }
}

// -----

module attributes {quern.quantize = "w8a8"} {
  // CHECK-LABEL: @whole
  // CHECK: quern.attention %arg0 with %{{.*}} over "S" of %arg2 {
  func.func @whole(%q: !quern.tensor<real[T, K = 4]>, %cache: !quern.tensor<bf16[S, K = 4]>, %v: !quern.tensor<real[S, C = 3]>) -> !quern.tensor<real[T, C = 3]> {
    %k = quern.widen %cache : (!quern.tensor<bf16[S, K = 4]>) -> !quern.tensor<real[S, K = 4]>
    %p = quern.permute %k : (!quern.tensor<real[S, K = 4]>) -> !quern.tensor<real[K = 4, S]>
    %o = quern.attention %q with %p over "S" of %v {
    ^bb0(%x: !quern.tensor<real[T, S]>):
      quern.yield %x : !quern.tensor<real[T, S]>
    } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[K = 4, S]>, !quern.tensor<real[S, C = 3]>) -> !quern.tensor<real[T, C = 3]>
    return %o : !quern.tensor<real[T, C = 3]>
  }
}

// -----

module attributes {quern.quantize = "w8a8", quern.kv_cache = "bf16"} {
  // CHECK-LABEL: @coded
  // CHECK: quern.attention %arg0 with %{{.*}} over "S" of %arg3 {
  func.func @coded(%q: !quern.tensor<real[T, K = 4]>, %codes: !quern.tensor<i8[S, K = 4]>, %scales: !quern.tensor<bf16[S]>, %v: !quern.tensor<real[S, C = 3]>) -> !quern.tensor<real[T, C = 3]> {
    %k = quern.rescale %codes by %scales : (!quern.tensor<i8[S, K = 4]>, !quern.tensor<bf16[S]>) -> !quern.tensor<real[S, K = 4]>
    %o = quern.attention %q with %k over "S" of %v {
    ^bb0(%x: !quern.tensor<real[T, S]>):
      quern.yield %x : !quern.tensor<real[T, S]>
    } : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, C = 3]>) -> !quern.tensor<real[T, C = 3]>
    return %o : !quern.tensor<real[T, C = 3]>
  }
}
