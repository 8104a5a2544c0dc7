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
  }];
  let arguments = (ins Variadic<Quern_TensorType>:$queries, Variadic<Quern_TensorType>:$keys, Quern_TensorType:$values,
                       Variadic<Quern_TensorType>:$inputs, Variadic<Quern_TensorType>:$sinks, StrAttr:$dim,
                       OptionalAttr<StrArrayAttr>:$parts);
  let results = (outs Variadic<Quern_TensorType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $queries `with` $keys `over` $dim `of` $values (`reading` $inputs^)? (`sinks` $sinks^ $parts)? $body attr-dict `:`
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
#endif
