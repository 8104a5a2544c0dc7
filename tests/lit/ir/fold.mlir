// RUN: quern-opt %s -canonicalize | FileCheck %s
// What folding does, and what it leaves alone.

// CHECK-LABEL: @constants
func.func @constants() -> (!quern.tensor<real[]>, !quern.tensor<int[]>, !quern.tensor<bool[]>, !quern.tensor<int[]>) {
  // CHECK-DAG: %[[HALF:.*]] = quern.const 5.000000e-01 : f64
  // CHECK-DAG: %[[MINUS4:.*]] = quern.const -4 : i64
  // CHECK-DAG: %[[TRUE:.*]] = quern.const true
  // CHECK-DAG: %[[TWO:.*]] = quern.const 2 : i64
  // CHECK: return %[[HALF]], %[[MINUS4]], %[[TRUE]], %[[TWO]]
  %four = quern.const 4.0 : f64 -> !quern.tensor<real[]>
  %two = quern.const 2 : i64 -> !quern.tensor<int[]>
  %minus = quern.const -7 : i64 -> !quern.tensor<int[]>
  %root = quern.sqrt %four : (!quern.tensor<real[]>) -> !quern.tensor<real[]>
  %half = quern.div %two, %four : (!quern.tensor<int[]>, !quern.tensor<real[]>) -> !quern.tensor<real[]>
  %down = quern.floordiv %minus, %two : (!quern.tensor<int[]>, !quern.tensor<int[]>) -> !quern.tensor<int[]>
  %less = quern.compare lt %down, %half : (!quern.tensor<int[]>, !quern.tensor<real[]>) -> !quern.tensor<bool[]>
  %even = quern.const 2.5 : f64 -> !quern.tensor<real[]>
  %round = quern.round %even : (!quern.tensor<real[]>) -> !quern.tensor<int[]>
  return %half, %down, %less, %round : !quern.tensor<real[]>, !quern.tensor<int[]>, !quern.tensor<bool[]>, !quern.tensor<int[]>
}

// CHECK-LABEL: @sizes
func.func @sizes() -> (!quern.tensor<int[]>, !quern.tensor<int[]>) {
  // CHECK-DAG: %[[SEVEN:.*]] = quern.const 7 : i64
  // CHECK-DAG: %[[T:.*]] = quern.size "T"
  // CHECK: return %[[SEVEN]], %[[T]]
  %0 = quern.size "7" : !quern.tensor<int[]>
  %1 = quern.size "T" : !quern.tensor<int[]>
  return %0, %1 : !quern.tensor<int[]>, !quern.tensor<int[]>
}

