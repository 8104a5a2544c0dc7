// RUN: quern-opt %s --split-input-file --narrow-storage | FileCheck %s
// Weights of products are int4 codes in layers and int8 outside of them; the loader makes them, joined ones as one. A table
// that is looked up, a vector, and what chooses experts keep what they have.
module attributes {quern.quantize = "int4"} {
  // CHECK-LABEL: @forward
  // CHECK: %[[E:.*]] = quern.param {{\[\[}}"embed"]] : <real[V = 9, D = 4]>
  // CHECK: %[[EQ:.*]] = quern.quantize %[[E]] along "D" {quern.weight} : ({{.*}}) -> !quern.tensor<int8[V = 9, D = 4]>
  // CHECK: quern.gather %[[E]]
  // CHECK: quern.repeat
  // CHECK: %[[J:.*]] = quern.concat {{.*}} {quern.weight}
  // CHECK: %[[JQ:.*]] = quern.quantize %[[J]] along "D" {quern.weight} : ({{.*}}) -> !quern.tensor<int4[F = 6, D = 4]>
  // CHECK: %[[JD:.*]] = quern.dequantize %[[JQ]]
  // CHECK: quern.contract %{{.*}}, %[[JD]] over ["D"]
  // CHECK: %[[R:.*]] = quern.param {{\[\[}}"router.0"], ["router.1"]] : <real[E = 3, D = 4]>
  // CHECK: quern.contract %{{.*}}, %[[R]] over ["D"]
  // CHECK: %[[X:.*]] = quern.param {{\[\[}}"experts.0.{E}.w"], ["experts.1.{E}.w"]] {{.*}} : <real[E = 3, O = 4, D = 4]>
  // CHECK: %[[XQ:.*]] = quern.quantize %[[X]] along "D" {quern.weight} : ({{.*}}) -> !quern.tensor<int4[E = 3, O = 4, D = 4]>
  // CHECK: %[[XP:.*]] = quern.gather %[[XQ]]["E" {{.*}} -> !quern.tensor<int4[B, T, C = 2, O = 4, D = 4]>
  // CHECK: %[[XD:.*]] = quern.dequantize %[[XP]]
  // CHECK: quern.contract %{{.*}}, %[[XD]] over ["D"]
  // CHECK: quern.yield
  // CHECK: %[[ED:.*]] = quern.dequantize %[[EQ]]
  // CHECK: quern.contract %{{.*}}, %[[ED]] over ["D"]
  func.func @forward(%t: !quern.tensor<int[B, T]>) -> !quern.tensor<real[B, T, V = 9]> {
    %e = quern.param [["embed"]] : !quern.tensor<real[V = 9, D = 4]>
    %x = quern.gather %e["V" = %t] : (!quern.tensor<real[V = 9, D = 4]>, !quern.tensor<int[B, T]>) -> !quern.tensor<real[B, T, D = 4]>
    %y = quern.repeat 2 carry (%h = %x) : !quern.tensor<real[B, T, D = 4]> {
      %a = quern.param [["a.0"], ["a.1"]] : !quern.tensor<real[A = 2, D = 4]>
      %b = quern.param [["b.0"], ["b.1"]] : !quern.tensor<real[G = 4, D = 4]>
      %j = quern.concat %a, %b ["A", "G"] into <F = 6> {quern.weight} : (!quern.tensor<real[A = 2, D = 4]>, !quern.tensor<real[G = 4, D = 4]>) -> !quern.tensor<real[F = 6, D = 4]>
      %p = quern.contract %h, %j over ["D"] : (!quern.tensor<real[B, T, D = 4]>, !quern.tensor<real[F = 6, D = 4]>) -> !quern.tensor<real[B, T, F = 6]>
      %r = quern.param [["router.0"], ["router.1"]] : !quern.tensor<real[E = 3, D = 4]>
      %s = quern.contract %h, %r over ["D"] : (!quern.tensor<real[B, T, D = 4]>, !quern.tensor<real[E = 3, D = 4]>) -> !quern.tensor<real[B, T, E = 3]>
      %v, %c = quern.top_k %s along "E" into <C = 2> : (!quern.tensor<real[B, T, E = 3]>) -> (!quern.tensor<real[B, T, C = 2]>, !quern.tensor<int[B, T, C = 2]>)
      %w = quern.param [["experts.0.{E}.w"], ["experts.1.{E}.w"]] {quern.routed_share = 5.000000e-01 : f64} : !quern.tensor<real[E = 3, O = 4, D = 4]>
      %k = quern.gather %w["E" = %c] : (!quern.tensor<real[E = 3, O = 4, D = 4]>, !quern.tensor<int[B, T, C = 2]>) -> !quern.tensor<real[B, T, C = 2, O = 4, D = 4]>
      %f = quern.contract %h, %k over ["D"] : (!quern.tensor<real[B, T, D = 4]>, !quern.tensor<real[B, T, C = 2, O = 4, D = 4]>) -> !quern.tensor<real[B, T, C = 2, O = 4]>
      %m = quern.reduce sum %f over ["C"] : (!quern.tensor<real[B, T, C = 2, O = 4]>) -> !quern.tensor<real[B, T, O = 4]>
      %n = quern.reduce sum %p over ["F"] : (!quern.tensor<real[B, T, F = 6]>) -> !quern.tensor<real[B, T]>
      %o = quern.rename %m ["O"] to [#quern.dim<D = 4>] : (!quern.tensor<real[B, T, O = 4]>) -> !quern.tensor<real[B, T, D = 4]>
      %q = quern.add %o, %n : (!quern.tensor<real[B, T, D = 4]>, !quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T, D = 4]>
      quern.yield %q : !quern.tensor<real[B, T, D = 4]>
    }
    %z = quern.contract %y, %e over ["D"] : (!quern.tensor<real[B, T, D = 4]>, !quern.tensor<real[V = 9, D = 4]>) -> !quern.tensor<real[B, T, V = 9]>
    return %z : !quern.tensor<real[B, T, V = 9]>
  }
}

// -----

// The last pattern that fits decides; what is in none of the formats is stored in --precision.
module attributes {quern.precision = "bf16", quern.quantize = "int8,layer.*=int4,*.2.*=f32,head=bf16"} {
  // CHECK-LABEL: @forward
  // CHECK: quern.param {{\[\[}}"layer.1.w"]] : <real[F = 4, D = 4]>
  // CHECK: quern.quantize {{.*}} -> !quern.tensor<int4[F = 4, D = 4]>
  // CHECK: quern.param {{\[\[}}"layer.2.w"]] : <real[G = 4, F = 4]>
  // CHECK-NEXT: quern.contract
  // CHECK: quern.param {{\[\[}}"head"]] : <bf16[H = 4, G = 4]>
  // CHECK-NEXT: quern.widen
  // CHECK: quern.param {{\[\[}}"both"]] : <bf16[K = 4, H = 2, G = 2]>
  func.func @forward(%x: !quern.tensor<real[T, D = 4]>) -> !quern.tensor<real[T, K = 4]> {
    %a = quern.param [["layer.1.w"]] : !quern.tensor<real[F = 4, D = 4]>
    %0 = quern.contract %x, %a over ["D"] : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[F = 4, D = 4]>) -> !quern.tensor<real[T, F = 4]>
    %b = quern.param [["layer.2.w"]] : !quern.tensor<real[G = 4, F = 4]>
    %1 = quern.contract %0, %b over ["F"] : (!quern.tensor<real[T, F = 4]>, !quern.tensor<real[G = 4, F = 4]>) -> !quern.tensor<real[T, G = 4]>
    %c = quern.param [["head"]] : !quern.tensor<real[H = 4, G = 4]>
    %2 = quern.contract %1, %c over ["G"] : (!quern.tensor<real[T, G = 4]>, !quern.tensor<real[H = 4, G = 4]>) -> !quern.tensor<real[T, H = 4]>
    %3 = quern.split %2 "H" into [#quern.dim<H = 2>, #quern.dim<G = 2>] : (!quern.tensor<real[T, H = 4]>) -> !quern.tensor<real[T, H = 2, G = 2]>
    %d = quern.param [["both"]] : !quern.tensor<real[K = 4, H = 2, G = 2]>
    %4 = quern.contract %3, %d over ["H", "G"] : (!quern.tensor<real[T, H = 2, G = 2]>, !quern.tensor<real[K = 4, H = 2, G = 2]>) -> !quern.tensor<real[T, K = 4]>
    return %4 : !quern.tensor<real[T, K = 4]>
  }
}

// -----

// Super-blocks: outside of layers with six bits. Joined weights have what holds both: the most bits, and f32 beside other codes.
module attributes {quern.quantize = "q4_k,*.v=q6_k,*.o=int8"} {
  // CHECK-LABEL: @forward
  // CHECK: quern.quantize {{.*}} -> !quern.tensor<q4_k[F = 4, D = 4]>
  // CHECK: quern.quantize {{.*}} -> !quern.tensor<q6_k[G = 6, D = 4]>
  // CHECK-NOT: quern.quantize {{.*}}[H = 6
  // CHECK: quern.quantize {{.*}} -> !quern.tensor<q6_k[V = 9, D = 4]>
  func.func @forward(%x: !quern.tensor<real[T, D = 4]>) -> !quern.tensor<real[T, V = 9]> {
    %y = quern.repeat 2 carry (%r = %x) : !quern.tensor<real[T, D = 4]> {
      %a = quern.param [["0.a"], ["1.a"]] : !quern.tensor<real[F = 4, D = 4]>
      %0 = quern.contract %r, %a over ["D"] : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[F = 4, D = 4]>) -> !quern.tensor<real[T, F = 4]>
      %k = quern.param [["0.k"], ["1.k"]] : !quern.tensor<real[K = 3, D = 4]>
      %v = quern.param [["0.v"], ["1.v"]] : !quern.tensor<real[K = 3, D = 4]>
      %kv = quern.concat %k, %v ["K", "K"] into <G = 6> {quern.weight} : (!quern.tensor<real[K = 3, D = 4]>, !quern.tensor<real[K = 3, D = 4]>) -> !quern.tensor<real[G = 6, D = 4]>
      %1 = quern.contract %r, %kv over ["D"] : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[G = 6, D = 4]>) -> !quern.tensor<real[T, G = 6]>
      %o = quern.param [["0.o"], ["1.o"]] : !quern.tensor<real[K = 3, D = 4]>
      %ko = quern.concat %k, %o ["K", "K"] into <H = 6> {quern.weight} : (!quern.tensor<real[K = 3, D = 4]>, !quern.tensor<real[K = 3, D = 4]>) -> !quern.tensor<real[H = 6, D = 4]>
      %2 = quern.contract %r, %ko over ["D"] : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[H = 6, D = 4]>) -> !quern.tensor<real[T, H = 6]>
      %3 = quern.reduce sum %1 over ["G"] : (!quern.tensor<real[T, G = 6]>) -> !quern.tensor<real[T]>
      %4 = quern.reduce sum %2 over ["H"] : (!quern.tensor<real[T, H = 6]>) -> !quern.tensor<real[T]>
      %5 = quern.rename %0 ["F"] to [#quern.dim<D = 4>] : (!quern.tensor<real[T, F = 4]>) -> !quern.tensor<real[T, D = 4]>
      %6 = quern.mul %3, %4 : (!quern.tensor<real[T]>, !quern.tensor<real[T]>) -> !quern.tensor<real[T]>
      %7 = quern.add %5, %6 : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[T]>) -> !quern.tensor<real[T, D = 4]>
      quern.yield %7 : !quern.tensor<real[T, D = 4]>
    }
    %h = quern.param [["head"]] : !quern.tensor<real[V = 9, D = 4]>
    %z = quern.contract %y, %h over ["D"] : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[V = 9, D = 4]>) -> !quern.tensor<real[T, V = 9]>
    return %z : !quern.tensor<real[T, V = 9]>
  }
}

