// RUN: quern-opt %s --pair-codes | FileCheck %s
// Rows that codes of more than 4 bits multiply are paired, and with them all of the same rows, which stay one.
// CHECK-LABEL: @rows
// CHECK: quern.quantize %arg0 along "I" paired :
// CHECK: quern.quantize %arg0 along "I" paired :
// CHECK: quern.quantize %arg1 along "I" : {{.*}} -> !quern.tensor<int8[M, I = 64]>
// CHECK: quern.quantize %arg2 along "I" : {{.*}} -> !quern.tensor<int8[M, I = 64]>
func.func @rows(%x: !quern.tensor<real[M, I = 64]>, %y: !quern.tensor<real[M, I = 64]>, %z: !quern.tensor<real[M, I = 64]>, %w8: !quern.tensor<int8[O = 8, I = 64]>, %w4: !quern.tensor<int4[O = 8, I = 64]>, %wf: !quern.tensor<f8_e4m3[O = 8, I = 64]>) -> (!quern.tensor<real[M, O = 8]>, !quern.tensor<real[M, O = 8]>, !quern.tensor<real[M, O = 8]>, !quern.tensor<real[M, O = 8]>) {
  %r8 = quern.dequantize %w8 : (!quern.tensor<int8[O = 8, I = 64]>) -> !quern.tensor<real[O = 8, I = 64]>
  %r4 = quern.dequantize %w4 : (!quern.tensor<int4[O = 8, I = 64]>) -> !quern.tensor<real[O = 8, I = 64]>
  %rf = quern.dequantize %wf : (!quern.tensor<f8_e4m3[O = 8, I = 64]>) -> !quern.tensor<real[O = 8, I = 64]>
  %x8 = quern.quantize %x along "I" : (!quern.tensor<real[M, I = 64]>) -> !quern.tensor<int8[M, I = 64]>
  %x4 = quern.quantize %x along "I" : (!quern.tensor<real[M, I = 64]>) -> !quern.tensor<int8[M, I = 64]>
  %y4 = quern.quantize %y along "I" : (!quern.tensor<real[M, I = 64]>) -> !quern.tensor<int8[M, I = 64]>
  %zf = quern.quantize %z along "I" : (!quern.tensor<real[M, I = 64]>) -> !quern.tensor<int8[M, I = 64]>
  %a = quern.dequantize %x8 : (!quern.tensor<int8[M, I = 64]>) -> !quern.tensor<real[M, I = 64]>
  %b = quern.dequantize %x4 : (!quern.tensor<int8[M, I = 64]>) -> !quern.tensor<real[M, I = 64]>
  %c = quern.dequantize %y4 : (!quern.tensor<int8[M, I = 64]>) -> !quern.tensor<real[M, I = 64]>
  %d = quern.dequantize %zf : (!quern.tensor<int8[M, I = 64]>) -> !quern.tensor<real[M, I = 64]>
  %p = quern.contract %a, %r8 over ["I"] : (!quern.tensor<real[M, I = 64]>, !quern.tensor<real[O = 8, I = 64]>) -> !quern.tensor<real[M, O = 8]>
  %q = quern.contract %b, %r4 over ["I"] : (!quern.tensor<real[M, I = 64]>, !quern.tensor<real[O = 8, I = 64]>) -> !quern.tensor<real[M, O = 8]>
  %r = quern.contract %c, %r4 over ["I"] : (!quern.tensor<real[M, I = 64]>, !quern.tensor<real[O = 8, I = 64]>) -> !quern.tensor<real[M, O = 8]>
  %s = quern.contract %d, %rf over ["I"] : (!quern.tensor<real[M, I = 64]>, !quern.tensor<real[O = 8, I = 64]>) -> !quern.tensor<real[M, O = 8]>
  return %p, %q, %r, %s : !quern.tensor<real[M, O = 8]>, !quern.tensor<real[M, O = 8]>, !quern.tensor<real[M, O = 8]>, !quern.tensor<real[M, O = 8]>
}