// CHECK-LABEL: @neutral
// CHECK-SAME: (%[[X:.*]]: !quern.tensor<real[T]>
func.func @neutral(%x: !quern.tensor<real[T]>) -> !quern.tensor<real[T]> {
  // CHECK-NEXT: return %[[X]]
  %zero = quern.const 0 : i64 -> !quern.tensor<int[]>
  %one = quern.const 1.0 : f64 -> !quern.tensor<real[]>
  %yes = quern.const true -> !quern.tensor<bool[]>
  %0 = quern.add %x, %zero : (!quern.tensor<real[T]>, !quern.tensor<int[]>) -> !quern.tensor<real[T]>
  %1 = quern.mul %one, %0 : (!quern.tensor<real[]>, !quern.tensor<real[T]>) -> !quern.tensor<real[T]>
  %2 = quern.sub %1, %zero : (!quern.tensor<real[T]>, !quern.tensor<int[]>) -> !quern.tensor<real[T]>
  %3 = quern.div %2, %one : (!quern.tensor<real[T]>, !quern.tensor<real[]>) -> !quern.tensor<real[T]>
  %4 = quern.where %yes, %3, %zero : (!quern.tensor<bool[]>, !quern.tensor<real[T]>, !quern.tensor<int[]>) -> !quern.tensor<real[T]>
  %5 = quern.rename %4 ["T"] to [#quern.dim<T>] : (!quern.tensor<real[T]>) -> !quern.tensor<real[T]>
  %6 = quern.permute %5 : (!quern.tensor<real[T]>) -> !quern.tensor<real[T]>
  %7 = quern.expand %6 : (!quern.tensor<real[T]>) -> !quern.tensor<real[T]>
  %8 = quern.neg %7 : (!quern.tensor<real[T]>) -> !quern.tensor<real[T]>
  %9 = quern.neg %8 : (!quern.tensor<real[T]>) -> !quern.tensor<real[T]>
  %10 = quern.to_real %9 : (!quern.tensor<real[T]>) -> !quern.tensor<real[T]>
  return %10 : !quern.tensor<real[T]>
}

// CHECK-LABEL: @masks
// CHECK-SAME: (%[[M:.*]]: !quern.tensor<bool[T]>
func.func @masks(%m: !quern.tensor<bool[T]>) -> !quern.tensor<bool[T]> {
  // CHECK-NEXT: return %[[M]]
  %yes = quern.const true -> !quern.tensor<bool[]>
  %no = quern.const false -> !quern.tensor<bool[]>
  %0 = quern.and %m, %yes : (!quern.tensor<bool[T]>, !quern.tensor<bool[]>) -> !quern.tensor<bool[T]>
  %1 = quern.or %no, %0 : (!quern.tensor<bool[]>, !quern.tensor<bool[T]>) -> !quern.tensor<bool[T]>
  %2 = quern.not %1 : (!quern.tensor<bool[T]>) -> !quern.tensor<bool[T]>
  %3 = quern.not %2 : (!quern.tensor<bool[T]>) -> !quern.tensor<bool[T]>
  return %3 : !quern.tensor<bool[T]>
}

// A value that would lose dimensions or change its kind stays, and so does what cannot be computed.
// CHECK-LABEL: @kept
func.func @kept(%i: !quern.tensor<int[T]>) -> (!quern.tensor<real[T]>, !quern.tensor<int[]>, !quern.tensor<int[T, C = 2]>) {
  // CHECK: quern.mul
  // CHECK: quern.mod
  // CHECK: quern.permute
  %one = quern.const 1.0 : f64 -> !quern.tensor<real[]>
  %zero = quern.const 0 : i64 -> !quern.tensor<int[]>
  %0 = quern.mul %i, %one : (!quern.tensor<int[T]>, !quern.tensor<real[]>) -> !quern.tensor<real[T]>
  %1 = quern.mod %zero, %zero : (!quern.tensor<int[]>, !quern.tensor<int[]>) -> !quern.tensor<int[]>
  %2 = quern.expand %i : (!quern.tensor<int[T]>) -> !quern.tensor<int[C = 2, T]>
  %3 = quern.permute %2 : (!quern.tensor<int[C = 2, T]>) -> !quern.tensor<int[T, C = 2]>
  return %0, %1, %3 : !quern.tensor<real[T]>, !quern.tensor<int[]>, !quern.tensor<int[T, C = 2]>
}

// Spread twice is spread at once: what a state begins with is then known to be one number.
// CHECK-LABEL: @spread
// CHECK-SAME: (%[[X:.*]]: !quern.tensor<real[T]>
func.func @spread(%x: !quern.tensor<real[T]>) -> !quern.tensor<real[B, C = 2, T]> {
  // CHECK-NEXT: %[[Y:.*]] = quern.expand %[[X]] : (!quern.tensor<real[T]>) -> !quern.tensor<real[B, C = 2, T]>
  // CHECK-NEXT: return %[[Y]]
  %0 = quern.expand %x : (!quern.tensor<real[T]>) -> !quern.tensor<real[C = 2, T]>
  %1 = quern.expand %0 : (!quern.tensor<real[C = 2, T]>) -> !quern.tensor<real[B, C = 2, T]>
  return %1 : !quern.tensor<real[B, C = 2, T]>
}

// Constants stay in the body of their loop, so that bodies that look alike stay alike.
// CHECK-LABEL: @loop
func.func @loop(%x: !quern.tensor<real[T]>) -> !quern.tensor<real[T]> {
  // CHECK-NEXT: quern.repeat 2
  // CHECK-NEXT: quern.const 6.000000e+00
  %r = quern.repeat 2 carry (%y = %x) : !quern.tensor<real[T]> {
    %two = quern.const 2.0 : f64 -> !quern.tensor<real[]>
    %three = quern.const 3.0 : f64 -> !quern.tensor<real[]>
    %six = quern.mul %two, %three : (!quern.tensor<real[]>, !quern.tensor<real[]>) -> !quern.tensor<real[]>
    %z = quern.mul %y, %six : (!quern.tensor<real[T]>, !quern.tensor<real[]>) -> !quern.tensor<real[T]>
    quern.yield %z : !quern.tensor<real[T]>
  }
  return %r : !quern.tensor<real[T]>
}

// CHECK-LABEL: @widened
// CHECK-SAME: (%[[N:.*]]: !quern.tensor<bf16[T]>, %[[X:.*]]: !quern.tensor<real[T]>
func.func @widened(%n: !quern.tensor<bf16[T]>, %x: !quern.tensor<real[T]>) -> (!quern.tensor<bf16[T]>, !quern.tensor<real[T]>) {
  // CHECK-NEXT: %[[R:.*]] = quern.narrow %[[X]]
  // CHECK-NEXT: %[[W:.*]] = quern.widen %[[R]]
  // CHECK-NEXT: return %[[N]], %[[W]]
  %0 = quern.widen %n : (!quern.tensor<bf16[T]>) -> !quern.tensor<real[T]>
  %1 = quern.narrow %0 : (!quern.tensor<real[T]>) -> !quern.tensor<bf16[T]>
  %2 = quern.narrow %x : (!quern.tensor<real[T]>) -> !quern.tensor<bf16[T]>
  %3 = quern.widen %2 : (!quern.tensor<bf16[T]>) -> !quern.tensor<real[T]>
  return %1, %3 : !quern.tensor<bf16[T]>, !quern.tensor<real[T]>
}