// -----

// q8_k holds q5_k, whose groups are as long, but not q6_k, whose groups are shorter; outside of layers it is as good as q6_k.
module attributes {quern.quantize = "q8_k,k=q5_k,o=q6_k"} {
  // CHECK-LABEL: @forward
  // CHECK: quern.quantize {{.*}} -> !quern.tensor<q8_k[G = 6, D = 4]>
  // CHECK-NOT: quern.quantize {{.*}}[H = 6
  // CHECK: quern.quantize {{.*}} -> !quern.tensor<q8_k[V = 9, D = 4]>
  func.func @forward(%x: !quern.tensor<real[T, D = 4]>) -> (!quern.tensor<real[T, G = 6]>, !quern.tensor<real[T, H = 6]>, !quern.tensor<real[T, V = 9]>) {
    %k = quern.param [["k"]] : !quern.tensor<real[K = 3, D = 4]>
    %v = quern.param [["v"]] : !quern.tensor<real[K = 3, D = 4]>
    %kv = quern.concat %k, %v ["K", "K"] into <G = 6> {quern.weight} : (!quern.tensor<real[K = 3, D = 4]>, !quern.tensor<real[K = 3, D = 4]>) -> !quern.tensor<real[G = 6, D = 4]>
    %0 = quern.contract %x, %kv over ["D"] : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[G = 6, D = 4]>) -> !quern.tensor<real[T, G = 6]>
    %u = quern.param [["u"]] : !quern.tensor<real[K = 3, D = 4]>
    %o = quern.param [["o"]] : !quern.tensor<real[K = 3, D = 4]>
    %uo = quern.concat %u, %o ["K", "K"] into <H = 6> {quern.weight} : (!quern.tensor<real[K = 3, D = 4]>, !quern.tensor<real[K = 3, D = 4]>) -> !quern.tensor<real[H = 6, D = 4]>
    %1 = quern.contract %x, %uo over ["D"] : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[H = 6, D = 4]>) -> !quern.tensor<real[T, H = 6]>
    %h = quern.param [["head"]] : !quern.tensor<real[V = 9, D = 4]>
    %2 = quern.contract %x, %h over ["D"] : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[V = 9, D = 4]>) -> !quern.tensor<real[T, V = 9]>
    return %0, %1, %2 : !quern.tensor<real[T, G = 6]>, !quern.tensor<real[T, H = 6]>, !quern.tensor<real[T, V = 9]>
  }
}

