// Tables over how far two positions are apart (passes/gradient/TabulateDistances.cpp makes them).
#ifndef QUERN_IR_ANALYSIS_DISTANCES_H
#define QUERN_IR_ANALYSIS_DISTANCES_H

#include "ir/Dialect.h"

namespace quern::ir {

/// A look-up of a table at index(plus) - index(minus) + size(minus), for every pair of the two positions.
struct DistanceLookup {
  GatherOp gather;
  DimAttr distances; ///< of the table, as long as both dimensions together
  DimAttr plus, minus;
};

/// `value` as such a look-up, recognised by how its positions are made.
std::optional<DistanceLookup> distanceLookup(mlir::Value value);

} // namespace quern::ir
#endif
