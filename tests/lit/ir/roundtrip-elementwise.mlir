// RUN: quern-opt %s | quern-opt | FileCheck %s
// Numbers out of nothing, and element by element: printed as written, and read again.

func.func @numbers() {
  // CHECK: quern.const 5.000000e-01 : f64 -> <real[]>
  %0 = quern.const 5.000000e-01 : f64 -> !quern.tensor<real[]>
  // CHECK: quern.const 0xFFF0000000000000 : f64 -> <real[]>
  %1 = quern.const 0xFFF0000000000000 : f64 -> !quern.tensor<real[]>
  // CHECK: quern.const 12 : i64 -> <int[]>
  %2 = quern.const 12 : i64 -> !quern.tensor<int[]>
  // CHECK: quern.const true -> <bool[]>
  %3 = quern.const true -> !quern.tensor<bool[]>
  // CHECK: quern.values [1.000000e+00, -2.500000e+00] : <real[J = 2]>
  %4 = quern.values [1.000000e+00, -2.500000e+00] : !quern.tensor<real[J = 2]>
  // CHECK: quern.size "T + past" : <int[]>
  %5 = quern.size "T + past" : !quern.tensor<int[]>
  // CHECK: quern.index : <int[T]>
  %6 = quern.index : !quern.tensor<int[T]>
  return
}

// CHECK: @types(%{{.*}}: !quern.tensor<real[B, T, D = 768]>, %{{.*}}: !quern.tensor<int[S = T, N = "T + past", K.3 = 64]>, %{{.*}}: !quern.tensor<bool[]>, %{{.*}}: !quern.tensor<real["(H, K)" = 4, M = "2 * T - 1"]>)
func.func @types(%a: !quern.tensor<real[B, T, D = 768]>, %b: !quern.tensor<int[S = T, N = "T + past", K.3 = 64]>, %c: !quern.tensor<bool[]>, %d: !quern.tensor<real["(H, K)" = 4, M = "2 * T - 1"]>) {
  return
}

