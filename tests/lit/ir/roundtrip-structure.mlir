// RUN: quern-opt %s | quern-opt | FileCheck %s
// Parameters, loops, memory, kernels.

// CHECK: quern.state @f.k0 of "f" : !quern.tensor<real[L = 2, cap, K = 4]>
quern.state @f.k0 of "f" : !quern.tensor<real[L = 2, cap, K = 4]>

// CHECK: quern.kernel @k(%{{.*}}: !quern.tensor<real[d0 = s0, d1 = 4]> #quern.layout<"strided", ["4", "1"]>, %{{.*}}: !quern.tensor<real[d2 = 8, d1 = 4]> #quern.layout<"packed", ["4", "1"], tile = 16, dims = ["d2", "d1"]>) -> (#quern.layout<"strided", ["8", "1"]>) {
quern.kernel @k(%arg0: !quern.tensor<real[d0 = s0, d1 = 4]> #quern.layout<"strided", ["4", "1"]>, %arg1: !quern.tensor<real[d2 = 8, d1 = 4]> #quern.layout<"packed", ["4", "1"], tile = 16, dims = ["d2", "d1"]>) -> (#quern.layout<"strided", ["8", "1"]>) {
  // CHECK: quern.contract %{{.*}}, %{{.*}} over ["d1"] : (!quern.tensor<real[d0 = s0, d1 = 4]>, !quern.tensor<real[d2 = 8, d1 = 4]>) -> !quern.tensor<real[d0 = s0, d2 = 8]>
  %0 = quern.contract %arg0, %arg1 over ["d1"] : (!quern.tensor<real[d0 = s0, d1 = 4]>, !quern.tensor<real[d2 = 8, d1 = 4]>) -> !quern.tensor<real[d0 = s0, d2 = 8]>
  // CHECK: quern.yield %{{.*}} : !quern.tensor<real[d0 = s0, d2 = 8]>
  quern.yield %0 : !quern.tensor<real[d0 = s0, d2 = 8]>
}

// CHECK: quern.kernel @pairs(%{{.*}}: !quern.tensor<bf16[d0 = 8, d1 = 4]> #quern.layout<"packed", ["_", "_"], tile = 16, dims = ["d0", "d1"], beside = 2>) -> (#quern.layout<"strided", ["4", "1"]>) {
quern.kernel @pairs(%w: !quern.tensor<bf16[d0 = 8, d1 = 4]> #quern.layout<"packed", ["_", "_"], tile = 16, dims = ["d0", "d1"], beside = 2>) -> (#quern.layout<"strided", ["4", "1"]>) {
  %0 = quern.widen %w : (!quern.tensor<bf16[d0 = 8, d1 = 4]>) -> !quern.tensor<real[d0 = 8, d1 = 4]>
  quern.yield %0 : !quern.tensor<real[d0 = 8, d1 = 4]>
}

