// RUN: quern-opt %s | quern-opt | FileCheck %s
// What combines positions.

// CHECK: quern.state @f.s0 of "f" : !quern.tensor<real[D = 8]>
quern.state @f.s0 of "f" : !quern.tensor<real[D = 8]>

// CHECK: @reduce(%{{.*}}: !quern.tensor<real[B, T, D = 8]>, %{{.*}}: !quern.tensor<bool[B, T]>, %{{.*}}: !quern.tensor<real[O = 4, D = 8]>)
func.func @reduce(%x: !quern.tensor<real[B, T, D = 8]>, %m: !quern.tensor<bool[B, T]>, %w: !quern.tensor<real[O = 4, D = 8]>) {
  // CHECK: quern.reduce sum %{{.*}} over ["D"] : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T]>
  %0 = quern.reduce sum %x over ["D"] : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T]>
  // CHECK: quern.reduce mean %{{.*}} over ["T", "D"] : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B]>
  %1 = quern.reduce mean %x over ["T", "D"] : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B]>
  // CHECK: quern.reduce max %{{.*}} over ["D"] : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[T, B]>
  %2 = quern.reduce max %x over ["D"] : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[T, B]>
  // CHECK: quern.reduce min %{{.*}} over ["D"] : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T]>
  %3 = quern.reduce min %x over ["D"] : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T]>
  // CHECK: quern.reduce any %{{.*}} over ["T"] : (!quern.tensor<bool[B, T]>) -> !quern.tensor<bool[B]>
  %4 = quern.reduce any %m over ["T"] : (!quern.tensor<bool[B, T]>) -> !quern.tensor<bool[B]>
  // CHECK: quern.reduce all %{{.*}} over ["T"] : (!quern.tensor<bool[B, T]>) -> !quern.tensor<bool[B]>
  %5 = quern.reduce all %m over ["T"] : (!quern.tensor<bool[B, T]>) -> !quern.tensor<bool[B]>
  // CHECK: quern.contract %{{.*}}, %{{.*}} over ["D"] : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[O = 4, D = 8]>) -> !quern.tensor<real[B, T, O = 4]>
  %6 = quern.contract %x, %w over ["D"] : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[O = 4, D = 8]>) -> !quern.tensor<real[B, T, O = 4]>
  // CHECK: quern.softmax %{{.*}} over ["T", "D"] : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
  %7 = quern.softmax %x over ["T", "D"] : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
  // CHECK: quern.cumsum %{{.*}} along "T" : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
  %8 = quern.cumsum %x along "T" : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
  // CHECK: quern.cumsum %{{.*}} along "T" state @f.s0 : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
  %9 = quern.cumsum %x along "T" state @f.s0 : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
  // CHECK: quern.cumsum %{{.*}} along "T" reverse : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
  %11 = quern.cumsum %x along "T" reverse : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8]>
  // CHECK: quern.index : <int[T]>
  %12 = quern.index : !quern.tensor<int[T]>
  // CHECK: quern.scatter_add %{{.*}} at %{{.*}} over ["B", "T"] into <V = 5> : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<int[T]>) -> !quern.tensor<real[V = 5, D = 8]>
  %13 = quern.scatter_add %x at %12 over ["B", "T"] into <V = 5> : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<int[T]>) -> !quern.tensor<real[V = 5, D = 8]>
  // CHECK: quern.argmax %{{.*}} along "D" : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<int[B, T]>
  %10 = quern.argmax %x along "D" : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<int[B, T]>
  // CHECK: quern.top_k %{{.*}} along "D" into <C = 2> : (!quern.tensor<real[B, T, D = 8]>) -> (!quern.tensor<real[B, T, C = 2]>, !quern.tensor<int[B, T, C = 2]>)
  %values, %positions = quern.top_k %x along "D" into <C = 2> : (!quern.tensor<real[B, T, D = 8]>) -> (!quern.tensor<real[B, T, C = 2]>, !quern.tensor<int[B, T, C = 2]>)
  return
}
