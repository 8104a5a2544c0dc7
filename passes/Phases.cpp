// Takes: a module at some phase. Gives: the module at a later one.
// Why a table: it is what `quern dump --list-passes` prints, what `--after` and `--compile-to` stop at, and the one
// place where the order of passes is written.
#include "passes/Phases.h"

#include "ir/Attributes.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <chrono>

using namespace mlir;
using namespace quern::passes;

ArrayRef<Phase> quern::passes::phases() {
  static const std::vector<Phase> table = {
      {"resolved",
       "config bound, blocks inlined, shapes inferred by name; each iteration of a loop is one quern.repeat",
       {},
       legalAlgebra({})},
      {"rolled",
       "equal iterations are one loop; a softmax is one operation",
       {{"roll-repeats", "fold equal iterations into one loop",
         [](const PassOptions &) { return createRollRepeatsPass(); }},
        {"canonicalize", "fold constants and trivial operations",
         [](const PassOptions &) { return createCanonicalizerPass(); }},
        {"cse", "merge common subexpressions", [](const PassOptions &) { return createCSEPass(); }},
        {"raise-softmax", "recognise e^x over its sum", [](const PassOptions &) { return createRaiseSoftmaxPass(); }},
        {"hoist-scans", "compute what no state of a scan reaches for all positions at once",
         [](const PassOptions &) { return createHoistScansPass(); }},
        {"add-adapters", "add low-rank adapters beside products with weights (--lora)",
         [](const PassOptions &) { return createAddAdaptersPass(); }, "--lora asks for them"}},
       legalAlgebra({})},
      {"differentiated",
       "a module to be trained (--train) has @loss.grad, the loss and the gradient of every parameter, and @update.*",
       {{"sink-loss-gathers", "compute only the experts that are chosen in a loss, and so in its gradient",
         [](const PassOptions &) { return createSinkGathersPass(/*ofLoss=*/true); }},
        {"tabulate-distances", "compute what is learned by distance of key and query once a distance, as a table",
         [](const PassOptions &) { return createTabulateDistancesPass(); }},
        {"raise-loss-attention",
         "make scores, softmax and weighted sum of the loss one operation, whose gradient recomputes the scores",
         [](const PassOptions &) { return createRaiseAttentionPass(/*ofLoss=*/true); }},
        {"differentiate", "derive the gradient of the loss",
         [](const PassOptions &options) {
           return createDifferentiatePass(options.machine, !options.without.has("recompute"));
         },
         "training needs gradients"},
        {"optimizers", "add the updates of parameters", [](const PassOptions &) { return createOptimizersPass(); },
         "training needs updates"},
        {"canonicalize-gradients", "fold what rules made trivial",
         [](const PassOptions &) { return createCanonicalizerPass(); }},
        {"cse-gradients", "merge common subexpressions", [](const PassOptions &) { return createCSEPass(); }},
        {"chunk-loss", "compute logits and their gradient some rows at a time",
         [](const PassOptions &options) { return createChunkLossPass(options.logitsBytes); }}},
       legalAlgebra({"attention", "attention_gradient"})},
      {"incremental",
       "causal functions work on new rows and keep the others (KV caches); a model that looks ahead keeps the "
       "reason",
       {{"incremental", "derive step forms and caches",
         [](const PassOptions &options) {
           return createIncrementalPass(options.machine, !options.without.has("ragged-rows"),
                                        !options.without.has("absorb-projections"));
         }},
        {"absorb-projections", "in functions for few rows, apply a cache's projection to the queries instead",
         [](const PassOptions &) { return createAbsorbProjectionsPass(); }},
        {"sink-gathers", "compute only the experts that are chosen",
         [](const PassOptions &) { return createSinkGathersPass(); }},
        {"canonicalize-steps", "fold what the step form made trivial",
         [](const PassOptions &) { return createCanonicalizerPass(); }},
        {"cse-steps", "merge common subexpressions", [](const PassOptions &) { return createCSEPass(); }}},
       legalAlgebra({"remember", "recall", "store", "attention", "attention_gradient"})},
      {"raised",
       "weights of one value are packed into one; scores, softmax and weighted sum are one quern.attention",
       {{"check-positions", "report positions outside of what is gathered from",
         [](const PassOptions &) { return createCheckPositionsPass(); }},
        {"flatten-weights", "turn weights of many dimensions into matrices",
         [](const PassOptions &) { return createFlattenWeightsPass(); }},
        {"pack-projections", "join contractions of one value with several weights",
         [](const PassOptions &options) { return createPackProjectionsPass(options.packing); }},
        {"narrow-storage",
         "store weights of products, caches, and what training reads again, in fewer bits (--precision, --quantize, "
         "--kv-cache)",
         [](const PassOptions &options) { return createNarrowStoragePass(options.rowsOfExperts); }, "",
         /*rounds=*/true},
        {"pair-codes", "choose scales of rows by pairs of numbers, so that products of bytes fit in 16 bits",
         [](const PassOptions &options) { return createPairCodesPass(options.pairCodes); }, "", /*rounds=*/true},
        {"raise-attention", "make scores, softmax and weighted sum one operation, however they are spelled",
         [](const PassOptions &) { return createRaiseAttentionPass(); }},
        {"narrow-attention", "round what attention multiplies to bf16, where rows that meet weights are rounded, too",
         [](const PassOptions &options) { return createNarrowAttentionPass(options.narrowAttention); }, "",
         /*rounds=*/true},
        {"write-out-softmax", "write a softmax within a scan as the operations that it is made of",
         [](const PassOptions &) { return createWriteOutSoftmaxPass(); }, "a scan's loops are made of these"}},
       legalAlgebra({"remember", "recall", "store", "narrow", "widen", "quantize", "dequantize", "rescale", "attention",
                     "attention_gradient"})},
      {"kernels",
       "fusion groups are kernels, equal ones merged; functions launch them",
       {{"outline-kernels", "cut fusion groups out as kernels",
         [](const PassOptions &options) { return createOutlineKernelsPass(options.packing, options.without); },
         "machine code is made of kernels"}},
       legalKernels()},
      {"scheduled",
       "every kernel has a plan: who makes it, and with which numbers",
       {{"choose-plans", "choose how each kernel is made",
         [](const PassOptions &options) { return createChoosePlansPass(options.planning); }}},
       legalKernels()},
      {"planned",
       "every buffer has its place in one arena",
       {{"plan-memory", "place buffers by liveness",
         [](const PassOptions &options) { return createPlanMemoryPass(options.without); },
         "the host program finds buffers by their places"}},
       legalKernels(),
       checkPlaces},
  };
  return table;
}

