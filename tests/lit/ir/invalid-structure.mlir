// RUN: quern-opt %s -split-input-file -verify-diagnostics
// Parameters, loops, memory and kernels. Each constraint is labelled as in its verifier.

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+1 {{param_c1}}
  %r = quern.param [] : !quern.tensor<real[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+1 {{param_c1}}
  %r = quern.param [["a"], []] : !quern.tensor<real[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+1 {{param_c1}}
  %r = quern.param [[1]] : !quern.tensor<real[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+1 {{param_c2}}
  %r = quern.param [["a"]] : !quern.tensor<real[T]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+1 {{param_c3}}
  %r = quern.param [["a"]] : !quern.tensor<int[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+1 {{param_c4}}
  %r = quern.param [["a.{E}"]] : !quern.tensor<real[A = 2, E = 3]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+1 {{param_c4}}
  %r = quern.param [["a.{E}"]] : !quern.tensor<real[A = 2]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[]>) {
  // expected-error @+1 {{repeat_c1}}
  %r:2 = quern.repeat 2 carry (%y = %x) : !quern.tensor<real[]>, !quern.tensor<real[]> {
    quern.yield %y : !quern.tensor<real[]>
  }
  return
}

// -----

func.func @f(%x: !quern.tensor<real[]>) {
  // expected-error @+1 {{repeat_c2}}
  quern.repeat 2 {
    llvm.unreachable
  }
  return
}

// -----

func.func @f(%x: !quern.tensor<real[]>, %z: !quern.tensor<int[]>) {
  // expected-error @+1 {{repeat_c3}}
  %r = quern.repeat 2 carry (%y = %x) : !quern.tensor<real[]> {
    quern.yield %z : !quern.tensor<int[]>
  }
  return
}

// -----

func.func @f(%x: !quern.tensor<real[]>) {
  // expected-error @+1 {{repeat_c4}}
  %r = quern.repeat 0 carry (%y = %x) : !quern.tensor<real[]> {
    quern.yield %y : !quern.tensor<real[]>
  }
  return
}

// -----

func.func @f(%s: !quern.tensor<real[iterations = 3, A = 2]>) {
  // expected-error @+1 {{repeat_c5}}
  quern.repeat 2 over (%y = %s) : !quern.tensor<real[iterations = 3, A = 2]> {
    quern.yield
  }
  return
}

// -----

func.func @f(%s: !quern.tensor<real[]>) {
  // expected-error @+1 {{repeat_c5}}
  quern.repeat 2 over (%y = %s) : !quern.tensor<real[]> {
    quern.yield
  }
  return
}

// -----

func.func @f(%x: !quern.tensor<real[A = 2]>) {
  // expected-error @+1 {{repeat_c6}}
  %r = quern.repeat 2 gives !quern.tensor<real[A = 2, iterations = 2]> {
    quern.yield %x : !quern.tensor<real[A = 2]>
  }
  return
}

// -----

// Chunks of what has a fixed length.
func.func @f(%s: !quern.tensor<real[A = 4, B = 2]>) {
  // expected-error @+1 {{repeat_c7}}
  quern.repeat rows 2 over (%y = %s) : !quern.tensor<real[A = 4, B = 2]> {
    quern.yield
  }
  return
}

// -----

// Two stacks of different numbers of rows.
func.func @f(%s: !quern.tensor<real[T, A = 2]>, %t: !quern.tensor<real[S]>) {
  // expected-error @+1 {{repeat_c5}}
  quern.repeat rows 2 over (%y = %s, %z = %t) : !quern.tensor<real[T, A = 2]>, !quern.tensor<real[S]> {
    quern.yield
  }
  return
}

// -----

quern.state @s of "f" : !quern.tensor<real[cap]>
func.func @f(%x: !quern.tensor<real[A = 2, B = 3]>, %i: !quern.tensor<int[A = 2]>, %m: !quern.tensor<bool[A = 2]>, %y: !quern.tensor<real[A = 5]>) {
  // expected-error @+2 {{remember_c1}}
  // expected-error @+1 {{failed to infer returned types}}
  %r = quern.remember %x "T" to <S = "T + past"> in @s : (!quern.tensor<real[A = 2, B = 3]>) -> !quern.tensor<real[A = 2, B = 3]>
  return
}

// -----

// expected-error @+1 {{kernel_c1}}
quern.kernel @k(%a: !quern.tensor<real[d0 = 2]> #quern.layout<"strided", ["1"]>) -> () {
  quern.yield
}

// -----

// expected-error @+1 {{kernel_c2}}
quern.kernel @k(%a: !quern.tensor<real[d0 = 2]> #quern.layout<"strided", ["1"]>) -> () {
  quern.yield %a : !quern.tensor<real[d0 = 2]>
}

// -----

// A tile that no producer packs; a dimension that is not there; one whose length the loader does not know; a packed result.
// expected-error @+1 {{kernel_c3}}
quern.kernel @k(%a: !quern.tensor<real[d0 = 4, d1 = 2]> #quern.layout<"packed", ["_", "_"], tile = 249989148, dims = ["d0", "d1"]>) -> (#quern.layout<"strided", ["2", "1"]>) {
  quern.yield %a : !quern.tensor<real[d0 = 4, d1 = 2]>
}

// -----

// expected-error @+1 {{kernel_c3}}
quern.kernel @k(%a: !quern.tensor<real[d0 = 4, d1 = 2]> #quern.layout<"packed", ["_", "_"], tile = 16, dims = ["d0", "d2"]>) -> (#quern.layout<"strided", ["2", "1"]>) {
  quern.yield %a : !quern.tensor<real[d0 = 4, d1 = 2]>
}

// -----

// expected-error @+1 {{kernel_c3}}
quern.kernel @k(%a: !quern.tensor<real[d0 = s0, d1 = 2]> #quern.layout<"packed", ["_", "_"], tile = 16, dims = ["d0", "d1"]>) -> (#quern.layout<"strided", ["2", "1"]>) {
  quern.yield %a : !quern.tensor<real[d0 = s0, d1 = 2]>
}

// -----

// Pairs: of a depth that is odd; of numbers in f32; three of them; of what is not packed.
// expected-error @+1 {{kernel_c3}}
quern.kernel @k(%a: !quern.tensor<bf16[d0 = 4, d1 = 3]> #quern.layout<"packed", ["_", "_"], tile = 16, dims = ["d0", "d1"], beside = 2>) -> (#quern.layout<"strided", ["3", "1"]>) {
  quern.yield %a : !quern.tensor<bf16[d0 = 4, d1 = 3]>
}

// -----

// expected-error @+1 {{kernel_c3}}
quern.kernel @k(%a: !quern.tensor<real[d0 = 4, d1 = 2]> #quern.layout<"packed", ["_", "_"], tile = 16, dims = ["d0", "d1"], beside = 2>) -> (#quern.layout<"strided", ["2", "1"]>) {
  quern.yield %a : !quern.tensor<real[d0 = 4, d1 = 2]>
}

// -----

// expected-error @+1 {{kernel_c3}}
quern.kernel @k(%a: !quern.tensor<bf16[d0 = 4, d1 = 6]> #quern.layout<"packed", ["_", "_"], tile = 16, dims = ["d0", "d1"], beside = 3>) -> (#quern.layout<"strided", ["6", "1"]>) {
  quern.yield %a : !quern.tensor<bf16[d0 = 4, d1 = 6]>
}

// -----

// expected-error @+1 {{kernel_c3}}
quern.kernel @k(%a: !quern.tensor<bf16[d0 = 4, d1 = 2]> #quern.layout<"strided", ["2", "1"], tile = 4, dims = ["d0", "d1"], beside = 2>) -> (#quern.layout<"strided", ["2", "1"]>) {
  quern.yield %a : !quern.tensor<bf16[d0 = 4, d1 = 2]>
}

// -----

// expected-error @+1 {{kernel_c3}}
quern.kernel @k(%a: !quern.tensor<real[d0 = 4, d1 = 2]> #quern.layout<"strided", ["2", "1"]>) -> (#quern.layout<"packed", ["_", "_"], tile = 16, dims = ["d0", "d1"]>) {
  quern.yield %a : !quern.tensor<real[d0 = 4, d1 = 2]>
}

// -----

// expected-error @+1 {{kernel_c3}}
quern.kernel @k(%a: !quern.tensor<real[d0 = 2]> #quern.layout<"strided", ["1", "1"]>) -> (#quern.layout<"strided", ["1"]>) {
  quern.yield %a : !quern.tensor<real[d0 = 2]>
}

// -----

// expected-error @+1 {{kernel_c3}}
quern.kernel @k(%a: !quern.tensor<real[d0 = 2]> #quern.layout<"strided", ["T /"]>) -> (#quern.layout<"strided", ["1"]>) {
  quern.yield %a : !quern.tensor<real[d0 = 2]>
}

// -----

// expected-error @+1 {{kernel_c3}}
quern.kernel @k(%a: !quern.tensor<real[d0 = 2]> #quern.layout<"strided", ["1"]>) -> (#quern.layout<"packed", ["1"], tile = 4, dims = ["d0"]>) {
  quern.yield %a : !quern.tensor<real[d0 = 2]>
}

// -----

// expected-error @+1 {{'quern.plan' is a string, not 1}}
quern.kernel @k(%a: !quern.tensor<real[d0 = 2]> #quern.layout<"strided", ["1"]>) -> (#quern.layout<"strided", ["1"]>) attributes {quern.plan = 1} {
  quern.yield %a : !quern.tensor<real[d0 = 2]>
}
