// Positions that come from data are checked; those that cannot be wrong are not.
// RUN: quern-opt --check-positions %s | FileCheck %s

// CHECK: quern.state @check0 of "computed" {{.*}} check "a position along V is outside of its size"
// CHECK-LABEL: func.func @computed
// CHECK: %[[BAD:.*]] = quern.reduce any
// CHECK: quern.store %[[BAD]] in @check0
func.func @computed(%x: !quern.tensor<real[V = 8]>, %p: !quern.tensor<int[T]>) -> !quern.tensor<real[T]> {
  %one = quern.const 1 : i64 -> <int[]>
  %q = quern.add %p, %one : (!quern.tensor<int[T]>, !quern.tensor<int[]>) -> !quern.tensor<int[T]>
  %y = quern.gather %x["V" = %q] : (!quern.tensor<real[V = 8]>, !quern.tensor<int[T]>) -> !quern.tensor<real[T]>
  return %y : !quern.tensor<real[T]>
}

// The runtime looks at inputs itself; choices of top_k and clamped values are inside.
// CHECK-NOT: quern.state
// CHECK-LABEL: func.func @inside
// CHECK-NOT: quern.store
func.func @inside(%x: !quern.tensor<real[E = 8]>, %p: !quern.tensor<int[T]>) -> (!quern.tensor<real[T]>, !quern.tensor<real[C = 2]>, !quern.tensor<real[T]>) {
  %y = quern.gather %x["E" = %p] : (!quern.tensor<real[E = 8]>, !quern.tensor<int[T]>) -> !quern.tensor<real[T]>
  %v, %i = quern.top_k %x along "E" into <C = 2> : (!quern.tensor<real[E = 8]>) -> (!quern.tensor<real[C = 2]>, !quern.tensor<int[C = 2]>)
  %z = quern.gather %x["E" = %i] : (!quern.tensor<real[E = 8]>, !quern.tensor<int[C = 2]>) -> !quern.tensor<real[C = 2]>
  %low = quern.const 0 : i64 -> <int[]>
  %high = quern.const 7 : i64 -> <int[]>
  %a = quern.max %p, %low : (!quern.tensor<int[T]>, !quern.tensor<int[]>) -> !quern.tensor<int[T]>
  %b = quern.min %a, %high : (!quern.tensor<int[T]>, !quern.tensor<int[]>) -> !quern.tensor<int[T]>
  %w = quern.gather %x["E" = %b] : (!quern.tensor<real[E = 8]>, !quern.tensor<int[T]>) -> !quern.tensor<real[T]>
  return %y, %z, %w : !quern.tensor<real[T]>, !quern.tensor<real[C = 2]>, !quern.tensor<real[T]>
}