// -----

// Floats of one byte hold nothing but themselves: joined to bf16 or to int8 they become f32.
module attributes {quern.quantize = "f8_e4m3,k=bf16,o=int8"} {
  // CHECK-LABEL: @forward
  // CHECK-NOT: quern.quantize {{.*}}[G = 6
  // CHECK-NOT: quern.quantize {{.*}}[H = 6
  // CHECK: quern.quantize {{.*}} -> !quern.tensor<f8_e4m3[V = 9, D = 4]>
  func.func @forward(%x: !quern.tensor<real[T, D = 4]>) -> (!quern.tensor<real[T, G = 6]>, !quern.tensor<real[T, H = 6]>, !quern.tensor<real[T, V = 9]>) {
    %k = quern.param [["k"]] : !quern.tensor<real[K = 3, D = 4]>
    %v = quern.param [["v"]] : !quern.tensor<real[K = 3, D = 4]>
    %kv = quern.concat %k, %v ["K", "K"] into <G = 6> {quern.weight} : (!quern.tensor<real[K = 3, D = 4]>, !quern.tensor<real[K = 3, D = 4]>) -> !quern.tensor<real[G = 6, D = 4]>
    %0 = quern.contract %x, %kv over ["D"] : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[G = 6, D = 4]>) -> !quern.tensor<real[T, G = 6]>
    %u = quern.param [["u"]] : !quern.tensor<real[K = 3, D = 4]>
    %o = quern.param [["o"]] : !quern.tensor<real[K = 3, D = 4]>
    %uo = quern.concat %u, %o ["K", "K"] into <H = 6> {quern.weight} : (!quern.tensor<real[K = 3, D = 4]>, !quern.tensor<real[K = 3, D = 4]>) -> !quern.tensor<real[H = 6, D = 4]>
    %1 = quern.contract %x, %uo over ["D"] : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[H = 6, D = 4]>) -> !quern.tensor<real[T, H = 6]>
    %h = quern.param [["head"]] : !quern.tensor<real[V = 9, D = 4]>
    %2 = quern.contract %x, %h over ["D"] : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[V = 9, D = 4]>) -> !quern.tensor<real[T, V = 9]>
    return %0, %1, %2 : !quern.tensor<real[T, G = 6]>, !quern.tensor<real[T, H = 6]>, !quern.tensor<real[T, V = 9]>
  }
}

