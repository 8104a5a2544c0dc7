// Parameters as the host program sees them: stored tensors, and slots (a tensor per iteration, in the layout a kernel
// wants).
#ifndef QUERN_CODEGEN_HOST_SLOTS_H
#define QUERN_CODEGEN_HOST_SLOTS_H

#include "ir/Dialect.h"

#include <optional>

namespace quern::codegen {

/// Collects parameters and slots while functions are lowered; equal ones are counted once.
class Slots {
public:
  struct Parameter {
    std::vector<std::string> names; // alternatives, the first preferred
    std::vector<int64_t> shape;
    ir::InitAttr init; // may be null
    mlir::Location at;
    std::optional<bool> adapter = std::nullopt; // half of one: whether its matrix is stored as [inputs, outputs]
    double routedShare = 1;                     // how much of it and its like a position uses (routed experts)
  };
  /// Where one matrix [outer, inner] is within a stored tensor, in elements.
  struct Part {
    int64_t outer = 0, outerStride = 0, innerStride = 0, offset = 0;
  };
  struct Slot {
    std::vector<std::vector<int>>
        iterations; // per iteration: parameters, one after the other (stacked experts, joined weights)
    // Packed: [ceil(outer / tile)][inner / beside][tile][beside] for each parameter; tile 0: dense, as stored.
    int64_t tile = 0, inner = 0, beside = 1;
    std::vector<Part> parts; // one for all parameters of an iteration, or one for each
    ir::Storage storage = ir::Storage::F32;
  };

  /// The slot of `param` as stored, or a copy of it in bf16.
  int dense(ir::ParamOp param);
  /// The slot of `params` packed one after the other, each as its part says; one with several matrices stands there for
  /// each.
  int packed(llvm::ArrayRef<ir::ParamOp> params, llvm::ArrayRef<Part> parts, ir::LayoutAttr layout, int64_t inner,
             ir::Storage storage);

  /// The stored tensors of a gradient, in the order in which they are in it: `type` leads with the iterations of the loops.
  std::vector<int> gradient(mlir::ArrayAttr paths, ir::NamedTensorType type, mlir::Location at);

  const std::vector<Parameter> &parameters() const { return parameterList; }
  const std::vector<Slot> &slots() const { return slotList; }

private:
  int add(Slot slot);
  std::vector<std::vector<int>> iterationsOf(ir::ParamOp param);
  int parameter(std::vector<std::string> names, const std::vector<int64_t> &shape, ir::ParamOp param);

  std::vector<Parameter> parameterList;
  std::map<std::vector<std::string>, int> byNames;
  std::vector<Slot> slotList;
  std::map<std::string, int> byText;
};

} // namespace quern::codegen
#endif
