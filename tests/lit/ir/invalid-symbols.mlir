// RUN: quern-opt %s -split-input-file -verify-diagnostics
// What names a kernel or a state: there is one, and it fits (ir/SymbolUses.cpp).

quern.kernel @k(%a: !quern.tensor<real[d0 = s0, d1 = 4]> #quern.layout<"strided", ["4", "1"]>) -> (#quern.layout<"strided", ["4", "1"]>) {
  %0 = quern.neg %a : (!quern.tensor<real[d0 = s0, d1 = 4]>) -> !quern.tensor<real[d0 = s0, d1 = 4]>
  quern.yield %0 : !quern.tensor<real[d0 = s0, d1 = 4]>
}
func.func @f(%x: !quern.tensor<real[T, K = 4]>, %i: !quern.tensor<int[T, K = 4]>, %n: !quern.tensor<real[T, K = 5]>, %v: !quern.tensor<real[K = 4]>) {
  // expected-error @+1 {{launch_c1}}
  %0 = quern.launch @l ["T"](%x) : (!quern.tensor<real[T, K = 4]>) -> !quern.tensor<real[T, K = 4]>
  return
}

// -----

quern.kernel @k(%a: !quern.tensor<real[d0 = s0, d1 = 4]> #quern.layout<"strided", ["4", "1"]>) -> (#quern.layout<"strided", ["4", "1"]>) {
  %0 = quern.neg %a : (!quern.tensor<real[d0 = s0, d1 = 4]>) -> !quern.tensor<real[d0 = s0, d1 = 4]>
  quern.yield %0 : !quern.tensor<real[d0 = s0, d1 = 4]>
}
func.func @f(%x: !quern.tensor<real[T, K = 4]>, %i: !quern.tensor<int[T, K = 4]>, %n: !quern.tensor<real[T, K = 5]>, %v: !quern.tensor<real[K = 4]>) {
  // expected-error @+1 {{launch_c2}}
  %0 = quern.launch @k [](%x) : (!quern.tensor<real[T, K = 4]>) -> !quern.tensor<real[T, K = 4]>
  return
}

// -----

quern.kernel @k(%a: !quern.tensor<real[d0 = s0, d1 = 4]> #quern.layout<"strided", ["4", "1"]>) -> (#quern.layout<"strided", ["4", "1"]>) {
  %0 = quern.neg %a : (!quern.tensor<real[d0 = s0, d1 = 4]>) -> !quern.tensor<real[d0 = s0, d1 = 4]>
  quern.yield %0 : !quern.tensor<real[d0 = s0, d1 = 4]>
}
func.func @f(%x: !quern.tensor<real[T, K = 4]>, %i: !quern.tensor<int[T, K = 4]>, %n: !quern.tensor<real[T, K = 5]>, %v: !quern.tensor<real[K = 4]>) {
  // expected-error @+1 {{launch_c3}}
  %0 = quern.launch @k ["T /"](%x) : (!quern.tensor<real[T, K = 4]>) -> !quern.tensor<real[T, K = 4]>
  return
}

// -----

quern.kernel @k(%a: !quern.tensor<real[d0 = s0, d1 = 4]> #quern.layout<"strided", ["4", "1"]>) -> (#quern.layout<"strided", ["4", "1"]>) {
  %0 = quern.neg %a : (!quern.tensor<real[d0 = s0, d1 = 4]>) -> !quern.tensor<real[d0 = s0, d1 = 4]>
  quern.yield %0 : !quern.tensor<real[d0 = s0, d1 = 4]>
}
func.func @f(%x: !quern.tensor<real[T, K = 4]>, %i: !quern.tensor<int[T, K = 4]>, %n: !quern.tensor<real[T, K = 5]>, %v: !quern.tensor<real[K = 4]>) {
  // expected-error @+1 {{launch_c4}}
  %0 = quern.launch @k ["T"](%x, %x) : (!quern.tensor<real[T, K = 4]>, !quern.tensor<real[T, K = 4]>) -> !quern.tensor<real[T, K = 4]>
  return
}

// -----

quern.kernel @k(%a: !quern.tensor<real[d0 = s0, d1 = 4]> #quern.layout<"strided", ["4", "1"]>) -> (#quern.layout<"strided", ["4", "1"]>) {
  %0 = quern.neg %a : (!quern.tensor<real[d0 = s0, d1 = 4]>) -> !quern.tensor<real[d0 = s0, d1 = 4]>
  quern.yield %0 : !quern.tensor<real[d0 = s0, d1 = 4]>
}
func.func @f(%x: !quern.tensor<real[T, K = 4]>, %i: !quern.tensor<int[T, K = 4]>, %n: !quern.tensor<real[T, K = 5]>, %v: !quern.tensor<real[K = 4]>) {
  // expected-error @+1 {{launch_c4}}
  quern.launch @k ["T"](%x) : (!quern.tensor<real[T, K = 4]>) -> ()
  return
}

// -----

