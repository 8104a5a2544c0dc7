// RUN: quern-opt %s --optimizers | FileCheck %s
// RUN: quern-opt %s --optimizers --outline-kernels --plan-memory | FileCheck %s --check-prefix=PLAN
// Updates work on `elements` numbers, whatever tensors they are of: one kernel, which gives all results, serves all parameters.
module attributes {quern.train} {
  // CHECK-LABEL: func.func @update.adamw(
  // CHECK-SAME: !quern.tensor<real[E = elements]> {quern.name = "p"}
  // CHECK-SAME: !quern.tensor<real[]> {quern.name = "rate"}
  // CHECK-SAME: -> (!quern.tensor<real[E = elements]> {quern.name = "p"}, !quern.tensor<real[E = elements]> {quern.name = "m"}, !quern.tensor<real[E = elements]> {quern.name = "v"})
  // CHECK-LABEL: func.func @gradient.squares(
  // CHECK: quern.reduce sum

  // PLAN-LABEL: func.func @update.adamw(
  // PLAN-SAME: quern.arena = []
  // PLAN: quern.launch
  // PLAN-NOT: quern.launch
  // PLAN: return
}
