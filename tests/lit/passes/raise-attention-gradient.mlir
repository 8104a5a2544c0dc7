// RUN: quern-opt %s --raise-attention-gradient | FileCheck %s
// Sums of marked products that one kernel can make become one operation for each kernel; what ends otherwise stays as it is.

// Two sums over queries are one operation, one over keys another: the products are made in both.
// CHECK-LABEL: func.func @sums(
// CHECK-NOT: quern.contract
// CHECK: %[[K:.*]]:2 = quern.attention_gradient %arg1 with %arg0 over "T" of %arg0, %arg0 {
// CHECK-NEXT: ^bb0(%[[X:.*]]: !quern.tensor<real[T, S]>):
// CHECK-NEXT: %[[P:.*]] = quern.exp %[[X]]
// CHECK-NEXT: %[[N:.*]] = quern.neg %[[P]]
// CHECK-NEXT: quern.yield %[[P]], %[[N]]
// CHECK: %[[Q:.*]] = quern.attention_gradient %arg0 with %arg1 over "S" of %arg1 {
// CHECK: return %[[K]]#0, %[[K]]#1, %[[Q]]
func.func @sums(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %z: !quern.tensor<real[S, T, C = 3]>) -> (!quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[T, K = 4]>) {
  %x = quern.contract %q, %k over ["K"] {quern.inside} : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>) -> !quern.tensor<real[T, S]>
  %p = quern.exp %x {quern.inside} : (!quern.tensor<real[T, S]>) -> !quern.tensor<real[T, S]>
  %n = quern.neg %p : (!quern.tensor<real[T, S]>) -> !quern.tensor<real[T, S]>
  %a = quern.contract %p, %q over ["T"] : (!quern.tensor<real[T, S]>, !quern.tensor<real[T, K = 4]>) -> !quern.tensor<real[S, K = 4]>
  %b = quern.contract %q, %n over ["T"] : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[T, S]>) -> !quern.tensor<real[S, K = 4]>
  %c = quern.contract %n, %k over ["S"] : (!quern.tensor<real[T, S]>, !quern.tensor<real[S, K = 4]>) -> !quern.tensor<real[T, K = 4]>
  return %a, %b, %c : !quern.tensor<real[S, K = 4]>, !quern.tensor<real[S, K = 4]>, !quern.tensor<real[T, K = 4]>
}

// CHECK-LABEL: func.func @diagonals(
// CHECK: quern.attention_gradient %arg0 with %arg1 over "S" along ["S", "T"] from "T" into <N = "S + T"> {
// CHECK-NOT: quern.scatter_add
func.func @diagonals(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %z: !quern.tensor<real[S, T, C = 3]>) -> (!quern.tensor<real[N = "S + T"]>) {
  %x = quern.contract %q, %k over ["K"] {quern.inside} : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>) -> !quern.tensor<real[T, S]>
  %p = quern.exp %x {quern.inside} : (!quern.tensor<real[T, S]>) -> !quern.tensor<real[T, S]>
  %s = quern.index : <int[S]>
  %t = quern.index : <int[T]>
  %apart = quern.sub %s, %t : (!quern.tensor<int[S]>, !quern.tensor<int[T]>) -> !quern.tensor<int[S, T]>
  %length = quern.size "T" : <int[]>
  %at = quern.add %apart, %length : (!quern.tensor<int[S, T]>, !quern.tensor<int[]>) -> !quern.tensor<int[S, T]>
  %r = quern.scatter_add %p at %at over ["T", "S"] into <N = "S + T"> {quern.inside} : (!quern.tensor<real[T, S]>, !quern.tensor<int[S, T]>) -> !quern.tensor<real[N = "S + T"]>
  return %r : !quern.tensor<real[N = "S + T"]>
}

