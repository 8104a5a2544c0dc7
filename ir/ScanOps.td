// Recurrences: a body that runs at each position of a dimension, one after the other. A file of its own, with a header of its own
// (Scan.h), as few rooms speak of it.
#ifndef QUERN_IR_SCAN
#define QUERN_IR_SCAN

include "ir/QuernBase.td"

def Quern_ScanOp : Quern_Op<"scan", [Pure, IsolatedFromAbove, SingleBlock, AttrSizedOperandSegments]> {
  let summary = "a recurrence: the body at positions 0, 1, ... of a dimension, one after the other";
  let description = [{
    The body's arguments are the carried values (`inits` before the first position), then the part of each of `slices` at
    the position, which lacks the dimension, then `inputs` as they are. It yields the carried values for the next
    position, then the part of each further result. Results: the carried values after the last position, then all parts
    along the dimension. `reversed`: from the last position to the first.

    With `states`, a `quern.state` for each carried value: where there is a past, the scan goes on from what they hold
    instead of from `inits`, and leaves there what it carries out.
  }];
  let arguments = (ins Variadic<Quern_TensorType>:$inits, Variadic<Quern_TensorType>:$slices,
                       Variadic<Quern_TensorType>:$inputs, Quern_DimAttr:$dim, UnitAttr:$reversed,
                       OptionalAttr<TypedArrayAttrBase<FlatSymbolRefAttr, "states">>:$states);
  let results = (outs Variadic<Quern_TensorType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $dim (`reversed` $reversed^)? `carry` $inits (`over` $slices^)? (`reading` $inputs^)? (`states` $states^)? $body attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let hasCanonicalizer = 1;
  let extraClassDeclaration = [{
    ::mlir::Block &getBlock() { return getBody().front(); }
    ::mlir::ValueRange getYielded() { return getBlock().getTerminator()->getOperands(); }
    unsigned getCarriedCount() { return getInits().size(); }
    bool isCarried(unsigned result) { return result < getCarriedCount(); }
    ::mlir::BlockArgument getCarried(unsigned i) { return getBlock().getArgument(i); }
    ::mlir::BlockArgument getSlice(unsigned i) { return getBlock().getArgument(getInits().size() + i); }
    ::mlir::BlockArgument getInput(unsigned i) {
      return getBlock().getArgument(getInits().size() + getSlices().size() + i);
    }
  }];
}
#endif
