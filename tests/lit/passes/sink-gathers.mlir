// RUN: quern-opt --sink-gathers %s | FileCheck %s
//
// Experts: what is picked after all were computed is computed for the picked alone. What decides which are picked, and
// what treats the experts or the picked positions otherwise than one by one, stays.

// CHECK-LABEL: func.func @experts
// CHECK: %[[W:.*]] = quern.param
// CHECK: %[[P:.*]] = quern.gather %[[W]]["E" = %arg1] {{.*}} -> !quern.tensor<real[T, C = 2, F = 3, D = 4]>
// CHECK: %[[H:.*]] = quern.contract %arg0, %[[P]] over ["D"] {{.*}} -> !quern.tensor<real[T, C = 2, F = 3]>
// CHECK: %[[S:.*]] = quern.sigmoid %[[H]]
// CHECK: %[[Y:.*]] = quern.mul %[[H]], %[[S]]
// CHECK: return %[[Y]]
func.func @experts(%x: !quern.tensor<real[T, D = 4]>, %p: !quern.tensor<int[T, C = 2]>) -> !quern.tensor<real[T, C = 2, F = 3]> {
  %w = quern.param [["{E}.w"]] : !quern.tensor<real[E = 8, F = 3, D = 4]>
  %h = quern.contract %x, %w over ["D"] : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[E = 8, F = 3, D = 4]>) -> !quern.tensor<real[T, E = 8, F = 3]>
  %s = quern.sigmoid %h : (!quern.tensor<real[T, E = 8, F = 3]>) -> !quern.tensor<real[T, E = 8, F = 3]>
  %a = quern.mul %h, %s : (!quern.tensor<real[T, E = 8, F = 3]>, !quern.tensor<real[T, E = 8, F = 3]>) -> !quern.tensor<real[T, E = 8, F = 3]>
  %y = quern.gather %a["E" = %p] : (!quern.tensor<real[T, E = 8, F = 3]>, !quern.tensor<int[T, C = 2]>) -> !quern.tensor<real[T, C = 2, F = 3]>
  return %y : !quern.tensor<real[T, C = 2, F = 3]>
}

// The scores decide which are chosen, so all of them are needed.
// CHECK-LABEL: func.func @router
// CHECK: quern.contract {{.*}} -> !quern.tensor<real[T, E = 8]>
// CHECK: quern.top_k
// CHECK: quern.gather %{{.*}}["E" = %positions]
func.func @router(%x: !quern.tensor<real[T, D = 4]>) -> !quern.tensor<real[T, C = 2]> {
  %w = quern.param [["gate"]] : !quern.tensor<real[E = 8, D = 4]>
  %s = quern.contract %x, %w over ["D"] : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[E = 8, D = 4]>) -> !quern.tensor<real[T, E = 8]>
  %v, %c = quern.top_k %s along "E" into <C = 2> : (!quern.tensor<real[T, E = 8]>) -> (!quern.tensor<real[T, C = 2]>, !quern.tensor<int[T, C = 2]>)
  %y = quern.gather %s["E" = %c] : (!quern.tensor<real[T, E = 8]>, !quern.tensor<int[T, C = 2]>) -> !quern.tensor<real[T, C = 2]>
  return %y : !quern.tensor<real[T, C = 2]>
}

// A softmax over the experts needs all of them.
// CHECK-LABEL: func.func @mixed
// CHECK: quern.softmax {{.*}} over ["E"]
// CHECK: quern.gather
func.func @mixed(%x: !quern.tensor<real[T, D = 4]>, %p: !quern.tensor<int[T]>) -> !quern.tensor<real[T]> {
  %w = quern.param [["gate"]] : !quern.tensor<real[E = 8, D = 4]>
  %s = quern.contract %x, %w over ["D"] : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[E = 8, D = 4]>) -> !quern.tensor<real[T, E = 8]>
  %m = quern.softmax %s over ["E"] : (!quern.tensor<real[T, E = 8]>) -> !quern.tensor<real[T, E = 8]>
  %y = quern.gather %m["E" = %p] : (!quern.tensor<real[T, E = 8]>, !quern.tensor<int[T]>) -> !quern.tensor<real[T]>
  return %y : !quern.tensor<real[T]>
}

// A sum over T meets a dimension of the positions.
// CHECK-LABEL: func.func @over_time
// CHECK: quern.contract %arg0, %{{.*}} over ["T"]
// CHECK: quern.gather
func.func @over_time(%x: !quern.tensor<real[T, D = 4]>, %p: !quern.tensor<int[T]>) -> !quern.tensor<real[T, D = 4]> {
  %w = quern.param [["w"]] : !quern.tensor<real[E = 8]>
  %h = quern.contract %x, %w over ["T"] : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[E = 8]>) -> !quern.tensor<real[E = 8, D = 4]>
  %y = quern.gather %h["E" = %p] : (!quern.tensor<real[E = 8, D = 4]>, !quern.tensor<int[T]>) -> !quern.tensor<real[T, D = 4]>
  return %y : !quern.tensor<real[T, D = 4]>
}

// Without a contraction nothing is saved.
// CHECK-LABEL: func.func @table
// CHECK: quern.tanh %{{.*}} : (!quern.tensor<real[E = 8]>)
// CHECK: quern.gather
func.func @table(%p: !quern.tensor<int[T]>) -> !quern.tensor<real[T]> {
  %w = quern.param [["w"]] : !quern.tensor<real[E = 8]>
  %h = quern.tanh %w : (!quern.tensor<real[E = 8]>) -> !quern.tensor<real[E = 8]>
  %y = quern.gather %h["E" = %p] : (!quern.tensor<real[E = 8]>, !quern.tensor<int[T]>) -> !quern.tensor<real[T]>
  return %y : !quern.tensor<real[T]>
}
