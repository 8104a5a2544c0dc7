// Fusion groups: what goes into one kernel, what is stored, what stays a view.
// RUN: quern-opt --raise-attention --outline-kernels %s | FileCheck %s

// A contraction takes bias, activation and residual along; rows of batch and time are one dimension; equal kernels merge.
// CHECK-LABEL: func.func @epilogue
// CHECK:         quern.launch @contract_0 ["B * T"]
// CHECK:         quern.launch @contract_0 ["B * T"]
// CHECK-NOT:     quern.launch
// CHECK:         return
func.func @epilogue(%x: !quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]> {
  %w = quern.param [["w"]] : <real[O = 8, D = 8]>
  %b = quern.param [["b"]] : <real[O = 8]>
  %c = quern.contract %x, %w over ["D"] : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[O = 8, D = 8]>) -> !quern.tensor<real[B, T, O = 8]>
  %s = quern.add %c, %b : (!quern.tensor<real[B, T, O = 8]>, !quern.tensor<real[O = 8]>) -> !quern.tensor<real[B, T, O = 8]>
  %t = quern.tanh %s : (!quern.tensor<real[B, T, O = 8]>) -> !quern.tensor<real[B, T, O = 8]>
  %r = quern.rename %t ["O"] to [#quern.dim<D = 8>] : (!quern.tensor<real[B, T, O = 8]>) -> !quern.tensor<real[B, T, D = 8]>
  %y = quern.add %x, %r : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
  %v = quern.param [["v"]] : <real[O = 8, D = 8]>
  %d = quern.contract %y, %v over ["D"] : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[O = 8, D = 8]>) -> !quern.tensor<real[B, T, O = 8]>
  %e = quern.add %d, %b : (!quern.tensor<real[B, T, O = 8]>, !quern.tensor<real[O = 8]>) -> !quern.tensor<real[B, T, O = 8]>
  %f = quern.tanh %e : (!quern.tensor<real[B, T, O = 8]>) -> !quern.tensor<real[B, T, O = 8]>
  %g = quern.rename %f ["O"] to [#quern.dim<D = 8>] : (!quern.tensor<real[B, T, O = 8]>) -> !quern.tensor<real[B, T, D = 8]>
  %z = quern.add %y, %g : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
  return %z : !quern.tensor<real[B, T, D = 8]>
}

// A norm's reductions stay inside its kernel.
// CHECK-LABEL: func.func @norm
// CHECK-COUNT-1: quern.launch
// CHECK-NOT:     quern.launch
// CHECK:         return
func.func @norm(%x: !quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]> {
  %m = quern.reduce mean %x over ["D"] : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T]>
  %c = quern.sub %x, %m : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T, D = 8]>
  %q = quern.mul %c, %c : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
  %s = quern.reduce mean %q over ["D"] : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T]>
  %r = quern.sqrt %s : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T]>
  %y = quern.div %c, %r : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T, D = 8]>
  return %y : !quern.tensor<real[B, T, D = 8]>
}

// Scores, mask, softmax and weighted sum are one kernel; the mask is made inside it.
// CHECK-LABEL: func.func @attention
// CHECK:         quern.launch @attention
// CHECK-NOT:     quern.launch
// CHECK:         return
func.func @attention(%q: !quern.tensor<real[B, T, K = 4]>, %k: !quern.tensor<real[B, S, K = 4]>, %v: !quern.tensor<real[B, S, C = 4]>) -> !quern.tensor<real[B, T, C = 4]> {
  %i = quern.index : <int[T]>
  %j = quern.index : <int[S]>
  %m = quern.compare le %j, %i : (!quern.tensor<int[S]>, !quern.tensor<int[T]>) -> !quern.tensor<bool[S, T]>
  %s = quern.contract %q, %k over ["K"] : (!quern.tensor<real[B, T, K = 4]>, !quern.tensor<real[B, S, K = 4]>) -> !quern.tensor<real[B, T, S]>
  %n = quern.const -1.0e30 : f64 -> <real[]>
  %w = quern.where %m, %s, %n : (!quern.tensor<bool[S, T]>, !quern.tensor<real[B, T, S]>, !quern.tensor<real[]>) -> !quern.tensor<real[B, T, S]>
  %p = quern.softmax %w over ["S"] : (!quern.tensor<real[B, T, S]>) -> !quern.tensor<real[B, T, S]>
  %y = quern.contract %p, %v over ["S"] : (!quern.tensor<real[B, T, S]>, !quern.tensor<real[B, S, C = 4]>) -> !quern.tensor<real[B, T, C = 4]>
  return %y : !quern.tensor<real[B, T, C = 4]>
}

// Weights that are used elsewhere are stored: two kernels.
// CHECK-LABEL: func.func @weights_shown
// CHECK:         quern.launch
// CHECK:         quern.launch
// CHECK:         quern.launch
// CHECK:         return
func.func @weights_shown(%q: !quern.tensor<real[B, T, K = 4]>, %k: !quern.tensor<real[B, S, K = 4]>, %v: !quern.tensor<real[B, S, C = 4]>) -> (!quern.tensor<real[B, T, C = 4]>, !quern.tensor<real[B, T, S]>) {
  %s = quern.contract %q, %k over ["K"] : (!quern.tensor<real[B, T, K = 4]>, !quern.tensor<real[B, S, K = 4]>) -> !quern.tensor<real[B, T, S]>
  %p = quern.softmax %s over ["S"] : (!quern.tensor<real[B, T, S]>) -> !quern.tensor<real[B, T, S]>
  %y = quern.contract %p, %v over ["S"] : (!quern.tensor<real[B, T, S]>, !quern.tensor<real[B, S, C = 4]>) -> !quern.tensor<real[B, T, C = 4]>
  return %y, %p : !quern.tensor<real[B, T, C = 4]>, !quern.tensor<real[B, T, S]>
}
