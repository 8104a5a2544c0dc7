// RUN: quern-opt --incremental %s | FileCheck %s
//
// A function that looks ahead stays as it is and says why, with the place. The weighted sum fails for the same reason as
// its softmax; one reason is reported.

// CHECK: func.func @forward(%arg0: !quern.tensor<real[B, T]>
// CHECK-SAME: quern.refusal = "model.quern:7:9: softmax[S] is not causal: its mask only implies index(S) <= index(T) + 2, and needs index(S) <= index(T) (std.quern:70:3)"
// CHECK: quern.rename
// CHECK-NOT: quern.remember
// CHECK-NOT: @forward.last
func.func @forward(%x: !quern.tensor<real[B, T]> {quern.name = "tokens"}) -> !quern.tensor<real[B, T]> {
  %s = quern.rename %x ["T"] to [#quern.dim<S = T>] : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[B, S = T]>
  %is = quern.index : !quern.tensor<int[S = T]>
  %it = quern.index : !quern.tensor<int[T]>
  %two = quern.const 2 : i64 -> !quern.tensor<int[]>
  %near = quern.add %it, %two : (!quern.tensor<int[T]>, !quern.tensor<int[]>) -> !quern.tensor<int[T]>
  %m = quern.compare le %is, %near : (!quern.tensor<int[S = T]>, !quern.tensor<int[T]>) -> !quern.tensor<bool[S = T, T]>
  %inf = quern.const 0xFFF0000000000000 : f64 -> !quern.tensor<real[]>
  %score = quern.where %m, %s, %inf : (!quern.tensor<bool[S = T, T]>, !quern.tensor<real[B, S = T]>, !quern.tensor<real[]>) -> !quern.tensor<real[B, S = T, T]>
  %w = quern.softmax %score over ["S"] : (!quern.tensor<real[B, S = T, T]>) -> !quern.tensor<real[B, S = T, T]> loc(callsite("std.quern":70:3 at "model.quern":7:9))
  %a = quern.contract %w, %s over ["S"] : (!quern.tensor<real[B, S = T, T]>, !quern.tensor<real[B, S = T]>) -> !quern.tensor<real[B, T]> loc(callsite("std.quern":71:3 at "model.quern":7:20))
  return %a : !quern.tensor<real[B, T]>
}
