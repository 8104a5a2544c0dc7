// Attention as one operation.
#ifndef QUERN_IR_ATTENTION
#define QUERN_IR_ATTENTION

include "ir/ReduceOps.td"

def Quern_AttentionOp : Quern_Op<"attention", [Pure, IsolatedFromAbove, SingleBlock, AttrSizedOperandSegments]> {
  let summary = "sum over keys of softmax(score) * values; the score is an expression of products of queries and keys";
  let description = [{
    The body computes the score element by element. Its arguments are, for each pair of `queries` and `keys`, their
    product (summed over the dimensions that both have and the argument lacks), then the `inputs`: masks, biases and
    whatever else the score reads. It yields the score, which has the dimension of the keys, `dim`.

    `sinks` are further scores without a value: the softmax runs over the keys and, for each sink, over the dimension of
    it that `parts` names. A row whose scores are all -inf gives zeros.

    One result, or three: the others are statistics of each row's softmax, from which it can be computed again: `shift`,
    its largest score (0 where all are -inf), and `share`, 1 / sum of e^(score - shift) (0 where all are -inf).

    `narrow`: the weights are rounded to bf16 before values are multiplied by them, as 2^n e^score, where n is the whole
    number that makes the largest of a row at most 1 and more than a half: of parts of the keys with an n of their own
    the same digits are rounded away. The softmax divides by the sum of these weights and of the sinks' as they are.
  }];
  let arguments = (ins Variadic<Quern_TensorType>:$queries, Variadic<Quern_TensorType>:$keys, Quern_TensorType:$values,
                       Variadic<Quern_TensorType>:$inputs, Variadic<Quern_TensorType>:$sinks, Quern_Label:$dim,
                       OptionalAttr<Quern_Labels>:$parts, UnitAttr:$narrow);
  let results = (outs Variadic<Quern_TensorType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $queries `with` $keys `over` custom<Label>($dim) `of` $values (`reading` $inputs^)? (`sinks` $sinks^ custom<Labels>($parts))? (`narrow` $narrow^)? $body attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block &getBlock() { return getBody().front(); }
    /// What the body yields.
    ::mlir::Value getScore();
    ::mlir::BlockArgument getProduct(unsigned i) { return getBlock().getArgument(i); }
    ::mlir::BlockArgument getInputArgument(unsigned i) { return getBlock().getArgument(getQueries().size() + i); }
    /// The dimensions that product `i` sums over.
    ::llvm::SmallVector<::quern::ir::DimAttr> getDepth(unsigned i);
    ::llvm::SmallVector<::llvm::StringRef> getPartNames();
    bool hasStatistics() { return getNumResults() == 3; }
    ::mlir::Value getAttended() { return getResult(0); }
    ::mlir::Value getShift() { return getResult(1); }
    ::mlir::Value getShare() { return getResult(2); }
    /// The types of the results, from those of the score and of the values.
    static ::quern::ir::NamedTensorType resultType(::quern::ir::NamedTensorType score,
                                                   ::quern::ir::NamedTensorType values, ::llvm::StringRef dim);
    static ::quern::ir::NamedTensorType statisticType(::quern::ir::NamedTensorType score, ::llvm::StringRef dim);
  }];
}

def Quern_AttentionGradientOp : Quern_Op<"attention_gradient", [Pure, IsolatedFromAbove, SingleBlock, AttrSizedOperandSegments]> {
  let summary = "sums of a kernel of attention's gradient: what is weighted has queries and keys and is never stored";
  let description = [{
    The body computes weights element by element. Its arguments are, for each pair of `rows` and `others`, their product
    (summed over the dimensions that both have and the argument lacks), then the `inputs`: masks, statistics of the
    softmax, biases. It yields the weights of each result, all with the same dimensions, `dim` among them. `dim` are the
    keys where queries get their gradient, and the queries where keys and values get theirs.

    With `values` result i is the sum over `dim` of weights i * value i. Along a `distance` [a, b] there is one result
    and no value: the weights at each pair are added up at position offset + index(a) - index(b) of the new dimension
    `into`; a or b is `dim`.
  }];
  let arguments = (ins Variadic<Quern_TensorType>:$rows, Variadic<Quern_TensorType>:$others,
                       Variadic<Quern_TensorType>:$values, Variadic<Quern_TensorType>:$inputs, Quern_Label:$dim,
                       OptionalAttr<Quern_Labels>:$distance, OptionalAttr<StrAttr>:$offset,
                       OptionalAttr<Quern_DimAttr>:$into);
  let results = (outs Variadic<Quern_TensorType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $rows `with` $others `over` custom<Label>($dim) (`of` $values^)?
    (`along` custom<Labels>($distance)^ `from` $offset `into` $into)? (`reading` $inputs^)? $body attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block &getBlock() { return getBody().front(); }
    /// What the body yields.
    ::mlir::OperandRange getWeights();
    ::mlir::BlockArgument getProduct(unsigned i) { return getBlock().getArgument(i); }
    ::mlir::BlockArgument getInputArgument(unsigned i) { return getBlock().getArgument(getRows().size() + i); }
    /// The dimensions that product `i` sums over.
    ::llvm::SmallVector<::quern::ir::DimAttr> getDepth(unsigned i);
    /// The dimensions of the weights that neither values nor the products' other sides have; of the rows alone.
    ::llvm::SmallVector<::quern::ir::DimAttr> getOwnDims();
    bool isAlongDistance() { return getDistance().has_value(); }
    ::quern::ir::Size getOffsetSize();
  }];
}
#endif
