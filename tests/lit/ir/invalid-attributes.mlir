// RUN: quern-opt %s -split-input-file -verify-diagnostics
// Discardable attributes (ir/Attributes.cpp): unknown ones, on other operations, of another form.

// A name that the table lacks.
// expected-error @+1 {{unknown attribute 'quern.arean' on func.func; known are quern.adapter, quern.again,}}
func.func @f() attributes {quern.arean = []} {
  return
}

// -----

// expected-error @+1 {{unknown attribute 'quern.nom' on argument 0; known are quern.default, quern.name}}
func.func @f(%x: !quern.tensor<real[T]> {quern.nom = "x"}) {
  return
}

// -----

// expected-error @+1 {{unknown attribute 'quern.nom' on result 0; known are quern.gradient, quern.name}}
func.func @f(%x: !quern.tensor<real[T]>) -> (!quern.tensor<real[T]> {quern.nom = "x"}) {
  return %x : !quern.tensor<real[T]>
}

// -----

// A name of the table where it means nothing.
func.func @f(%x: !quern.tensor<real[T]>) {
  // expected-error @+1 {{'quern.arena' stands on a function, not on quern.neg}}
  %0 = quern.neg %x {quern.arena = []} : (!quern.tensor<real[T]>) -> !quern.tensor<real[T]>
  return
}

// -----

// expected-error @+1 {{'quern.once' stands on an operation with results, not on func.func}}
func.func @f() attributes {quern.once} {
  return
}

// -----

// expected-error @+1 {{'quern.arena' stands on a function, not on argument 0}}
func.func @f(%x: !quern.tensor<real[T]> {quern.arena = []}) {
  return
}

// -----

// Another form.
// expected-error @+1 {{'quern.time' is a #quern.label, not "T"}}
func.func @f() attributes {quern.time = "T"} {
  return
}

// -----

// expected-error @+1 {{'quern.batch' is a #quern.label}}
func.func @f() attributes {quern.batch = "B"} {
  return
}

// -----

// expected-error @+1 {{'quern.role' is a #quern.role}}
func.func @f() attributes {quern.role = "last"} {
  return
}

// -----

// expected-error @+1 {{'quern.few_rows' is a positive i64}}
func.func @f() attributes {quern.few_rows = -1} {
  return
}

// -----

// expected-error @+1 {{'quern.limits' is a list of {at, name, size}}}
func.func @f() attributes {quern.limits = [{at = "a"}]} {
  return
}

// -----

// expected-error @+1 {{'quern.arena' is a list of lists of sizes}}
func.func @f() attributes {quern.arena = ["4"]} {
  return
}

// -----

// expected-error @+1 {{'quern.kept' is a list of sizes}}
func.func @f() attributes {quern.kept = ["4 /"]} {
  return
}

// -----

// expected-error @+1 {{'quern.recompute' is a unit attribute}}
func.func @f() attributes {quern.recompute = 1} {
  return
}

// -----

// expected-error @+1 {{'quern.precision' is "f32", "bf16" or "f16", not "f8"}}
module attributes {quern.precision = "f8"} {
}

// -----

// expected-error @+1 {{'quern.saving_price' is a number of at least 0}}
module attributes {quern.saving_price = -1.0} {
}

// -----

func.func @f(%x: !quern.tensor<real[T]>) {
  // expected-error @+1 {{'quern.routed_share' stands on quern.param, not on quern.neg}}
  %0 = quern.neg %x {quern.routed_share = 0.5} : (!quern.tensor<real[T]>) -> !quern.tensor<real[T]>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'quern.adapter' is true or false}}
  %0 = quern.param [["w"]] {quern.adapter} : !quern.tensor<real[K = 4]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[T]>) {
  // expected-error @+1 {{'quern.routed_share' is a share from 0 to 1}}
  %0 = quern.param [["w"]] {quern.routed_share = 2.0} : !quern.tensor<real[K = 4]>
  return
}

// -----

func.func @f(%x: !quern.tensor<real[T]>) {
  // expected-error @+1 {{'quern.window' is a #quern.window}}
  %0 = quern.rename %x ["T"] to [#quern.dim<S = T>] {quern.window = 256} : (!quern.tensor<real[T]>) -> !quern.tensor<real[S = T]>
  return
}

// -----

// One entry for each result.
func.func @f(%x: !quern.tensor<real[T]>) {
  // expected-error @+1 {{'quern.places' has 2 entries for 1 results}}
  %0 = quern.repeat 2 carry (%c = %x) : !quern.tensor<real[T]> {
    quern.yield %c : !quern.tensor<real[T]>
  } {quern.places = [#quern.place<arena 0>, #quern.place<arena 1>]}
  return
}

// -----

func.func @f(%x: !quern.tensor<real[T]>) {
  // expected-error @+1 {{'quern.places' is a list of #quern.place}}
  %0 = quern.repeat 2 carry (%c = %x) : !quern.tensor<real[T]> {
    quern.yield %c : !quern.tensor<real[T]>
  } {quern.places = ["arena 0"]}
  return
}

// -----

// The attributes themselves.
func.func @f() {
  // expected-error @+1 {{init_c1}}
  %0 = quern.param [["w"]] init <"normal", 0.02 : f64, if_absent = true> : !quern.tensor<real[K = 4]>
  return
}

// -----

// expected-error @+1 {{role_c1}}
func.func @f() attributes {quern.role = #quern.role<update, @g>} {
  return
}

// -----

// expected-error @+1 {{role_c1}}
func.func @f() attributes {quern.role = #quern.role<last>} {
  return
}

// -----

// expected-error @+1 {{window_c1}}
func.func @f() attributes {quern.window = #quern.window<0>} {
  return
}

// -----

// expected-error @+1 {{a place is in the arena, kept, an output, a part, rows or a state, not 'heap'}}
func.func @f() attributes {quern.places = [#quern.place<heap 0>]} {
  return
}

// -----

func.func @f(%x: !quern.tensor<real[T]>) {
  // expected-error @+1 {{names of dimensions}}
  "quern.softmax"(%x) {dims = ["T"]} : (!quern.tensor<real[T]>) -> !quern.tensor<real[T]>
  return
}