const PassEntry *quern::passes::findPass(StringRef name) {
  for (const Phase &phase : phases())
    for (const PassEntry &pass : phase.passes)
      if (pass.name == name)
        return &pass;
  return nullptr;
}

bool quern::passes::isPhaseOrPass(StringRef name) {
  return findPass(name) || llvm::any_of(phases(), [&](const Phase &phase) { return phase.name == name; });
}

/// What later phases and programs must know of a pass that was left out.
static void leaveOut(ModuleOp module, const PassEntry &pass) {
  if (pass.name != "incremental")
    return;
  for (StringRef name : {"forward", "decode"})
    if (auto function = module.lookupSymbol<func::FuncOp>(name))
      function->setAttr(quern::ir::refusalAttr,
                        StringAttr::get(module.getContext(), "it was compiled without the pass 'incremental'"));
}

LogicalResult quern::passes::runPhases(ModuleOp module, const PassOptions &options, StringRef from, StringRef to,
                                       AfterPass after) {
  bool started = from.empty();
  for (const Phase &phase : phases()) {
    for (const PassEntry &entry : phase.passes) {
      if (started && options.without.has(entry.name)) {
        leaveOut(module, entry);
        after(entry.name, module, 0);
      } else if (started) {
        options.before(entry.name);
        auto start = std::chrono::steady_clock::now();
        PassManager manager(module.getContext());
        manager.addPass(entry.create(options));
        if (failed(manager.run(module)))
          return failure();
        std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
        after(entry.name, module, seconds.count());
      }
      started |= entry.name == from;
      if (entry.name == to)
        return success();
    }
    started |= phase.name == from; // and what is given is checked as what is made
    if (started && (failed(checkLegal(module, phase.legal, phase.name)) || failed(phase.check(module))))
      return failure();
    if (phase.name == to)
      return success();
  }
  return success();
}