quern.kernel @k(%a: !quern.tensor<real[d0 = s0, d1 = 4]> #quern.layout<"strided", ["4", "1"]>) -> (#quern.layout<"strided", ["4", "1"]>) {
  %0 = quern.neg %a : (!quern.tensor<real[d0 = s0, d1 = 4]>) -> !quern.tensor<real[d0 = s0, d1 = 4]>
  quern.yield %0 : !quern.tensor<real[d0 = s0, d1 = 4]>
}
func.func @f(%x: !quern.tensor<real[T, K = 4]>, %i: !quern.tensor<int[T, K = 4]>, %n: !quern.tensor<real[T, K = 5]>, %v: !quern.tensor<real[K = 4]>) {
  // expected-error @+1 {{launch_c5}}
  %0 = quern.launch @k ["T"](%i) : (!quern.tensor<int[T, K = 4]>) -> !quern.tensor<real[T, K = 4]>
  return
}

// -----

quern.kernel @k(%a: !quern.tensor<real[d0 = s0, d1 = 4]> #quern.layout<"strided", ["4", "1"]>) -> (#quern.layout<"strided", ["4", "1"]>) {
  %0 = quern.neg %a : (!quern.tensor<real[d0 = s0, d1 = 4]>) -> !quern.tensor<real[d0 = s0, d1 = 4]>
  quern.yield %0 : !quern.tensor<real[d0 = s0, d1 = 4]>
}
func.func @f(%x: !quern.tensor<real[T, K = 4]>, %i: !quern.tensor<int[T, K = 4]>, %n: !quern.tensor<real[T, K = 5]>, %v: !quern.tensor<real[K = 4]>) {
  // expected-error @+1 {{launch_c5}}
  %0 = quern.launch @k ["T"](%n) : (!quern.tensor<real[T, K = 5]>) -> !quern.tensor<real[T, K = 4]>
  return
}

// -----

quern.kernel @k(%a: !quern.tensor<real[d0 = s0, d1 = 4]> #quern.layout<"strided", ["4", "1"]>) -> (#quern.layout<"strided", ["4", "1"]>) {
  %0 = quern.neg %a : (!quern.tensor<real[d0 = s0, d1 = 4]>) -> !quern.tensor<real[d0 = s0, d1 = 4]>
  quern.yield %0 : !quern.tensor<real[d0 = s0, d1 = 4]>
}
func.func @f(%x: !quern.tensor<real[T, K = 4]>, %i: !quern.tensor<int[T, K = 4]>, %n: !quern.tensor<real[T, K = 5]>, %v: !quern.tensor<real[K = 4]>) {
  // expected-error @+1 {{launch_c5}}
  %0 = quern.launch @k ["T"](%v) : (!quern.tensor<real[K = 4]>) -> !quern.tensor<real[T, K = 4]>
  return
}

// -----

quern.kernel @k(%a: !quern.tensor<real[d0 = s0, d1 = 4]> #quern.layout<"strided", ["4", "1"]>) -> (#quern.layout<"strided", ["4", "1"]>) {
  %0 = quern.neg %a : (!quern.tensor<real[d0 = s0, d1 = 4]>) -> !quern.tensor<real[d0 = s0, d1 = 4]>
  quern.yield %0 : !quern.tensor<real[d0 = s0, d1 = 4]>
}
func.func @f(%x: !quern.tensor<real[T, K = 4]>, %i: !quern.tensor<int[T, K = 4]>, %n: !quern.tensor<real[T, K = 5]>, %v: !quern.tensor<real[K = 4]>) {
  // expected-error @+1 {{launch_c5}}
  %0 = quern.launch @k ["T"](%x) : (!quern.tensor<real[T, K = 4]>) -> !quern.tensor<real[T, K = 5]>
  return
}

// -----

quern.kernel @k(%a: !quern.tensor<real[d0 = s0, d1 = 4]> #quern.layout<"strided", ["4", "1"]>) -> (#quern.layout<"strided", ["4", "1"]>) {
  %0 = quern.neg %a : (!quern.tensor<real[d0 = s0, d1 = 4]>) -> !quern.tensor<real[d0 = s0, d1 = 4]>
  quern.yield %0 : !quern.tensor<real[d0 = s0, d1 = 4]>
}
func.func @f(%x: !quern.tensor<real[T, K = 4]>, %i: !quern.tensor<int[T, K = 4]>, %n: !quern.tensor<real[T, K = 5]>, %v: !quern.tensor<real[K = 4]>) {
  // expected-error @+1 {{launch_c5}}
  %0 = quern.launch @k ["B"](%x) : (!quern.tensor<real[T, K = 4]>) -> !quern.tensor<real[T, K = 4]>
  return
}

// -----

quern.state @s of "f" : !quern.tensor<real[B, K = 4]>
quern.state @c of "f" : !quern.tensor<real[B, cap, K = 4]>
func.func @f(%x: !quern.tensor<real[B, K = 4]>, %i: !quern.tensor<int[B, K = 4]>, %t: !quern.tensor<real[B, T, K = 4]>, %u: !quern.tensor<real[T, K = 4]>) {
  // expected-error @+1 {{remember_c2}}
  %0 = quern.remember %t "T" to <S = "T + past"> in @d : (!quern.tensor<real[B, T, K = 4]>) -> !quern.tensor<real[B, S = "T + past", K = 4]>
  return
}