// -----

// "w8a8": the rows that a weight multiplies become codes, too; not where the last pattern says int8.
module attributes {quern.quantize = "w8a8,*.2.*=int8"} {
  // CHECK-LABEL: @forward
  // CHECK-SAME: %[[X:[a-z0-9]+]]: !quern.tensor
  // CHECK: %[[W:.*]] = quern.quantize {{.*}} {quern.weight}
  // CHECK: %[[Q:.*]] = quern.quantize %[[X]] along "D" : (!quern.tensor<real[T, D = 4]>) -> !quern.tensor<int8[T, D = 4]>
  // CHECK: %[[R:.*]] = quern.dequantize %[[Q]]
  // CHECK: %[[V:.*]] = quern.dequantize %[[W]]
  // CHECK: %[[Y:.*]] = quern.contract %[[R]], %[[V]] over ["D"]
  // CHECK: quern.contract %[[Y]], %{{.*}} over ["F"]
  func.func @forward(%x: !quern.tensor<real[T, D = 4]>) -> !quern.tensor<real[T, G = 4]> {
    %a = quern.param [["layer.1.w"]] : !quern.tensor<real[F = 4, D = 4]>
    %0 = quern.contract %x, %a over ["D"] : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[F = 4, D = 4]>) -> !quern.tensor<real[T, F = 4]>
    %b = quern.param [["layer.2.w"]] : !quern.tensor<real[G = 4, F = 4]>
    %1 = quern.contract %0, %b over ["F"] : (!quern.tensor<real[T, F = 4]>, !quern.tensor<real[G = 4, F = 4]>) -> !quern.tensor<real[T, G = 4]>
    return %1 : !quern.tensor<real[T, G = 4]>
  }
}

