// RUN: quern-opt %s --split-input-file --narrow-storage | FileCheck %s
// Keys become codes, and scales a state beside theirs, in every function; rows that fit no head, sums and what no product reads
// stay.
module attributes {quern.kv_cache = "int8"} {
  // CHECK: quern.state @keys of "f" : !quern.tensor<i8[B, cap, K = 8]>
  // CHECK: quern.state @keys.scales of "f" : !quern.tensor<bf16[B, cap]>
  // CHECK: quern.state @gates of "f" : !quern.tensor<real[B, cap, H = 8]>
  // CHECK: quern.state @sum of "f" : !quern.tensor<real[B, K = 8]>
  quern.state @keys of "f" : !quern.tensor<real[B, cap, K = 8]>
  quern.state @gates of "f" : !quern.tensor<real[B, cap, H = 8]>
  quern.state @sum of "f" : !quern.tensor<real[B, K = 8]>
  // CHECK-LABEL: @f
  // CHECK: %[[A:.*]] = quern.abs %arg0
  // CHECK: %[[M:.*]] = quern.reduce max %[[A]] over ["K"]
  // CHECK: %[[S:.*]] = quern.narrow %{{.*}} -> !quern.tensor<bf16[B, T]>
  // CHECK: quern.widen %[[S]]
  // CHECK: %[[R:.*]] = quern.round
  // CHECK: %[[C:.*]] = quern.narrow %[[R]] : {{.*}} -> !quern.tensor<i8[B, T, K = 8]>
  // CHECK: %[[AC:.*]] = quern.remember %[[C]] "T" to <S = "T + past"> in @keys :
  // CHECK: %[[AS:.*]] = quern.remember %[[S]] "T" to <S = "T + past"> in @keys.scales :
  // CHECK: %[[K:.*]] = quern.rescale %[[AC]] by %[[AS]]
  // CHECK: quern.contract %arg1, %[[K]] over ["K"]
  // CHECK: quern.remember %arg2 {{.*}} in @gates : (!quern.tensor<real
  func.func @f(%k: !quern.tensor<real[B, T, K = 8]>, %q: !quern.tensor<real[B, K = 8]>, %g: !quern.tensor<real[B, T, H = 8]>) -> (!quern.tensor<real[B, S = "T + past"]>, !quern.tensor<real[B, S = "T + past", H = 8]>) {
    %all = quern.remember %k "T" to <S = "T + past"> in @keys : (!quern.tensor<real[B, T, K = 8]>) -> !quern.tensor<real[B, S = "T + past", K = 8]>
    %p = quern.contract %q, %all over ["K"] : (!quern.tensor<real[B, K = 8]>, !quern.tensor<real[B, S = "T + past", K = 8]>) -> !quern.tensor<real[B, S = "T + past"]>
    %gates = quern.remember %g "T" to <S = "T + past"> in @gates : (!quern.tensor<real[B, T, H = 8]>) -> !quern.tensor<real[B, S = "T + past", H = 8]>
    %old = quern.recall @sum : !quern.tensor<real[B, K = 8]>
    %new = quern.add %old, %q : (!quern.tensor<real[B, K = 8]>, !quern.tensor<real[B, K = 8]>) -> !quern.tensor<real[B, K = 8]>
    quern.store %new in @sum : !quern.tensor<real[B, K = 8]>
    return %p, %gates : !quern.tensor<real[B, S = "T + past"]>, !quern.tensor<real[B, S = "T + past", H = 8]>
  }
}

// -----

// Where nobody asked: the function of the spec keeps f32, in a state of its own; the form for steps rounds.
module attributes {quern.kv_cache = "bf16", quern.kv_cache_of_steps} {
  // CHECK: quern.state @keys of "f" : !quern.tensor<bf16[B, cap, K = 8]>
  // CHECK: quern.state @keys.whole of "f" : !quern.tensor<real[B, cap, K = 8]>
  quern.state @keys of "f" : !quern.tensor<real[B, cap, K = 8]>
  // CHECK-LABEL: @f
  // CHECK: %[[W:.*]] = quern.remember %arg0 {{.*}} in @keys.whole : (!quern.tensor<real
  // CHECK: quern.contract %arg1, %[[W]]
  func.func @f(%k: !quern.tensor<real[B, T, K = 8]>, %q: !quern.tensor<real[B, K = 8]>) -> !quern.tensor<real[B, S = "T + past"]> {
    %all = quern.remember %k "T" to <S = "T + past"> in @keys : (!quern.tensor<real[B, T, K = 8]>) -> !quern.tensor<real[B, S = "T + past", K = 8]>
    %p = quern.contract %q, %all over ["K"] : (!quern.tensor<real[B, K = 8]>, !quern.tensor<real[B, S = "T + past", K = 8]>) -> !quern.tensor<real[B, S = "T + past"]>
    return %p : !quern.tensor<real[B, S = "T + past"]>
  }
  // CHECK-LABEL: @f.last
  // CHECK: %[[N:.*]] = quern.narrow %arg0
  // CHECK: %[[B:.*]] = quern.remember %[[N]] {{.*}} in @keys : (!quern.tensor<bf16
  // CHECK: quern.widen %[[B]]
  func.func @f.last(%k: !quern.tensor<real[B, T, K = 8]>, %q: !quern.tensor<real[B, K = 8]>) -> !quern.tensor<real[B, S = "T + past"]> attributes {quern.role = #quern.role<last, @f>} {
    %all = quern.remember %k "T" to <S = "T + past"> in @keys : (!quern.tensor<real[B, T, K = 8]>) -> !quern.tensor<real[B, S = "T + past", K = 8]>
    %p = quern.contract %q, %all over ["K"] : (!quern.tensor<real[B, K = 8]>, !quern.tensor<real[B, S = "T + past", K = 8]>) -> !quern.tensor<real[B, S = "T + past"]>
    return %p : !quern.tensor<real[B, S = "T + past"]>
  }
}
