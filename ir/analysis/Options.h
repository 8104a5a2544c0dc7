// What the person who compiles asks a program to be. It stands on the module, so that a dump that is compiled on makes the same
// program; this is the one place that reads and writes it. What compiles it (target, schedules, passes left out) is no part
// of the program and comes as passes::PassOptions.
#ifndef QUERN_IR_ANALYSIS_OPTIONS_H
#define QUERN_IR_ANALYSIS_OPTIONS_H

#include "ir/Dialect.h"

#include "mlir/IR/BuiltinOps.h"

namespace quern::ir {

struct ProgramOptions {
  bool train = false;               ///< --train
  Storage precision = Storage::F32; ///< --precision: weights of products, and what training reads again
  Storage caches = Storage::F32;    ///< --kv-cache: what a step remembers of positions
  bool cachesOfSteps = false;       ///< nobody gave --kv-cache: where whole texts are read, nothing is rounded
  std::string quantize;             ///< --quantize (passes/weights/WeightFormats.h)
  std::string lora;                 ///< --lora: "RANK[,GLOB]..."; empty: no adapters
  double loraScale = 2;             ///< --lora-scale: of an adapter's product
  double savingPrice = 0;           ///< --memory: seconds that saving a byte costs beyond its traffic
  int64_t segmentIterations = 0;    ///< iterations of a loop that a gradient runs again together; 0: none
  int64_t chunkRows = 0;            ///< the most rows of a chunk of a loss; 0: what its logits' bytes allow

  /// Adapters alone are trained, and all that a checkpoint has is frozen.
  bool trainsAdapters() const { return train && !lora.empty(); }
  bool trainsNarrow() const { return train && precision == Storage::BF16; }
};

ProgramOptions optionsOf(mlir::ModuleOp module);
/// Writes what is not as it is without asking, and removes the rest.
void setOptions(mlir::ModuleOp module, const ProgramOptions &options);

} // namespace quern::ir
#endif