// -----

// Weights and rows in bf16: rows that two products read are narrowed once; what chooses experts reads real rows.
module attributes {quern.quantize = "w16a16"} {
  // CHECK-LABEL: @forward
  // CHECK: %[[N:.*]] = quern.narrow %arg0
  // CHECK: %[[W:.*]] = quern.widen %[[N]]
  // CHECK: quern.contract %[[W]], %{{.*}} over ["D"] {{.*}} -> !quern.tensor<real[T, A = 2]>
  // CHECK: quern.contract %[[W]], %{{.*}} over ["D"] {{.*}} -> !quern.tensor<real[T, G = 4]>
  // CHECK: quern.contract %arg0, %{{.*}} over ["D"] {{.*}} -> !quern.tensor<real[T, E = 3]>
  func.func @forward(%x: !quern.tensor<real[T, D = 4]>) -> (!quern.tensor<real[T, A = 2]>, !quern.tensor<real[T, G = 4]>, !quern.tensor<int[T]>) {
    %a = quern.param [["a"]] : !quern.tensor<real[A = 2, D = 4]>
    %b = quern.param [["b"]] : !quern.tensor<real[G = 4, D = 4]>
    %r = quern.param [["r"]] : !quern.tensor<real[E = 3, D = 4]>
    %p = quern.contract %x, %a over ["D"] : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[A = 2, D = 4]>) -> !quern.tensor<real[T, A = 2]>
    %q = quern.contract %x, %b over ["D"] : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[G = 4, D = 4]>) -> !quern.tensor<real[T, G = 4]>
    %s = quern.contract %x, %r over ["D"] : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[E = 3, D = 4]>) -> !quern.tensor<real[T, E = 3]>
    %c = quern.argmax %s along "E" : (!quern.tensor<real[T, E = 3]>) -> !quern.tensor<int[T]>
    return %p, %q, %c : !quern.tensor<real[T, A = 2]>, !quern.tensor<real[T, G = 4]>, !quern.tensor<int[T]>
  }
}

// -----

// A pattern that names a table: rows are looked up in codes, those that a tied head multiplies. "*" is all weights, no table.
module attributes {quern.quantize = "int8,*=int4,embed=q6_k"} {
  // CHECK-LABEL: @forward
  // CHECK: %[[E:.*]] = quern.param {{\[\[}}"embed"]] : <real[V = 9, D = 4]>
  // CHECK: %[[Q:.*]] = quern.quantize %[[E]] along "D" {quern.weight} : ({{.*}}) -> !quern.tensor<q6_k[V = 9, D = 4]>
  // CHECK: %[[H:.*]] = quern.quantize %[[E]] along "D" {quern.weight} : ({{.*}}) -> !quern.tensor<q6_k[V = 9, D = 4]>
  // CHECK: %[[R:.*]] = quern.gather %[[Q]]["V" {{.*}} -> !quern.tensor<q6_k[T, D = 4]>
  // CHECK: %[[X:.*]] = quern.dequantize %[[R]]
  // CHECK: %[[P:.*]] = quern.param {{\[\[}}"positions"]] : <real[N = 7, D = 4]>
  // CHECK: quern.gather %[[P]]
  // CHECK: %[[W:.*]] = quern.dequantize %[[H]]
  // CHECK: quern.contract %{{.*}}, %[[W]] over ["D"]
  func.func @forward(%t: !quern.tensor<int[T]>) -> !quern.tensor<real[T, V = 9]> {
    %e = quern.param [["embed"]] : !quern.tensor<real[V = 9, D = 4]>
    %x = quern.gather %e["V" = %t] : (!quern.tensor<real[V = 9, D = 4]>, !quern.tensor<int[T]>) -> !quern.tensor<real[T, D = 4]>
    %p = quern.param [["positions"]] : !quern.tensor<real[N = 7, D = 4]>
    %y = quern.gather %p["N" = %t] : (!quern.tensor<real[N = 7, D = 4]>, !quern.tensor<int[T]>) -> !quern.tensor<real[T, D = 4]>
    %h = quern.add %x, %y : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[T, D = 4]>) -> !quern.tensor<real[T, D = 4]>
    %z = quern.contract %h, %e over ["D"] : (!quern.tensor<real[T, D = 4]>, !quern.tensor<real[V = 9, D = 4]>) -> !quern.tensor<real[T, V = 9]>
    return %z : !quern.tensor<real[T, V = 9]>
  }
}