// -----

quern.state @s of "f" : !quern.tensor<real[B, K = 4]>
quern.state @c of "f" : !quern.tensor<real[B, cap, K = 4]>
func.func @f(%x: !quern.tensor<real[B, K = 4]>, %i: !quern.tensor<int[B, K = 4]>, %t: !quern.tensor<real[B, T, K = 4]>, %u: !quern.tensor<real[T, K = 4]>) {
  // expected-error @+1 {{remember_c3}}
  %0 = quern.remember %u "T" to <S = "T + past"> in @c : (!quern.tensor<real[T, K = 4]>) -> !quern.tensor<real[S = "T + past", K = 4]>
  return
}

// -----

quern.state @s of "f" : !quern.tensor<real[B, K = 4]>
quern.state @c of "f" : !quern.tensor<real[B, cap, K = 4]>
func.func @f(%x: !quern.tensor<real[B, K = 4]>, %i: !quern.tensor<int[B, K = 4]>, %t: !quern.tensor<real[B, T, K = 4]>, %u: !quern.tensor<real[T, K = 4]>) {
  // expected-error @+1 {{recall_c1}}
  %0 = quern.recall @d : !quern.tensor<real[B, K = 4]>
  return
}

// -----

quern.state @s of "f" : !quern.tensor<real[B, K = 4]>
quern.state @c of "f" : !quern.tensor<real[B, cap, K = 4]>
func.func @f(%x: !quern.tensor<real[B, K = 4]>, %i: !quern.tensor<int[B, K = 4]>, %t: !quern.tensor<real[B, T, K = 4]>, %u: !quern.tensor<real[T, K = 4]>) {
  // expected-error @+1 {{recall_c2}}
  %0 = quern.recall @s : !quern.tensor<int[B, K = 4]>
  return
}

// -----

quern.state @s of "f" : !quern.tensor<real[B, K = 4]>
quern.state @c of "f" : !quern.tensor<real[B, cap, K = 4]>
func.func @f(%x: !quern.tensor<real[B, K = 4]>, %i: !quern.tensor<int[B, K = 4]>, %t: !quern.tensor<real[B, T, K = 4]>, %u: !quern.tensor<real[T, K = 4]>) {
  // expected-error @+1 {{recall_c2}}
  %0 = quern.recall @s : !quern.tensor<real[B, K = 5]>
  return
}

// -----

quern.state @s of "f" : !quern.tensor<real[B, K = 4]>
quern.state @c of "f" : !quern.tensor<real[B, cap, K = 4]>
func.func @f(%x: !quern.tensor<real[B, K = 4]>, %i: !quern.tensor<int[B, K = 4]>, %t: !quern.tensor<real[B, T, K = 4]>, %u: !quern.tensor<real[T, K = 4]>) {
  // expected-error @+1 {{store_c1}}
  quern.store %x in @d : !quern.tensor<real[B, K = 4]>
  return
}

// -----

quern.state @s of "f" : !quern.tensor<real[B, K = 4]>
quern.state @c of "f" : !quern.tensor<real[B, cap, K = 4]>
func.func @f(%x: !quern.tensor<real[B, K = 4]>, %i: !quern.tensor<int[B, K = 4]>, %t: !quern.tensor<real[B, T, K = 4]>, %u: !quern.tensor<real[T, K = 4]>) {
  // expected-error @+1 {{store_c2}}
  quern.store %i in @s : !quern.tensor<int[B, K = 4]>
  return
}

// -----

quern.state @s of "f" : !quern.tensor<real[B, K = 4]>
quern.state @c of "f" : !quern.tensor<real[B, cap, K = 4]>
func.func @f(%x: !quern.tensor<real[B, K = 4]>, %i: !quern.tensor<int[B, K = 4]>, %t: !quern.tensor<real[B, T, K = 4]>, %u: !quern.tensor<real[T, K = 4]>) {
  // expected-error @+1 {{store_c2}}
  quern.store %u in @s : !quern.tensor<real[T, K = 4]>
  return
}

// -----

// Within a loop a state has a dimension for the iterations.
quern.state @s of "f" : !quern.tensor<real[B, K = 4]>
func.func @f(%x: !quern.tensor<real[B, K = 4]>) {
  quern.repeat 2 {
    // expected-error @+1 {{store_c2}}
    quern.store %x in @s : !quern.tensor<real[B, K = 4]>
    quern.yield
  }
  return
}

// -----

// expected-error @+1 {{kernel_c4}}
quern.kernel @k(%a: !quern.tensor<real[d0 = 2]> #quern.layout<"strided", ["1"]>) -> (#quern.layout<"strided", ["1"]>) attributes {in_place = 1 : i64} {
  quern.yield %a : !quern.tensor<real[d0 = 2]>
}
