// RUN: quern-opt --roll-repeats %s | FileCheck %s --check-prefix=ROLL
// RUN: quern-opt --roll-repeats --incremental %s | FileCheck %s
//
// One decoder of two layers, pre-norm without weights: rotary keys, grouped values, a table of positions, an optional mask.
// Two iterations become one loop; keys after rope and values are remembered; the last row alone reaches the vocabulary.

func.func @forward.default.mask() -> !quern.tensor<bool[B, T]> {
  %0 = quern.const true -> !quern.tensor<bool[]>
  %1 = quern.expand %0 : (!quern.tensor<bool[]>) -> !quern.tensor<bool[B, T]>
  return %1 : !quern.tensor<bool[B, T]>
}

func.func @forward(%tokens: !quern.tensor<int[B, T]> {quern.name = "tokens"},
                   %mask: !quern.tensor<bool[B, T]> {quern.name = "mask", quern.default = @forward.default.mask}) -> !quern.tensor<real[B, T, V = 11]> {
  %words = quern.param [["words"]] : !quern.tensor<real[V = 11, D = 8]>
  %places = quern.param [["places"]] : !quern.tensor<real[P = 16, D = 8]>
  %at = quern.index : !quern.tensor<int[T]>
  %w = quern.gather %words["V" = %tokens] : (!quern.tensor<real[V = 11, D = 8]>, !quern.tensor<int[B, T]>) -> !quern.tensor<real[B, T, D = 8]>
  %p = quern.gather %places["P" = %at] : (!quern.tensor<real[P = 16, D = 8]>, !quern.tensor<int[T]>) -> !quern.tensor<real[T, D = 8]>
  %x0 = quern.add %w, %p : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
  %i = quern.index : !quern.tensor<int[K = 4]>
  %angle = quern.mul %at, %i : (!quern.tensor<int[T]>, !quern.tensor<int[K = 4]>) -> !quern.tensor<int[T, K = 4]>
  %cos = quern.cos %angle : (!quern.tensor<int[T, K = 4]>) -> !quern.tensor<real[T, K = 4]>
  %x1 = quern.repeat 1 carry (%x = %x0) : !quern.tensor<real[B, T, D = 8]> {
    %wq = quern.param [["h.0.q"]] : !quern.tensor<real[G = 2, K = 4, D = 8]>
    %wk = quern.param [["h.0.k"]] : !quern.tensor<real[K = 4, D = 8]>
    %wv = quern.param [["h.0.v"]] : !quern.tensor<real[K = 4, D = 8]>
    %wo = quern.param [["h.0.o"]] : !quern.tensor<real[D = 8, G = 2, K = 4]>
    %s = quern.rename %x ["T"] to [#quern.dim<S = T>] : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, S = T, D = 8]>
    %q0 = quern.contract %x, %wq over ["D"] : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[G = 2, K = 4, D = 8]>) -> !quern.tensor<real[B, T, G = 2, K = 4]>
    %q = quern.mul %q0, %cos : (!quern.tensor<real[B, T, G = 2, K = 4]>, !quern.tensor<real[T, K = 4]>) -> !quern.tensor<real[B, T, G = 2, K = 4]>
    %k0 = quern.contract %s, %wk over ["D"] : (!quern.tensor<real[B, S = T, D = 8]>, !quern.tensor<real[K = 4, D = 8]>) -> !quern.tensor<real[B, S = T, K = 4]>
    %cs = quern.rename %cos ["T"] to [#quern.dim<S = T>] : (!quern.tensor<real[T, K = 4]>) -> !quern.tensor<real[S = T, K = 4]>
    %k = quern.mul %k0, %cs : (!quern.tensor<real[B, S = T, K = 4]>, !quern.tensor<real[S = T, K = 4]>) -> !quern.tensor<real[B, S = T, K = 4]>
    %v = quern.contract %s, %wv over ["D"] : (!quern.tensor<real[B, S = T, D = 8]>, !quern.tensor<real[K = 4, D = 8]>) -> !quern.tensor<real[B, S = T, K = 4]>
    %score = quern.contract %q, %k over ["K"] : (!quern.tensor<real[B, T, G = 2, K = 4]>, !quern.tensor<real[B, S = T, K = 4]>) -> !quern.tensor<real[B, T, G = 2, S = T]>
    %is = quern.index : !quern.tensor<int[S = T]>
    %it = quern.index : !quern.tensor<int[T]>
    %causal = quern.compare le %is, %it : (!quern.tensor<int[S = T]>, !quern.tensor<int[T]>) -> !quern.tensor<bool[S = T, T]>
    %ms = quern.rename %mask ["T"] to [#quern.dim<S = T>] : (!quern.tensor<bool[B, T]>) -> !quern.tensor<bool[B, S = T]>
    %both = quern.and %causal, %ms : (!quern.tensor<bool[S = T, T]>, !quern.tensor<bool[B, S = T]>) -> !quern.tensor<bool[S = T, T, B]>
    %inf = quern.const 0xFFF0000000000000 : f64 -> !quern.tensor<real[]>
    %masked = quern.where %both, %score, %inf : (!quern.tensor<bool[S = T, T, B]>, !quern.tensor<real[B, T, G = 2, S = T]>, !quern.tensor<real[]>) -> !quern.tensor<real[B, T, G = 2, S = T]>
    %weight = quern.softmax %masked over ["S"] : (!quern.tensor<real[B, T, G = 2, S = T]>) -> !quern.tensor<real[B, T, G = 2, S = T]>
    %a = quern.contract %weight, %v over ["S"] : (!quern.tensor<real[B, T, G = 2, S = T]>, !quern.tensor<real[B, S = T, K = 4]>) -> !quern.tensor<real[B, T, G = 2, K = 4]>
    %o = quern.contract %a, %wo over ["G", "K"] : (!quern.tensor<real[B, T, G = 2, K = 4]>, !quern.tensor<real[D = 8, G = 2, K = 4]>) -> !quern.tensor<real[B, T, D = 8]>
    %y = quern.add %x, %o : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
    quern.yield %y : !quern.tensor<real[B, T, D = 8]>
  }
  %x2 = quern.repeat 1 carry (%x = %x1) : !quern.tensor<real[B, T, D = 8]> {
    %wq = quern.param [["h.1.q"]] : !quern.tensor<real[G = 2, K = 4, D = 8]>
    %wk = quern.param [["h.1.k"]] : !quern.tensor<real[K = 4, D = 8]>
    %wv = quern.param [["h.1.v"]] : !quern.tensor<real[K = 4, D = 8]>
    %wo = quern.param [["h.1.o"]] : !quern.tensor<real[D = 8, G = 2, K = 4]>
    %s = quern.rename %x ["T"] to [#quern.dim<S.7 = T>] : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, S.7 = T, D = 8]>
    %q0 = quern.contract %x, %wq over ["D"] : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[G = 2, K = 4, D = 8]>) -> !quern.tensor<real[B, T, G = 2, K = 4]>
    %q = quern.mul %q0, %cos : (!quern.tensor<real[B, T, G = 2, K = 4]>, !quern.tensor<real[T, K = 4]>) -> !quern.tensor<real[B, T, G = 2, K = 4]>
    %k0 = quern.contract %s, %wk over ["D"] : (!quern.tensor<real[B, S.7 = T, D = 8]>, !quern.tensor<real[K = 4, D = 8]>) -> !quern.tensor<real[B, S.7 = T, K = 4]>
    %cs = quern.rename %cos ["T"] to [#quern.dim<S.7 = T>] : (!quern.tensor<real[T, K = 4]>) -> !quern.tensor<real[S.7 = T, K = 4]>
    %k = quern.mul %k0, %cs : (!quern.tensor<real[B, S.7 = T, K = 4]>, !quern.tensor<real[S.7 = T, K = 4]>) -> !quern.tensor<real[B, S.7 = T, K = 4]>
    %v = quern.contract %s, %wv over ["D"] : (!quern.tensor<real[B, S.7 = T, D = 8]>, !quern.tensor<real[K = 4, D = 8]>) -> !quern.tensor<real[B, S.7 = T, K = 4]>
    %score = quern.contract %q, %k over ["K"] : (!quern.tensor<real[B, T, G = 2, K = 4]>, !quern.tensor<real[B, S.7 = T, K = 4]>) -> !quern.tensor<real[B, T, G = 2, S.7 = T]>
    %is = quern.index : !quern.tensor<int[S.7 = T]>
    %it = quern.index : !quern.tensor<int[T]>
    %causal = quern.compare le %is, %it : (!quern.tensor<int[S.7 = T]>, !quern.tensor<int[T]>) -> !quern.tensor<bool[S.7 = T, T]>
    %ms = quern.rename %mask ["T"] to [#quern.dim<S.7 = T>] : (!quern.tensor<bool[B, T]>) -> !quern.tensor<bool[B, S.7 = T]>
    %both = quern.and %causal, %ms : (!quern.tensor<bool[S.7 = T, T]>, !quern.tensor<bool[B, S.7 = T]>) -> !quern.tensor<bool[S.7 = T, T, B]>
    %inf = quern.const 0xFFF0000000000000 : f64 -> !quern.tensor<real[]>
    %masked = quern.where %both, %score, %inf : (!quern.tensor<bool[S.7 = T, T, B]>, !quern.tensor<real[B, T, G = 2, S.7 = T]>, !quern.tensor<real[]>) -> !quern.tensor<real[B, T, G = 2, S.7 = T]>
    %weight = quern.softmax %masked over ["S.7"] : (!quern.tensor<real[B, T, G = 2, S.7 = T]>) -> !quern.tensor<real[B, T, G = 2, S.7 = T]>
    %a = quern.contract %weight, %v over ["S.7"] : (!quern.tensor<real[B, T, G = 2, S.7 = T]>, !quern.tensor<real[B, S.7 = T, K = 4]>) -> !quern.tensor<real[B, T, G = 2, K = 4]>
    %o = quern.contract %a, %wo over ["G", "K"] : (!quern.tensor<real[B, T, G = 2, K = 4]>, !quern.tensor<real[D = 8, G = 2, K = 4]>) -> !quern.tensor<real[B, T, D = 8]>
    %y = quern.add %x, %o : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
    quern.yield %y : !quern.tensor<real[B, T, D = 8]>
  }
  %z = quern.tanh %x2 : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
  %logits = quern.contract %z, %words over ["D"] : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[V = 11, D = 8]>) -> !quern.tensor<real[B, T, V = 11]>
  return %logits : !quern.tensor<real[B, T, V = 11]>
}

// The label S.7 of the second iteration is S of the first; their parameters differ in their names only.
// ROLL-LABEL: func.func @forward
// ROLL: quern.repeat 2 carry
// ROLL: quern.param {{\[\[}}"h.0.q"], ["h.1.q"]]
// ROLL-NOT: quern.repeat
// ROLL: return

// Heads of a position lie together; the iterations of the loop come first.
// CHECK: quern.state @[[KEYS:.*]] of "forward" : !quern.tensor<real[iteration = 2, B, cap, K = 4]>
// CHECK: quern.state @[[VALUES:.*]] of "forward" : !quern.tensor<real[iteration = 2, B, cap, K = 4]>
// CHECK: quern.state @[[MASK:.*]] of "forward" : !quern.tensor<bool[B, cap]>

// CHECK-LABEL: func.func @forward(
// CHECK-SAME: quern.limits = [{at = "{{.*}}attention.mlir:{{[0-9]+}}:8", name = "P", size = 16 : i64}]
// CHECK: quern.remember %arg1 "T" to <S = "T + past"> in @[[MASK]]
// CHECK: %[[INDEX:.*]] = quern.index : <int[T]>
// CHECK: %[[PAST:.*]] = quern.size "past"
// CHECK: %[[AT:.*]] = quern.add %[[INDEX]], %[[PAST]]
// CHECK: quern.gather {{.*}}["P" = %[[AT]]]
// CHECK: %[[COS:.*]] = quern.cos
// CHECK: quern.repeat 2
// What is remembered are keys after their rotation: old positions are not rotated again.
// CHECK: %[[KEY:.*]] = quern.mul %{{.*}}, %[[COS]] {{.*}}real[B, T, K = 4]
// CHECK: quern.remember %[[KEY]] "T" to <S = "T + past"> in @[[KEYS]]
// CHECK: quern.remember %{{.*}} "T" to <S = "T + past"> in @[[VALUES]]
// CHECK: quern.softmax {{.*}}S = "T + past"

// CHECK-LABEL: func.func @forward.last(%arg0: !quern.tensor<int[B, T]> {quern.name = "tokens"}) -> !quern.tensor<real[B, V = 11]>
// CHECK-NOT: @[[MASK]]
// CHECK-NOT: quern.expand
// CHECK: quern.repeat 2
// CHECK: in @[[KEYS]]
// CHECK: in @[[VALUES]]
// CHECK: %[[ROW:.*]] = quern.cut %{{.*}} "T" at "T - 1" into <T.last = 1>
// CHECK: quern.squeeze %[[ROW]] "T.last"
// CHECK: quern.tanh {{.*}} -> !quern.tensor<real[B, D = 8]>
// CHECK: return %{{.*}} : !quern.tensor<real[B, V = 11]>
