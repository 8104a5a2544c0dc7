// RUN: quern-opt --add-adapters --differentiate %s | FileCheck %s
//
// Beside the product with a matrix of the layers stands one with two thin matrices, whatever way that is stored. The head, which is
// outside of the loop, has none. Gradients are those of the thin matrices alone: no product makes that of a frozen one.

module attributes {quern.train, quern.lora = "2", quern.lora_scale = 0.5 : f64} {
  // CHECK-LABEL: func.func @loss(
  // CHECK: quern.repeat 2
  // CHECK: %[[A:.*]] = quern.param {{\[\[}}"h.0.w.lora_A.weight", "w0.lora_A.weight"], ["h.1.w.lora_A.weight", "w1.lora_A.weight"]] init <"uniform", 5.000000e-01 : f64> {quern.adapter = true} : <real[rank = 2, D = 4]>
  // CHECK: %[[B:.*]] = quern.param {{\[\[}}"h.0.w.lora_B.weight", "w0.lora_B.weight"], ["h.1.w.lora_B.weight", "w1.lora_B.weight"]] init <"zeros", 0.000000e+00 : f64> {quern.adapter = true} : <real[O = 4, rank = 2]>
  // CHECK: %[[Y:.*]] = quern.contract %[[X:.*]], %{{.*}} over ["D"] {{.*}} -> !quern.tensor<real[B, O = 4]>
  // CHECK: %[[H:.*]] = quern.contract %[[X]], %[[A]] over ["D"]
  // CHECK: %[[F:.*]] = quern.const 5.000000e-01
  // CHECK: %[[S:.*]] = quern.mul %[[H]], %[[F]]
  // CHECK: %[[U:.*]] = quern.contract %[[S]], %[[B]] over ["rank"]
  // CHECK: quern.add %[[Y]], %[[U]]
  // CHECK-LABEL: func.func @loss.grad(
  // CHECK-SAME: -> (!quern.tensor<real[]>, !quern.tensor<real[iterations = 2, rank = 2, D = 4]> {quern.gradient = {{\[\[}}"h.0.w.lora_A.weight", "w0.lora_A.weight"], ["h.1.w.lora_A.weight", "w1.lora_A.weight"]], quern.name = "grad.h.0.w.lora_A.weight"}, !quern.tensor<real[iterations = 2, O = 4, rank = 2]> {quern.gradient = {{\[\[}}"h.0.w.lora_B.weight", "w0.lora_B.weight"], ["h.1.w.lora_B.weight", "w1.lora_B.weight"]], quern.name = "grad.h.0.w.lora_B.weight"})
  // CHECK: quern.repeat 2 reversed
  // CHECK-NOT: quern.contract {{.*}} over ["B"] {{.*}} -> !quern.tensor<real[{{[OD]}} = 4, {{[OD]}} = 4]>
  // CHECK: return
  func.func @loss(%x: !quern.tensor<real[B, D = 4]>) -> !quern.tensor<real[]> {
    %r = quern.repeat 2 carry (%c = %x) : !quern.tensor<real[B, D = 4]> {
      %w = quern.param [["h.0.w.weight", "w0"], ["h.1.w.weight", "w1"]] : !quern.tensor<real[D = 4, O = 4]>
      %y = quern.contract %c, %w over ["D"] : (!quern.tensor<real[B, D = 4]>, !quern.tensor<real[D = 4, O = 4]>) -> !quern.tensor<real[B, O = 4]>
      %t = quern.tanh %y : (!quern.tensor<real[B, O = 4]>) -> !quern.tensor<real[B, O = 4]>
      %n = quern.rename %t ["O"] to [#quern.dim<D = 4>] : (!quern.tensor<real[B, O = 4]>) -> !quern.tensor<real[B, D = 4]>
      quern.yield %n : !quern.tensor<real[B, D = 4]>
    }
    %head = quern.param [["head.weight"]] : !quern.tensor<real[V = 8, D = 4]>
    %l = quern.contract %r, %head over ["D"] : (!quern.tensor<real[B, D = 4]>, !quern.tensor<real[V = 8, D = 4]>) -> !quern.tensor<real[B, V = 8]>
    %s = quern.reduce mean %l over ["B", "V"] : (!quern.tensor<real[B, V = 8]>) -> !quern.tensor<real[]>
    return %s : !quern.tensor<real[]>
  }
}
