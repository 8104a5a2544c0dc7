// RUN: quern-opt %s | quern-opt | FileCheck %s
// Recurrences: carried values, slices, inputs, states, from the end.

// CHECK: @forwards(
func.func @forwards(%h: !quern.tensor<real[B, E = 4]>, %x: !quern.tensor<real[B, T, E = 4]>, %w: !quern.tensor<real[E = 4]>) -> (!quern.tensor<real[B, E = 4]>, !quern.tensor<real[B, T, E = 4]>) {
  // CHECK: %{{.*}}:2 = quern.scan <T> carry %{{.*}} over %{{.*}} reading %{{.*}} {
  %0:2 = quern.scan <T> carry %h over %x reading %w {
  // CHECK-NEXT: ^bb0(%[[H:.*]]: !quern.tensor<real[B, E = 4]>, %[[X:.*]]: !quern.tensor<real[B, E = 4]>, %[[W:.*]]: !quern.tensor<real[E = 4]>):
  ^bb0(%a: !quern.tensor<real[B, E = 4]>, %b: !quern.tensor<real[B, E = 4]>, %c: !quern.tensor<real[E = 4]>):
    // CHECK: quern.mul %[[H]], %[[W]]
    %1 = quern.mul %a, %c : (!quern.tensor<real[B, E = 4]>, !quern.tensor<real[E = 4]>) -> !quern.tensor<real[B, E = 4]>
    %2 = quern.add %1, %b : (!quern.tensor<real[B, E = 4]>, !quern.tensor<real[B, E = 4]>) -> !quern.tensor<real[B, E = 4]>
    quern.yield %2, %2 : !quern.tensor<real[B, E = 4]>, !quern.tensor<real[B, E = 4]>
    // CHECK: } : ({{.*}}) -> (!quern.tensor<real[B, E = 4]>, !quern.tensor<real[B, T, E = 4]>)
  } : (!quern.tensor<real[B, E = 4]>, !quern.tensor<real[B, T, E = 4]>, !quern.tensor<real[E = 4]>) -> (!quern.tensor<real[B, E = 4]>, !quern.tensor<real[B, T, E = 4]>)
  return %0#0, %0#1 : !quern.tensor<real[B, E = 4]>, !quern.tensor<real[B, T, E = 4]>
}

// CHECK: @fromTheEnd(
func.func @fromTheEnd(%h: !quern.tensor<real[E = 4]>, %x: !quern.tensor<real[T, E = 4]>) -> !quern.tensor<real[E = 4]> {
  // CHECK: quern.scan <T> reversed carry %{{.*}} over
  %0 = quern.scan <T> reversed carry %h over %x {
  ^bb0(%a: !quern.tensor<real[E = 4]>, %b: !quern.tensor<real[E = 4]>):
    %1 = quern.add %a, %b : (!quern.tensor<real[E = 4]>, !quern.tensor<real[E = 4]>) -> !quern.tensor<real[E = 4]>
    quern.yield %1 : !quern.tensor<real[E = 4]>
  } : (!quern.tensor<real[E = 4]>, !quern.tensor<real[T, E = 4]>) -> !quern.tensor<real[E = 4]>
  return %0 : !quern.tensor<real[E = 4]>
}

quern.state @s of "goesOn" : !quern.tensor<real[B]>

// CHECK: @goesOn(
func.func @goesOn(%h: !quern.tensor<real[B]>, %x: !quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T]> {
  // CHECK: quern.scan <T> carry %{{.*}} over %{{.*}} states [@s] {
  %0:2 = quern.scan <T> carry %h over %x states [@s] {
  ^bb0(%a: !quern.tensor<real[B]>, %b: !quern.tensor<real[B]>):
    %1 = quern.max %a, %b : (!quern.tensor<real[B]>, !quern.tensor<real[B]>) -> !quern.tensor<real[B]>
    quern.yield %1, %1 : !quern.tensor<real[B]>, !quern.tensor<real[B]>
  } : (!quern.tensor<real[B]>, !quern.tensor<real[B, T]>) -> (!quern.tensor<real[B]>, !quern.tensor<real[B, T]>)
  return %0#1 : !quern.tensor<real[B, T]>
}
