// Weights that are made of several parameters: what the loader packs one after the other, and never the program.
#ifndef QUERN_IR_ANALYSIS_WEIGHTS_H
#define QUERN_IR_ANALYSIS_WEIGHTS_H

#include "ir/Attributes.h"
#include "ir/Dialect.h"

namespace quern::ir {

/// The weight in codes that a value is, perhaps in another order of dimensions; null for anything else.
QuantizeOp codedWeight(mlir::Value value);

/// The joined weight that a value is, perhaps in codes or in another order of dimensions; null for anything else.
ConcatOp joinedWeight(mlir::Value value);

/// The parameter that a value is, perhaps in codes, in another order of dimensions, under other names or with some merged into
/// one (FlattenWeights.cpp): all of them other strides of the same memory. Null for anything else.
ParamOp parameterOf(mlir::Value value);

/// Weights that each row is routed to (experts): a gather from matrices whose sizes are known. No
/// kernel makes such a copy for each row: contractions read the table. Null for anything else.
GatherOp routedWeight(mlir::Value value);

/// A sum for each expert of its rows' outer products, the gradient of routed weights: the product that `scatter` adds
/// up, which no kernel stores. Null for anything else.
MulOp summedByRoute(ScatterAddOp scatter);

/// Positions of the dimensions of a weight that is read in tiles of rows: [stacked ..., rows, depth].
struct WeightDims {
  unsigned rows, depth;
  llvm::SmallVector<unsigned> stacked;
};
/// How a contraction over `depth` with an operand of type `other` reads `weight`, a parameter or a joined weight, of which
/// it may pick along `gathered`. Matrices are in as many stored tensors, or all in one. Nothing for anything else.
std::optional<WeightDims> weightDims(mlir::Value weight, NamedTensorType other, llvm::StringRef depth,
                                     llvm::StringRef gathered);

/// The widest tile of rows, at most `tile`, in which every part begins with a tile of its own; 0 if that would be too
/// narrow to be worth it. `offsets`: the first row of each part.
int64_t tileOfParts(int64_t tile, llvm::ArrayRef<int64_t> offsets);

} // namespace quern::ir
#endif
