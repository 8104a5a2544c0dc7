// RUN: quern-opt %s | quern-opt | FileCheck %s
// Attributes that the frontend and passes note: each with its form, where it belongs.

// CHECK: module attributes
// CHECK-SAME: quern.chunk_rows = 4 : i64
// CHECK-SAME: quern.config = "{}"
// CHECK-SAME: quern.ignore = ["a.*"]
// CHECK-SAME: quern.kv_cache = "bf16"
// CHECK-SAME: quern.kv_cache_of_steps
// CHECK-SAME: quern.lora = "8,*q*", quern.lora_scale = 1.500000e+00 : f64
// CHECK-SAME: quern.precision = "bf16"
// CHECK-SAME: quern.quantize = "int8"
// CHECK-SAME: quern.train
module attributes {quern.model = "m", quern.config = "{}", quern.file_config = "{}", quern.ignore = ["a.*"], quern.train,
                   quern.precision = "bf16", quern.quantize = "int8", quern.lora = "8,*q*", quern.lora_scale = 1.5, quern.kv_cache = "bf16", quern.kv_cache_of_steps, quern.saving_price = 1.0e-10, quern.segment_iterations = 2, quern.chunk_rows = 4} {
  quern.state @f.k of "f" : !quern.tensor<real[B, cap, K = 4]>
  // CHECK: quern.state @check0 of "f" : !quern.tensor<bool[]> check "too far"
  quern.state @check0 of "f" : !quern.tensor<bool[]> check "too far"

  // CHECK: quern.kernel @k(%{{.*}}: !quern.tensor<real[d0 = s0]> #quern.layout<"strided", ["1"]>) -> (#quern.layout<"strided", ["1"]>) attributes {in_place = 0 : i64, quern.plan = "halide: map(work = 32768)"} {
  quern.kernel @k(%a: !quern.tensor<real[d0 = s0]> #quern.layout<"strided", ["1"]>) -> (#quern.layout<"strided", ["1"]>) attributes {in_place = 0 : i64, quern.plan = "halide: map(work = 32768)"} {
    %0 = quern.neg %a : (!quern.tensor<real[d0 = s0]>) -> !quern.tensor<real[d0 = s0]>
    quern.yield %0 : !quern.tensor<real[d0 = s0]>
  }

  // CHECK: func.func @f.default.mask() -> !quern.tensor<bool[T]> attributes {quern.role = #quern.role<default, @f>}
  func.func @f.default.mask() -> !quern.tensor<bool[T]> attributes {quern.role = #quern.role<default, @f>} {
    %0 = quern.const true -> !quern.tensor<bool[]>
    %1 = quern.expand %0 : (!quern.tensor<bool[]>) -> !quern.tensor<bool[T]>
    return %1 : !quern.tensor<bool[T]>
  }

  // CHECK: func.func @f(%{{.*}}: !quern.tensor<real[B, T, K = 4]> {quern.name = "x"}, %{{.*}}: !quern.tensor<bool[T]> {quern.default = @f.default.mask, quern.name = "mask"})
  // CHECK-SAME: -> (!quern.tensor<real[T]> {quern.gradient = {{\[\[}}"w"{{\]\]}}, quern.name = "y"})
  // CHECK-SAME: quern.arena = {{\[\[}}"4 * T"]], quern.batch = #quern.label<B>
  // CHECK-SAME: quern.kept = ["16"]
  // CHECK-SAME: quern.limits = [{at = "a.quern:1:1", name = "T", size = 8 : i64}]
  // CHECK-SAME: quern.time = #quern.label<T>
  func.func @f(%x: !quern.tensor<real[B, T, K = 4]> {quern.name = "x"}, %m: !quern.tensor<bool[T]> {quern.default = @f.default.mask, quern.name = "mask"})
      -> (!quern.tensor<real[T]> {quern.gradient = [["w"]], quern.name = "y"})
      attributes {quern.batch = #quern.label<B>, quern.time = #quern.label<T>, quern.next_token, quern.refusal = "why", quern.recompute,
                  quern.limits = [{at = "a.quern:1:1", name = "T", size = 8 : i64}], quern.few_rows = 8, quern.changing_weights,
                  quern.arena = [["4 * T"]], quern.kept = ["16"]} {
    // CHECK: quern.remember %{{.*}} "T" to <S = "T + past"> in @f.k {quern.window = #quern.window<256>}
    %0 = quern.remember %x "T" to <S = "T + past"> in @f.k {quern.window = #quern.window<256>} : (!quern.tensor<real[B, T, K = 4]>) -> !quern.tensor<real[B, S = "T + past", K = 4]>
    // CHECK: quern.param {{.*}} {quern.routed_share = 2.500000e-01 : f64}
    %1 = quern.param [["w"]] {quern.routed_share = 0.25} : !quern.tensor<real[K = 4]>
    // CHECK: quern.param {{.*}} {quern.adapter = false}
    %adapter = quern.param [["w.lora_A.weight"]] {quern.adapter = false} : !quern.tensor<real[rank = 2, K = 4]>
    // CHECK: quern.concat %{{.*}}, %{{.*}} ["K", "K"] into <N = 8> {quern.weight}
    %2 = quern.concat %1, %1 ["K", "K"] into <N = 8> {quern.weight} : (!quern.tensor<real[K = 4]>, !quern.tensor<real[K = 4]>) -> !quern.tensor<real[N = 8]>
    // CHECK: quern.contract %{{.*}}, %{{.*}} over ["K", "B"] {quern.again, quern.once}
    %3 = quern.contract %x, %1 over ["K", "B"] {quern.again, quern.once} : (!quern.tensor<real[B, T, K = 4]>, !quern.tensor<real[K = 4]>) -> !quern.tensor<real[T]>
    // CHECK: quern.repeat 2 carry
    %4 = quern.repeat 2 carry (%c = %3) : !quern.tensor<real[T]> {
      // CHECK: quern.launch @k ["T"](%{{.*}}) {quern.places = [#quern.place<arena 0>]}
      %5 = quern.launch @k ["T"](%c) {quern.places = [#quern.place<arena 0>]} : (!quern.tensor<real[T]>) -> !quern.tensor<real[T]>
      quern.yield %5 : !quern.tensor<real[T]>
    // CHECK: {quern.copy_in = [true], quern.copy_out = [false], quern.places = [#quern.place<output 0>], quern.segment}
    } {quern.copy_in = [true], quern.copy_out = [false], quern.places = [#quern.place<output 0>], quern.segment}
    // CHECK: quern.launch @k ["T"](%{{.*}}) {quern.places = [#quern.place<rows>]}
    %6 = quern.launch @k ["T"](%4) {quern.places = [#quern.place<rows>]} : (!quern.tensor<real[T]>) -> !quern.tensor<real[T]>
    // CHECK: quern.launch @k ["T"](%{{.*}}) {quern.places = [#quern.place<state>]}
    %7 = quern.launch @k ["T"](%4) {quern.places = [#quern.place<state>]} : (!quern.tensor<real[T]>) -> !quern.tensor<real[T]>
    return %4 : !quern.tensor<real[T]>
  }

  // CHECK: func.func @update.sgd() attributes {quern.role = #quern.role<update>}
  func.func @update.sgd() attributes {quern.role = #quern.role<update>} {
    return
  }
}
