// RUN: quern-opt %s -split-input-file -verify-diagnostics
// Names, sizes and positions that do not fit. Each constraint is labelled as in its verifier.

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{rename_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.rename %x ["A", "B"] to [#quern.dim<C = 2>] : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[C = 2, B = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{rename_c2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.rename %x ["C"] to [#quern.dim<A = 2>] : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[A = 2, B = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{rename_c3}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.rename %x ["A"] to [#quern.dim<C = 4>] : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[C = 4, B = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{dimension B occurs twice in one tensor}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.rename %x ["A"] to [#quern.dim<B = 2>] : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[B = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+1 {{rename_c4}}
  %r = quern.rename %x ["A"] to [#quern.dim<C = 2>] : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[A = 2, B = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{split_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.split %x "C" into [#quern.dim<D = 1>] : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[A = 2, B = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{split_c2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.split %x "B" into [#quern.dim<C = 2>, #quern.dim<D = 2>] : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[A = 2, C = 2, D = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{merge_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.merge %x ["A", "C"] into <N = 6> : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[N = 6]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{merge_c2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.merge %x ["A", "B"] into <N = 5> : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[N = 5]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{merge_c3}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.merge %x [] into <N = 1> : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[A = 2, B = 3, N = 1]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{cut_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.cut %x "C" at "0" into <N = 1> : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[A = 2, N = 1]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{cut_c2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.cut %x "B" at "T /" into <N = 1> : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[A = 2, N = 1]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{cut_c3}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.cut %x "B" at "2" into <N = 2> : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[A = 2, N = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{cut_c3}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.cut %x "B" at "-1" into <N = 2> : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[A = 2, N = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{unit_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.unit %x into <U = 2> : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[A = 2, B = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{squeeze_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.squeeze %x "C" : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[A = 2, B = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{squeeze_c2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.squeeze %x "A" : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[B = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{concat_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.concat %x, %x ["B"] into <N = 6> : (!quern.tensor<real[A = 2, B = 3]>, !quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[A = 2, N = 6]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{concat_c2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.concat %x, %i ["B", "B"] into <N = 6> : (!quern.tensor<real[A = 2, B = 3]>, !quern.tensor<int[A = 2]>) -> !quern.tensor<real[A = 2, N = 6]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{concat_c3}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.concat %i, %m ["A", "A"] into <N = 4> : (!quern.tensor<int[A = 2]>, !quern.tensor<bool[A = 2]>) -> !quern.tensor<int[N = 4]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{concat_c4}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.concat %i, %i ["A", "A"] into <N = 5> : (!quern.tensor<int[A = 2]>, !quern.tensor<int[A = 2]>) -> !quern.tensor<int[N = 5]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %y: !quern.tensor<real[A = 5, B = 3]>) {
  // expected-error @+2 {{concat_c5}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.concat %x, %y ["B", "B"] into <N = 6> : (!quern.tensor<real[A = 2, B = 3]>, !quern.tensor<real[A = 5, B = 3]>) -> !quern.tensor<real[A = 2, N = 6]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{gather_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.gather %x["C" = %i] : (!quern.tensor<real[A = 2, B = 3]>, !quern.tensor<int[A = 2]>) -> !quern.tensor<real[A = 2, B = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{gather_c2}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.gather %x["A" = %m] : (!quern.tensor<real[A = 2, B = 3]>, !quern.tensor<bool[A = 2]>) -> !quern.tensor<real[A = 2, B = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %p: !quern.tensor<int[B = 4]>) {
  // expected-error @+2 {{gather_c3}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.gather %x["A" = %p] : (!quern.tensor<real[A = 2, B = 3]>, !quern.tensor<int[B = 4]>) -> !quern.tensor<real[B = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+1 {{expand_c1}}
  %r = quern.expand %i : (!quern.tensor<int[A = 2]>) -> !quern.tensor<real[A = 2, B = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+1 {{expand_c2}}
  %r = quern.expand %i : (!quern.tensor<int[A = 2]>) -> !quern.tensor<int[A = 3, B = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+1 {{permute_c1}}
  %r = quern.permute %x : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[B = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2]>, %n: !quern.tensor<bf16[A = 2]>) {
  // expected-error @+2 {{concat_c3}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.concat %x, %n ["A", "A"] into <N = 4> : (!quern.tensor<real[A = 2]>, !quern.tensor<bf16[A = 2]>) -> !quern.tensor<real[N = 4]>
  return
}

// -----

// A result that would have a name twice.
func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>) {
  // expected-error @+2 {{dimension A occurs twice in one tensor}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.split %x "B" into [#quern.dim<A = 3>, #quern.dim<D = 1>] : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>) {
  // expected-error @+2 {{dimension A occurs twice in one tensor}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.unit %x into <A = 1> : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>) {
  // expected-error @+2 {{dimension A occurs twice in one tensor}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.cut %x "B" at "0" into <A = 2> : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[A = 2]>
  return
}
