// RUN: quern-opt --sink-gathers %s | FileCheck %s
// RUN: quern-opt --sink-gathers --outline-kernels %s | FileCheck %s --check-prefix=KERNELS
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

// Weights made of weights are made once, for all experts, and then picked from; in kernels they are stored, never a copy for each row.
// CHECK-LABEL: func.func @made
// CHECK: %[[M:.*]] = quern.mul %{{.*}}, %{{.*}} : {{.*}} -> !quern.tensor<real[E = 8, F = 3, D = 4]>
// CHECK: %[[P:.*]] = quern.gather %[[M]]["E" = %arg1]
// CHECK: quern.contract %arg0, %[[P]] over ["D"]
// KERNELS-LABEL: func.func @made
// KERNELS: quern.launch @map_{{.*}} -> !quern.tensor<real[
// KERNELS: quern.launch @contract_
// KERNELS-NOT: real[T, C = 2, F = 3, D = 4]
// KERNELS: return
func.func @made(%x: !quern.tensor<real[T, D = 4]>, %p: !quern.tensor<int[T, C = 2]>) -> !quern.tensor<real[T, C = 2, F = 3]> {
  %w = quern.param [["{E}.w"]] : !quern.tensor<real[E = 8, F = 3, D = 4]>
  %s = quern.param [["{E}.s"]] : !quern.tensor<real[E = 8, F = 3]>
  %m = quern.mul %w, %s : (!quern.tensor<real[E = 8, F = 3, D = 4]>, !quern.tensor<real[E = 8, F = 3]>) -> !quern.tensor<real[E = 8, F = 3, D = 4]>
  %h = quern.contract %x, %m over ["D"] : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[E = 8, F = 3, D = 4]>) -> !quern.tensor<real[T, E = 8, F = 3]>
  %y = quern.gather %h["E" = %p] : (!quern.tensor<real[T, E = 8, F = 3]>, !quern.tensor<int[T, C = 2]>) -> !quern.tensor<real[T, C = 2, F = 3]>
  return %y : !quern.tensor<real[T, C = 2, F = 3]>
}

// One weight that two contractions pick from: each kernel picks itself.
// KERNELS-LABEL: func.func @tied
// KERNELS-NOT: quern.launch @gather
// KERNELS-NOT: real[T, F = 4, D = 4]
// KERNELS: return
func.func @tied(%x: !quern.tensor<real[T, D = 4]>, %p: !quern.tensor<int[T]>) -> !quern.tensor<real[T, D = 4]> {
  %w = quern.param [["{E}.w"]] : !quern.tensor<real[E = 8, F = 4, D = 4]>
  %g = quern.gather %w["E" = %p] : (!quern.tensor<real[E = 8, F = 4, D = 4]>, !quern.tensor<int[T]>) -> !quern.tensor<real[T, F = 4, D = 4]>
  %h = quern.contract %x, %g over ["D"] : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[T, F = 4, D = 4]>) -> !quern.tensor<real[T, F = 4]>
  %y = quern.contract %h, %g over ["F"] : (!quern.tensor<real[T, F = 4]>, !quern.tensor<real[T, F = 4, D = 4]>) -> !quern.tensor<real[T, D = 4]>
  return %y : !quern.tensor<real[T, D = 4]>
}

// Where weights change, their gradient must not pass through a copy for each row.
// CHECK-LABEL: func.func @trained
// CHECK: quern.contract {{.*}} -> !quern.tensor<real[T, E = 8, F = 3]>
// CHECK: quern.gather
func.func @trained(%x: !quern.tensor<real[T, D = 4]>, %p: !quern.tensor<int[T]>) -> !quern.tensor<real[T, F = 3]> attributes {quern.changing_weights} {
  %w = quern.param [["{E}.w"]] : !quern.tensor<real[E = 8, F = 3, D = 4]>
  %h = quern.contract %x, %w over ["D"] : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[E = 8, F = 3, D = 4]>) -> !quern.tensor<real[T, E = 8, F = 3]>
  %y = quern.gather %h["E" = %p] : (!quern.tensor<real[T, E = 8, F = 3]>, !quern.tensor<int[T]>) -> !quern.tensor<real[T, F = 3]>
  return %y : !quern.tensor<real[T, F = 3]>
}
