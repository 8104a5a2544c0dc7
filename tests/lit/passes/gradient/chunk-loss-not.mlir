// RUN: quern-opt %s --split-input-file --chunk-loss | FileCheck %s
// Where rows meet in another way than by a sum at the end, the function stays as it is: a largest value over all rows (first), rows
// that look at each other's probabilities (second). A module that is not to be trained stays as it is, too (third).
// CHECK-NOT: quern.repeat
module attributes {quern.train, quern.chunk_rows = 4 : i64} {
  func.func @loss(%h: !quern.tensor<real[T, D = 3]> {quern.name = "h"}) -> (!quern.tensor<real[]> {quern.name = "loss"}) {
    %w = quern.param [["w"]] : !quern.tensor<real[V = 5, D = 3]>
    %l = quern.contract %h, %w over ["D"] : (!quern.tensor<real[T, D = 3]>, !quern.tensor<real[V = 5, D = 3]>) -> !quern.tensor<real[T, V = 5]>
    %m = quern.reduce max %l over ["V"] : (!quern.tensor<real[T, V = 5]>) -> !quern.tensor<real[T]>
    %z = quern.sub %l, %m : (!quern.tensor<real[T, V = 5]>, !quern.tensor<real[T]>) -> !quern.tensor<real[T, V = 5]>
    %r = quern.reduce max %z over ["T", "V"] : (!quern.tensor<real[T, V = 5]>) -> !quern.tensor<real[]>
    return %r : !quern.tensor<real[]>
  }
}
// -----
module attributes {quern.train, quern.chunk_rows = 4 : i64} {
  func.func @loss(%h: !quern.tensor<real[T, D = 3]> {quern.name = "h"}) -> (!quern.tensor<real[]> {quern.name = "loss"}) {
    %w = quern.param [["w"]] : !quern.tensor<real[V = 5, D = 3]>
    %l = quern.contract %h, %w over ["D"] : (!quern.tensor<real[T, D = 3]>, !quern.tensor<real[V = 5, D = 3]>) -> !quern.tensor<real[T, V = 5]>
    %p = quern.softmax %l over ["V"] : (!quern.tensor<real[T, V = 5]>) -> !quern.tensor<real[T, V = 5]>
    %c = quern.cumsum %p along "T" : (!quern.tensor<real[T, V = 5]>) -> !quern.tensor<real[T, V = 5]>
    %r = quern.reduce sum %c over ["T", "V"] : (!quern.tensor<real[T, V = 5]>) -> !quern.tensor<real[]>
    return %r : !quern.tensor<real[]>
  }
}
// -----
module {
  func.func @loss(%h: !quern.tensor<real[T, D = 3]> {quern.name = "h"}) -> (!quern.tensor<real[]> {quern.name = "loss"}) {
    %w = quern.param [["w"]] : !quern.tensor<real[V = 5, D = 3]>
    %l = quern.contract %h, %w over ["D"] : (!quern.tensor<real[T, D = 3]>, !quern.tensor<real[V = 5, D = 3]>) -> !quern.tensor<real[T, V = 5]>
    %m = quern.reduce max %l over ["V"] : (!quern.tensor<real[T, V = 5]>) -> !quern.tensor<real[T]>
    %r = quern.reduce sum %m over ["T"] : (!quern.tensor<real[T]>) -> !quern.tensor<real[]>
    return %r : !quern.tensor<real[]>
  }
}
