// RUN: quern-opt %s | quern-opt | FileCheck %s
// What changes dimensions.

// CHECK: @shape(%{{.*}}: !quern.tensor<real[B, T, D = 8]>, %{{.*}}: !quern.tensor<int[B, C = 2]>, %{{.*}}: !quern.tensor<real[T, U = 1]>)
func.func @shape(%x: !quern.tensor<real[B, T, D = 8]>, %p: !quern.tensor<int[B, C = 2]>, %one: !quern.tensor<real[T, U = 1]>) {
  // CHECK: quern.rename %{{.*}} ["T", "D"] to [#quern.dim<S = T>, #quern.dim<E = 8>] : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, S = T, E = 8]>
  %0 = quern.rename %x ["T", "D"] to [#quern.dim<S = T>, #quern.dim<E = 8>] : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, S = T, E = 8]>
  // CHECK: quern.split %{{.*}} "D" into [#quern.dim<H = 2>, #quern.dim<K = 4>] : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, H = 2, K = 4]>
  %1 = quern.split %x "D" into [#quern.dim<H = 2>, #quern.dim<K = 4>] : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, H = 2, K = 4]>
  // CHECK: quern.merge %{{.*}} ["T", "D"] into <N = "8 * T"> : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, N = "8 * T"]>
  %2 = quern.merge %x ["T", "D"] into <N = "8 * T"> : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, N = "8 * T"]>
  // CHECK: quern.cut %{{.*}} "T" at "T - 1" into <L = 1> : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, L = 1, D = 8]>
  %3 = quern.cut %x "T" at "T - 1" into <L = 1> : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, L = 1, D = 8]>
  // CHECK: quern.concat %{{.*}}, %{{.*}} ["D", "U"] into <N = 9> : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[T, U = 1]>) -> !quern.tensor<real[B, T, N = 9]>
  %4 = quern.concat %x, %one ["D", "U"] into <N = 9> : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<real[T, U = 1]>) -> !quern.tensor<real[B, T, N = 9]>
  // CHECK: quern.unit %{{.*}} into <U = 1> : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8, U = 1]>
  %5 = quern.unit %x into <U = 1> : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[B, T, D = 8, U = 1]>
  // CHECK: quern.squeeze %{{.*}} "U" : (!quern.tensor<real[T, U = 1]>) -> !quern.tensor<real[T]>
  %6 = quern.squeeze %one "U" : (!quern.tensor<real[T, U = 1]>) -> !quern.tensor<real[T]>
  // CHECK: quern.gather %{{.*}}["D" = %{{.*}}] : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<int[B, C = 2]>) -> !quern.tensor<real[T, B, C = 2]>
  %7 = quern.gather %x["D" = %p] : (!quern.tensor<real[B, T, D = 8]>, !quern.tensor<int[B, C = 2]>) -> !quern.tensor<real[T, B, C = 2]>
  // CHECK: quern.expand %{{.*}} : (!quern.tensor<real[T, U = 1]>) -> !quern.tensor<real[B, T, U = 1]>
  %8 = quern.expand %one : (!quern.tensor<real[T, U = 1]>) -> !quern.tensor<real[B, T, U = 1]>
  // CHECK: quern.permute %{{.*}} : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[D = 8, T, B]>
  %9 = quern.permute %x : (!quern.tensor<real[B, T, D = 8]>) -> !quern.tensor<real[D = 8, T, B]>
  return
}