// CHECK: @f(%{{.*}}: !quern.tensor<real[T, K = 4]>) -> !quern.tensor<real[T, K = 4]>
func.func @f(%x: !quern.tensor<real[T, K = 4]>) -> !quern.tensor<real[T, K = 4]> {
  // CHECK: quern.param {{\[\[}}"w", "v"{{\]\]}} : <real[O = 8, K = 4]>
  %0 = quern.param [["w", "v"]] : !quern.tensor<real[O = 8, K = 4]>
  // CHECK: quern.param {{\[\[}}"b"{{\]\]}} init <"zeros", 0.000000e+00 : f64, if_absent = true> : <real[K = 4]>
  %absent = quern.param [["b"]] init <"zeros", 0.0 : f64, if_absent = true> : !quern.tensor<real[K = 4]>
  // CHECK: quern.param {{\[\[}}"m.{E}.w"{{\]\]}} init <"normal", 2.000000e-02 : f64> : <real[E = 2, K = 4]>
  %1 = quern.param [["m.{E}.w"]] init <"normal", 2.000000e-02 : f64> : !quern.tensor<real[E = 2, K = 4]>
  // CHECK: quern.repeat 2 carry (%{{.*}} = %{{.*}}) : !quern.tensor<real[T, K = 4]> {
  %2 = quern.repeat 2 carry (%arg1 = %x) : !quern.tensor<real[T, K = 4]> {
    // CHECK: quern.param {{\[\[}}"h.0.w"], ["h.1.w"{{\]\]}} : <real[K = 4]>
    %4 = quern.param [["h.0.w"], ["h.1.w"]] : !quern.tensor<real[K = 4]>
    // CHECK: quern.remember %{{.*}} "T" to <S = "T + past"> in @f.k0 : (!quern.tensor<real[T, K = 4]>) -> !quern.tensor<real[S = "T + past", K = 4]>
    %5 = quern.remember %arg1 "T" to <S = "T + past"> in @f.k0 : (!quern.tensor<real[T, K = 4]>) -> !quern.tensor<real[S = "T + past", K = 4]>
    // CHECK: quern.mul %{{.*}}, %{{.*}} : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[K = 4]>) -> !quern.tensor<real[T, K = 4]>
    %6 = quern.mul %arg1, %4 : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[K = 4]>) -> !quern.tensor<real[T, K = 4]>
    // CHECK: quern.yield %{{.*}} : !quern.tensor<real[T, K = 4]>
    quern.yield %6 : !quern.tensor<real[T, K = 4]>
  }
  // CHECK: quern.repeat 3 {
  quern.repeat 3 {
    // CHECK: quern.yield
    quern.yield
  }
  // CHECK: quern.repeat 3 gives !quern.tensor<real[iterations = 3, K = 4]> {
  %8 = quern.repeat 3 gives !quern.tensor<real[iterations = 3, K = 4]> {
    %10 = quern.param [["h.0.w"], ["h.1.w"], ["h.2.w"]] : !quern.tensor<real[K = 4]>
    quern.yield %10 : !quern.tensor<real[K = 4]>
  }
  // CHECK: quern.repeat 3 reversed carry (%{{.*}} = %{{.*}}) : !quern.tensor<real[T, K = 4]> over (%{{.*}} = %{{.*}}) : !quern.tensor<real[iterations = 3, K = 4]> gives !quern.tensor<real[iterations = 3, T, K = 4]>, !quern.tensor<real[iterations = 3, K = 4]> {
  %9:3 = quern.repeat 3 reversed carry (%arg1 = %x) : !quern.tensor<real[T, K = 4]> over (%arg2 = %8) : !quern.tensor<real[iterations = 3, K = 4]> gives !quern.tensor<real[iterations = 3, T, K = 4]>, !quern.tensor<real[iterations = 3, K = 4]> {
    %10 = quern.mul %arg1, %arg2 : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[K = 4]>) -> !quern.tensor<real[T, K = 4]>
    // CHECK: quern.yield %{{.*}}, %{{.*}}, %{{.*}} : !quern.tensor<real[T, K = 4]>, !quern.tensor<real[T, K = 4]>, !quern.tensor<real[K = 4]>
    quern.yield %10, %arg1, %arg2 : !quern.tensor<real[T, K = 4]>, !quern.tensor<real[T, K = 4]>, !quern.tensor<real[K = 4]>
  }
  %11 = quern.param [["c"]] : !quern.tensor<real[K = 4]>
  // CHECK: %{{.*}}:2 = quern.repeat rows 2 carry (%{{.*}} = %{{.*}}) : !quern.tensor<real[K = 4]> over (%[[PART:.*]] = %{{.*}}) : !quern.tensor<real[T, K = 4]> gives !quern.tensor<real[T, K = 4]> {
  %12:2 = quern.repeat rows 2 carry (%arg1 = %11) : !quern.tensor<real[K = 4]> over (%arg2 = %x) : !quern.tensor<real[T, K = 4]> gives !quern.tensor<real[T, K = 4]> {
    // CHECK: quern.yield %{{.*}}, %[[PART]] : !quern.tensor<real[K = 4]>, !quern.tensor<real[T = "chunk(2, T)", K = 4]>
    %13 = quern.reduce sum %arg2 over ["T"] : (!quern.tensor<real[T = "chunk(2, T)", K = 4]>) -> !quern.tensor<real[K = 4]>
    %14 = quern.add %arg1, %13 : (!quern.tensor<real[K = 4]>, !quern.tensor<real[K = 4]>) -> !quern.tensor<real[K = 4]>
    quern.yield %14, %arg2 : !quern.tensor<real[K = 4]>, !quern.tensor<real[T = "chunk(2, T)", K = 4]>
  }
  // CHECK: quern.launch @k ["T"](%{{.*}}, %{{.*}}) : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[O = 8, K = 4]>) -> !quern.tensor<real[T, O = 8]>
  %3 = quern.launch @k ["T"](%x, %0) : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[O = 8, K = 4]>) -> !quern.tensor<real[T, O = 8]>
  // CHECK: quern.launch once @k ["T"](%{{.*}}, %{{.*}}) : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[O = 8, K = 4]>) -> !quern.tensor<real[T, O = 8]>
  %7 = quern.launch once @k ["T"](%x, %0) : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[O = 8, K = 4]>) -> !quern.tensor<real[T, O = 8]>
  // CHECK: return %{{.*}} : !quern.tensor<real[T, K = 4]>
  return %2 : !quern.tensor<real[T, K = 4]>
}

// CHECK: quern.state @g.s0 of "g" : !quern.tensor<real[K = 4]>
quern.state @g.s0 of "g" : !quern.tensor<real[K = 4]>
// CHECK: @g(%{{.*}}: !quern.tensor<real[K = 4]>)
func.func @g(%x: !quern.tensor<real[K = 4]>) {
  // CHECK: quern.recall @g.s0 : <real[K = 4]>
  %0 = quern.recall @g.s0 : !quern.tensor<real[K = 4]>
  // CHECK: quern.store %{{.*}} in @g.s0 : <real[K = 4]>
  quern.store %x in @g.s0 : !quern.tensor<real[K = 4]>
  return
}
