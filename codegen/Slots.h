// Parameters as the host program sees them: stored tensors, and slots (a tensor per turn, in the layout a kernel wants).
#ifndef QUERN_CODEGEN_SLOTS_H
#define QUERN_CODEGEN_SLOTS_H

#include "ir/Dialect.h"

namespace quern::codegen {

/// Collects parameters and slots while functions are lowered; equal ones are counted once.
class Slots {
public:
  struct Parameter {
    std::vector<std::string> names; // alternatives, the first preferred
    std::vector<int64_t> shape;
    ir::InitAttr init;              // may be null
    mlir::Location at;
  };
  struct Slot {
    std::vector<std::vector<int>> turns; // per turn: parameters, one after the other (stacked experts)
    // Packed: [ceil(outer / tile)][inner][tile]; tile 0: dense, as stored.
    int64_t tile = 0, outer = 0, inner = 0, outerStride = 0, innerStride = 0;
  };

  /// The slot of `param` as stored.
  int dense(ir::ParamOp param);
  /// The slot of `param` packed; strides are those of one stored matrix.
  int packed(ir::ParamOp param, int64_t tile, int64_t outer, int64_t inner, int64_t outerStride, int64_t innerStride);

  const std::vector<Parameter> &parameters() const { return parameterList; }
  const std::vector<Slot> &slots() const { return slotList; }

private:
  int add(Slot slot);
  std::vector<std::vector<int>> turnsOf(ir::ParamOp param);
  int parameter(std::vector<std::string> names, const std::vector<int64_t> &shape, ir::ParamOp param);

  std::vector<Parameter> parameterList;
  std::map<std::vector<std::string>, int> byNames;
  std::vector<Slot> slotList;
  std::map<std::string, int> byText;
};

} // namespace quern::codegen
#endif