// Other positions than a distance.
// CHECK-LABEL: func.func @positions(
// CHECK-NOT: quern.attention_gradient
// CHECK: quern.scatter_add
func.func @positions(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %z: !quern.tensor<real[S, T, C = 3]>) -> (!quern.tensor<real[N = "S + T"]>) {
  %x = quern.contract %q, %k over ["K"] {quern.inside} : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>) -> !quern.tensor<real[T, S]>
  %p = quern.exp %x {quern.inside} : (!quern.tensor<real[T, S]>) -> !quern.tensor<real[T, S]>
  %s = quern.index : <int[S]>
  %t = quern.index : <int[T]>
  %at = quern.add %s, %t : (!quern.tensor<int[S]>, !quern.tensor<int[T]>) -> !quern.tensor<int[S, T]>
  %r = quern.scatter_add %p at %at over ["T", "S"] into <N = "S + T"> {quern.inside} : (!quern.tensor<real[T, S]>, !quern.tensor<int[S, T]>) -> !quern.tensor<real[N = "S + T"]>
  return %r : !quern.tensor<real[N = "S + T"]>
}

// A sum over queries and keys.
// CHECK-LABEL: func.func @both(
// CHECK-NOT: quern.attention_gradient
// CHECK: quern.contract %{{.*}}, %arg2 over ["T", "S"]
func.func @both(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %z: !quern.tensor<real[S, T, C = 3]>) -> (!quern.tensor<real[C = 3]>) {
  %x = quern.contract %q, %k over ["K"] {quern.inside} : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>) -> !quern.tensor<real[T, S]>
  %p = quern.exp %x {quern.inside} : (!quern.tensor<real[T, S]>) -> !quern.tensor<real[T, S]>
  %r = quern.contract %p, %z over ["T", "S"] : (!quern.tensor<real[T, S]>, !quern.tensor<real[S, T, C = 3]>) -> !quern.tensor<real[C = 3]>
  return %r : !quern.tensor<real[C = 3]>
}

// Someone else wants the weights.
// CHECK-LABEL: func.func @given(
// CHECK-NOT: quern.attention_gradient
// CHECK: return
func.func @given(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %z: !quern.tensor<real[S, T, C = 3]>) -> (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[T, S]>) {
  %x = quern.contract %q, %k over ["K"] {quern.inside} : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>) -> !quern.tensor<real[T, S]>
  %p = quern.exp %x {quern.inside} : (!quern.tensor<real[T, S]>) -> !quern.tensor<real[T, S]>
  %r = quern.contract %p, %k over ["S"] : (!quern.tensor<real[T, S]>, !quern.tensor<real[S, K = 4]>) -> !quern.tensor<real[T, K = 4]>
  return %r, %p : !quern.tensor<real[T, K = 4]>, !quern.tensor<real[T, S]>
}

// A running sum of weights is not element by element.
// CHECK-LABEL: func.func @running(
// CHECK-NOT: quern.attention_gradient
// CHECK: return
func.func @running(%q: !quern.tensor<real[T, K = 4]>, %k: !quern.tensor<real[S, K = 4]>, %z: !quern.tensor<real[S, T, C = 3]>) -> (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[T, K = 4]>) {
  %x = quern.contract %q, %k over ["K"] {quern.inside} : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[S, K = 4]>) -> !quern.tensor<real[T, S]>
  %p = quern.exp %x {quern.inside} : (!quern.tensor<real[T, S]>) -> !quern.tensor<real[T, S]>
  %n = quern.cumsum %p along "S" : (!quern.tensor<real[T, S]>) -> !quern.tensor<real[T, S]>
  %r = quern.contract %p, %k over ["S"] : (!quern.tensor<real[T, S]>, !quern.tensor<real[S, K = 4]>) -> !quern.tensor<real[T, K = 4]>
  %u = quern.contract %n, %k over ["S"] : (!quern.tensor<real[T, S]>, !quern.tensor<real[S, K = 4]>) -> !quern.tensor<real[T, K = 4]>
  return %r, %u : !quern.tensor<real[T, K = 4]>, !quern.tensor<real[T, K = 4]>
}