// CHECK: @unary(%{{.*}}: !quern.tensor<real[B, T]>, %{{.*}}: !quern.tensor<int[T]>, %{{.*}}: !quern.tensor<bool[T]>)
func.func @unary(%x: !quern.tensor<real[B, T]>, %i: !quern.tensor<int[T]>, %b: !quern.tensor<bool[T]>) {
  // CHECK: quern.neg %{{.*}} : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T]>
  %0 = quern.neg %x : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T]>
  // CHECK: quern.abs %{{.*}} : (!quern.tensor<int[T]>) -> !quern.tensor<int[T]>
  %1 = quern.abs %i : (!quern.tensor<int[T]>) -> !quern.tensor<int[T]>
  // CHECK: quern.exp %{{.*}} : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T]>
  %2 = quern.exp %x : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T]>
  // CHECK: quern.log %{{.*}} : (!quern.tensor<int[T]>) -> !quern.tensor<real[T]>
  %3 = quern.log %i : (!quern.tensor<int[T]>) -> !quern.tensor<real[T]>
  // CHECK: quern.log1p %{{.*}} : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T]>
  %4 = quern.log1p %x : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T]>
  // CHECK: quern.expm1 %{{.*}} : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T]>
  %expm1 = quern.expm1 %x : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T]>
  // CHECK: quern.sqrt %{{.*}} : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T]>
  %5 = quern.sqrt %x : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T]>
  // CHECK: quern.sin %{{.*}} : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T]>
  %6 = quern.sin %x : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T]>
  // CHECK: quern.cos %{{.*}} : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T]>
  %7 = quern.cos %x : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T]>
  // CHECK: quern.tanh %{{.*}} : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[T, B]>
  %8 = quern.tanh %x : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[T, B]>
  // CHECK: quern.sigmoid %{{.*}} : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T]>
  %9 = quern.sigmoid %x : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T]>
  // CHECK: quern.erf %{{.*}} : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T]>
  %10 = quern.erf %x : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T]>
  // CHECK: quern.floor %{{.*}} : (!quern.tensor<real[B, T]>) -> !quern.tensor<int[B, T]>
  %11 = quern.floor %x : (!quern.tensor<real[B, T]>) -> !quern.tensor<int[B, T]>
  // CHECK: quern.ceil %{{.*}} : (!quern.tensor<real[B, T]>) -> !quern.tensor<int[B, T]>
  %12 = quern.ceil %x : (!quern.tensor<real[B, T]>) -> !quern.tensor<int[B, T]>
  // CHECK: quern.round %{{.*}} : (!quern.tensor<real[B, T]>) -> !quern.tensor<int[B, T]>
  %13 = quern.round %x : (!quern.tensor<real[B, T]>) -> !quern.tensor<int[B, T]>
  // CHECK: quern.to_int %{{.*}} : (!quern.tensor<bool[T]>) -> !quern.tensor<int[T]>
  %14 = quern.to_int %b : (!quern.tensor<bool[T]>) -> !quern.tensor<int[T]>
  // CHECK: quern.to_real %{{.*}} : (!quern.tensor<int[T]>) -> !quern.tensor<real[T]>
  %15 = quern.to_real %i : (!quern.tensor<int[T]>) -> !quern.tensor<real[T]>
  // CHECK: quern.narrow %{{.*}} : (!quern.tensor<real[B, T]>) -> !quern.tensor<bf16[B, T]>
  %n = quern.narrow %x : (!quern.tensor<real[B, T]>) -> !quern.tensor<bf16[B, T]>
  // CHECK: quern.widen %{{.*}} : (!quern.tensor<bf16[B, T]>) -> !quern.tensor<real[B, T]>
  %w = quern.widen %n : (!quern.tensor<bf16[B, T]>) -> !quern.tensor<real[B, T]>
  // CHECK: %[[C:.*]] = quern.narrow %{{.*}} : (!quern.tensor<int[T]>) -> !quern.tensor<i8[T]>
  %c = quern.narrow %i : (!quern.tensor<int[T]>) -> !quern.tensor<i8[T]>
  // CHECK: %[[S:.*]] = quern.narrow
  %s = quern.const 0.5 : f64 -> !quern.tensor<real[]>
  %sn = quern.narrow %s : (!quern.tensor<real[]>) -> !quern.tensor<bf16[]>
  // CHECK: quern.rescale %[[C]] by %[[S]] : (!quern.tensor<i8[T]>, !quern.tensor<bf16[]>) -> !quern.tensor<real[T]>
  %cs = quern.rescale %c by %sn : (!quern.tensor<i8[T]>, !quern.tensor<bf16[]>) -> !quern.tensor<real[T]>
  %p = quern.param [["p"]] : !quern.tensor<real[H = 2, D = 40]>
  // CHECK: quern.quantize %{{.*}} along "D" : (!quern.tensor<real[H = 2, D = 40]>) -> !quern.tensor<int8[D = 40, H = 2]>
  %q = quern.quantize %p along "D" : (!quern.tensor<real[H = 2, D = 40]>) -> !quern.tensor<int8[D = 40, H = 2]>
  // CHECK: quern.quantize %{{.*}} along "D" paired : (!quern.tensor<real[H = 2, D = 40]>) -> !quern.tensor<int8[H = 2, D = 40]>
  %qp = quern.quantize %p along "D" paired : (!quern.tensor<real[H = 2, D = 40]>) -> !quern.tensor<int8[H = 2, D = 40]>
  // CHECK: quern.quantize %{{.*}} along "H" {quern.weight} : (!quern.tensor<real[H = 2, D = 40]>) -> !quern.tensor<int4[H = 2, D = 40]>
  %q4 = quern.quantize %p along "H" {quern.weight} : (!quern.tensor<real[H = 2, D = 40]>) -> !quern.tensor<int4[H = 2, D = 40]>
  // CHECK: quern.quantize %{{.*}} along "D" {quern.weight} : (!quern.tensor<real[H = 2, D = 40]>) -> !quern.tensor<q4_k[H = 2, D = 40]>
  %k4 = quern.quantize %p along "D" {quern.weight} : (!quern.tensor<real[H = 2, D = 40]>) -> !quern.tensor<q4_k[H = 2, D = 40]>
  // CHECK: quern.dequantize %{{.*}} : (!quern.tensor<q4_k[H = 2, D = 40]>) -> !quern.tensor<real[H = 2, D = 40]>
  %d4 = quern.dequantize %k4 : (!quern.tensor<q4_k[H = 2, D = 40]>) -> !quern.tensor<real[H = 2, D = 40]>
  // CHECK: quern.quantize %{{.*}} -> !quern.tensor<q5_k[H = 2, D = 40]>
  %k5 = quern.quantize %p along "D" : (!quern.tensor<real[H = 2, D = 40]>) -> !quern.tensor<q5_k[H = 2, D = 40]>
  // CHECK: quern.dequantize %{{.*}} : (!quern.tensor<q5_k[H = 2, D = 40]>) -> !quern.tensor<real[H = 2, D = 40]>
  %d5 = quern.dequantize %k5 : (!quern.tensor<q5_k[H = 2, D = 40]>) -> !quern.tensor<real[H = 2, D = 40]>
  // CHECK: quern.quantize %{{.*}} -> !quern.tensor<q6_k[H = 2, D = 40]>
  %k6 = quern.quantize %p along "D" : (!quern.tensor<real[H = 2, D = 40]>) -> !quern.tensor<q6_k[H = 2, D = 40]>
  // CHECK: quern.dequantize %{{.*}} : (!quern.tensor<q6_k[H = 2, D = 40]>) -> !quern.tensor<real[H = 2, D = 40]>
  %d6 = quern.dequantize %k6 : (!quern.tensor<q6_k[H = 2, D = 40]>) -> !quern.tensor<real[H = 2, D = 40]>
  // CHECK: quern.dequantize %{{.*}} : (!quern.tensor<int8[D = 40, H = 2]>) -> !quern.tensor<real[D = 40, H = 2]>
  %d = quern.dequantize %q : (!quern.tensor<int8[D = 40, H = 2]>) -> !quern.tensor<real[D = 40, H = 2]>
  // CHECK: quern.not %{{.*}} : (!quern.tensor<bool[T]>) -> !quern.tensor<bool[T]>
  %16 = quern.not %b : (!quern.tensor<bool[T]>) -> !quern.tensor<bool[T]>
  return
}

