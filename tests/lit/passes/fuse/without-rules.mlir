// One function as kernels with all rules of fusion, and with each (or attention raised) left out: what was inside of a kernel is
// stored then.
// RUN: quern-opt --raise-attention --outline-kernels %s | FileCheck %s --check-prefixes=CHECK,ALL
// RUN: quern-opt --raise-attention --outline-kernels="without=fuse-epilogues" %s | FileCheck %s --check-prefixes=CHECK,EPILOGUE
// RUN: quern-opt --raise-attention --outline-kernels="without=fuse-norms" %s | FileCheck %s --check-prefixes=CHECK,NORM
// RUN: quern-opt --raise-attention --outline-kernels="without=fuse-elementwise" %s | FileCheck %s --check-prefixes=CHECK,MAP
// RUN: quern-opt --outline-kernels %s | FileCheck %s --check-prefixes=CHECK,ATTENTION
// RUN: not quern-opt --outline-kernels="without=fuse-everything" %s 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: no pass or rule is named 'fuse-everything'; these can be left out:

// CHECK-LABEL: func.func @norm
// ALL-COUNT-1:       quern.launch
// EPILOGUE-COUNT-1:  quern.launch
// NORM-COUNT-2:      quern.launch
// MAP-COUNT-3:       quern.launch
// ATTENTION-COUNT-1: quern.launch
// CHECK-NOT:         quern.launch
// CHECK:             return
func.func @norm(%x: !quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]> {
  %q = quern.mul %x, %x : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
  %s = quern.reduce mean %q over ["D"] : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T]>
  %r = quern.sqrt %s : (!quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T]>
  %y = quern.div %x, %r : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[B, T]>) -> !quern.tensor<real[B, T, D = 8]>
  return %y : !quern.tensor<real[B, T, D = 8]>
}

// CHECK-LABEL: func.func @epilogue
// ALL-COUNT-1:       quern.launch
// EPILOGUE-COUNT-2:  quern.launch
// NORM-COUNT-1:      quern.launch
// MAP-COUNT-2:       quern.launch
// ATTENTION-COUNT-1: quern.launch
// CHECK-NOT:         quern.launch
// CHECK:             return
func.func @epilogue(%x: !quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, O = 6]> {
  %w = quern.param [["w"]] : <real[O = 6, D = 8]>
  %b = quern.param [["b"]] : <real[O = 6]>
  %c = quern.contract %x, %w over ["D"] : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[O = 6, D = 8]>) -> !quern.tensor<real[B, T, O = 6]>
  %s = quern.add %c, %b : (!quern.tensor<real[B, T, O = 6]>, !quern.tensor<real[O = 6]>) -> !quern.tensor<real[B, T, O = 6]>
  %t = quern.tanh %s : (!quern.tensor<real[B, T, O = 6]>) -> !quern.tensor<real[B, T, O = 6]>
  return %t : !quern.tensor<real[B, T, O = 6]>
}

// CHECK-LABEL: func.func @attention
// ALL-COUNT-1:       quern.launch
// EPILOGUE-COUNT-1:  quern.launch
// NORM-COUNT-1:      quern.launch
// MAP-COUNT-1:       quern.launch
// ATTENTION-COUNT-3: quern.launch
// CHECK-NOT:         quern.launch
// CHECK:             return
func.func @attention(%x: !quern.tensor<real[B, T, D = 8]>, %y: !quern.tensor<real[B, S = T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]> {
  %c = quern.contract %x, %y over ["D"] : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[B, S = T, D = 8]>) -> !quern.tensor<real[B, T, S = T]>
  %w = quern.softmax %c over ["S"] : (!quern.tensor<real[B, T, S = T]>) -> !quern.tensor<real[B, T, S = T]>
  %a = quern.contract %w, %y over ["S"] : (!quern.tensor<real[B, T, S = T]>, !quern.tensor<real[B, S = T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
  return %a : !quern.tensor<real[B, T, D = 8]>
}