// CHECK: @binary(%{{.*}}: !quern.tensor<real[B, T]>, %{{.*}}: !quern.tensor<int[T]>, %{{.*}}: !quern.tensor<bool[T]>, %{{.*}}: !quern.tensor<bool[B]>)
func.func @binary(%x: !quern.tensor<real[B, T]>, %i: !quern.tensor<int[T]>, %b: !quern.tensor<bool[T]>, %c: !quern.tensor<bool[B]>) {
  // CHECK: quern.add %{{.*}}, %{{.*}} : (!quern.tensor<real[B, T]>, !quern.tensor<int[T]>) -> !quern.tensor<real[B, T]>
  %0 = quern.add %x, %i : (!quern.tensor<real[B, T]>, !quern.tensor<int[T]>) -> !quern.tensor<real[B, T]>
  // CHECK: quern.sub %{{.*}}, %{{.*}} : (!quern.tensor<int[T]>, !quern.tensor<int[T]>) -> !quern.tensor<int[T]>
  %1 = quern.sub %i, %i : (!quern.tensor<int[T]>, !quern.tensor<int[T]>) -> !quern.tensor<int[T]>
  // CHECK: quern.mul %{{.*}}, %{{.*}} : (!quern.tensor<int[T]>, !quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T]>
  %2 = quern.mul %i, %x : (!quern.tensor<int[T]>, !quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T]>
  // CHECK: quern.div %{{.*}}, %{{.*}} : (!quern.tensor<int[T]>, !quern.tensor<int[T]>) -> !quern.tensor<real[T]>
  %3 = quern.div %i, %i : (!quern.tensor<int[T]>, !quern.tensor<int[T]>) -> !quern.tensor<real[T]>
  // CHECK: quern.floordiv %{{.*}}, %{{.*}} : (!quern.tensor<int[T]>, !quern.tensor<int[T]>) -> !quern.tensor<int[T]>
  %4 = quern.floordiv %i, %i : (!quern.tensor<int[T]>, !quern.tensor<int[T]>) -> !quern.tensor<int[T]>
  // CHECK: quern.mod %{{.*}}, %{{.*}} : (!quern.tensor<int[T]>, !quern.tensor<int[T]>) -> !quern.tensor<int[T]>
  %5 = quern.mod %i, %i : (!quern.tensor<int[T]>, !quern.tensor<int[T]>) -> !quern.tensor<int[T]>
  // CHECK: quern.pow %{{.*}}, %{{.*}} : (!quern.tensor<real[B, T]>, !quern.tensor<int[T]>) -> !quern.tensor<real[B, T]>
  %6 = quern.pow %x, %i : (!quern.tensor<real[B, T]>, !quern.tensor<int[T]>) -> !quern.tensor<real[B, T]>
  // CHECK: quern.max %{{.*}}, %{{.*}} : (!quern.tensor<real[B, T]>, !quern.tensor<int[T]>) -> !quern.tensor<real[B, T]>
  %7 = quern.max %x, %i : (!quern.tensor<real[B, T]>, !quern.tensor<int[T]>) -> !quern.tensor<real[B, T]>
  // CHECK: quern.min %{{.*}}, %{{.*}} : (!quern.tensor<int[T]>, !quern.tensor<int[T]>) -> !quern.tensor<int[T]>
  %8 = quern.min %i, %i : (!quern.tensor<int[T]>, !quern.tensor<int[T]>) -> !quern.tensor<int[T]>
  // CHECK: quern.and %{{.*}}, %{{.*}} : (!quern.tensor<bool[T]>, !quern.tensor<bool[B]>) -> !quern.tensor<bool[T, B]>
  %9 = quern.and %b, %c : (!quern.tensor<bool[T]>, !quern.tensor<bool[B]>) -> !quern.tensor<bool[T, B]>
  // CHECK: quern.or %{{.*}}, %{{.*}} : (!quern.tensor<bool[T]>, !quern.tensor<bool[B]>) -> !quern.tensor<bool[B, T]>
  %10 = quern.or %b, %c : (!quern.tensor<bool[T]>, !quern.tensor<bool[B]>) -> !quern.tensor<bool[B, T]>
  // CHECK: quern.compare lt %{{.*}}, %{{.*}} : (!quern.tensor<real[B, T]>, !quern.tensor<int[T]>) -> !quern.tensor<bool[B, T]>
  %11 = quern.compare lt %x, %i : (!quern.tensor<real[B, T]>, !quern.tensor<int[T]>) -> !quern.tensor<bool[B, T]>
  // CHECK: quern.compare le %{{.*}}, %{{.*}} : (!quern.tensor<int[T]>, !quern.tensor<int[T]>) -> !quern.tensor<bool[T]>
  %12 = quern.compare le %i, %i : (!quern.tensor<int[T]>, !quern.tensor<int[T]>) -> !quern.tensor<bool[T]>
  // CHECK: quern.compare gt %{{.*}}, %{{.*}} : (!quern.tensor<int[T]>, !quern.tensor<int[T]>) -> !quern.tensor<bool[T]>
  %13 = quern.compare gt %i, %i : (!quern.tensor<int[T]>, !quern.tensor<int[T]>) -> !quern.tensor<bool[T]>
  // CHECK: quern.compare ge %{{.*}}, %{{.*}} : (!quern.tensor<int[T]>, !quern.tensor<int[T]>) -> !quern.tensor<bool[T]>
  %14 = quern.compare ge %i, %i : (!quern.tensor<int[T]>, !quern.tensor<int[T]>) -> !quern.tensor<bool[T]>
  // CHECK: quern.compare eq %{{.*}}, %{{.*}} : (!quern.tensor<bool[T]>, !quern.tensor<bool[B]>) -> !quern.tensor<bool[T, B]>
  %15 = quern.compare eq %b, %c : (!quern.tensor<bool[T]>, !quern.tensor<bool[B]>) -> !quern.tensor<bool[T, B]>
  // CHECK: quern.compare ne %{{.*}}, %{{.*}} : (!quern.tensor<bool[T]>, !quern.tensor<bool[B]>) -> !quern.tensor<bool[T, B]>
  %16 = quern.compare ne %b, %c : (!quern.tensor<bool[T]>, !quern.tensor<bool[B]>) -> !quern.tensor<bool[T, B]>
  // CHECK: quern.where %{{.*}}, %{{.*}}, %{{.*}} : (!quern.tensor<bool[B]>, !quern.tensor<real[B, T]>, !quern.tensor<int[T]>) -> !quern.tensor<real[B, T]>
  %17 = quern.where %c, %x, %i : (!quern.tensor<bool[B]>, !quern.tensor<real[B, T]>, !quern.tensor<int[T]>) -> !quern.tensor<real[B, T]>
  return
}
