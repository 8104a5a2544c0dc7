// The discardable attributes: what the frontend and passes note on modules, functions and operations for later passes,
// for the host program and for readers of dumps. Each has a line in the table of Attributes.cpp, which is what the
// verifier asks: an attribute that it lacks, on another operation or of another form, is an error.
#ifndef QUERN_IR_ATTRIBUTES_H
#define QUERN_IR_ATTRIBUTES_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace quern::ir {

/// The names of all discardable attributes that are known, in alphabetical order.
llvm::SmallVector<llvm::StringRef> discardableAttributes();

// ---- on a module: what the spec is, and what its compilation was asked for

inline constexpr llvm::StringLiteral modelAttr = "quern.model";            ///< the model's name
inline constexpr llvm::StringLiteral configAttr = "quern.config";          ///< the fields that are bound, JSON
inline constexpr llvm::StringLiteral fileConfigAttr = "quern.file_config"; ///< the config file, JSON
inline constexpr llvm::StringLiteral ignoreAttr = "quern.ignore"; ///< globs of stored tensors that are no parameters
inline constexpr llvm::StringLiteral trainAttr = "quern.train";   ///< to be trained (`--train`)
/// "bf16": weights of products, and what training reads again, are kept in two bytes (`--precision`); "f16": weights alone.
inline constexpr llvm::StringLiteral precisionAttr = "quern.precision";
/// Which weights of products are stored in codes (`--quantize`; passes/weights/WeightFormats.h).
inline constexpr llvm::StringLiteral quantizeAttr = "quern.quantize";
/// "RANK[,GLOB]...": which products with weights get adapters, which are all that is trained (`--lora`;
/// passes/weights/AddAdapters.cpp).
inline constexpr llvm::StringLiteral loraAttr = "quern.lora";
/// What an adapter's product is multiplied by; absent: 2.
inline constexpr llvm::StringLiteral loraScaleAttr = "quern.lora_scale";
/// "bf16", "int8": caches of keys, values and all else that a step remembers of positions (`--kv-cache`).
inline constexpr llvm::StringLiteral cachePrecisionAttr = "quern.kv_cache";
/// Whole texts (the spec's own functions, which start from past = 0) keep f32 all the same: nobody asked for caches in fewer bits.
inline constexpr llvm::StringLiteral cachesOfStepsAttr = "quern.kv_cache_of_steps";
/// Seconds that saving a byte costs beyond its traffic. The higher, the less a gradient saves (`--memory`).
inline constexpr llvm::StringLiteral priceAttr = "quern.saving_price";
/// So many iterations of a loop are a segment, of which a gradient keeps only what is carried in. Absent: none.
inline constexpr llvm::StringLiteral segmentIterationsAttr = "quern.segment_iterations";
/// The most rows of a chunk of a loss; absent: what its logits' bytes allow.
inline constexpr llvm::StringLiteral chunkRowsAttr = "quern.chunk_rows";

// ---- on a function

inline constexpr llvm::StringLiteral batchAttr = "quern.batch"; ///< the label of the batch
inline constexpr llvm::StringLiteral timeAttr = "quern.time";   ///< the label of the text's positions
/// Which form of a function of the spec it is (#quern.role); absent: it is one of the spec.
inline constexpr llvm::StringLiteral roleAttr = "quern.role";
/// Of a loss: a row of tokens is its own labels.
inline constexpr llvm::StringLiteral nextTokenAttr = "quern.next_token";
/// Why it has no step form: one line for each reason.
inline constexpr llvm::StringLiteral refusalAttr = "quern.refusal";
/// It depends on the length in another way than through what is remembered, so every call begins with past = 0.
inline constexpr llvm::StringLiteral recomputeAttr = "quern.recompute";
/// Lengths that tables of positions allow: {at, name, size}.
inline constexpr llvm::StringLiteral limitsAttr = "quern.limits";
/// The variant for calls of at most this many rows (B * T), where it reads less than the one for many.
inline constexpr llvm::StringLiteral fewRowsAttr = "quern.few_rows";
/// Its weights are others at every call (training): they are read as they are stored, and packed by nobody.
inline constexpr llvm::StringLiteral changingAttr = "quern.changing_weights";
/// Slots of its arena: a list of sizes in bytes each, of which the largest counts.
inline constexpr llvm::StringLiteral arenaAttr = "quern.arena";
/// Bytes of the buffers that live from call to call.
inline constexpr llvm::StringLiteral keptAttr = "quern.kept";

// ---- on arguments and results of functions

inline constexpr llvm::StringLiteral nameAttr = "quern.name";       ///< the name that users see
inline constexpr llvm::StringLiteral defaultAttr = "quern.default"; ///< the function that gives its value when absent
/// On a result: the parameter whose gradient it is, by the names that `quern.param` has.
inline constexpr llvm::StringLiteral gradientAttr = "quern.gradient";

// ---- on operations

/// It depends on the request alone: computed in the first call of a request and then kept.
inline constexpr llvm::StringLiteral onceAttr = "quern.once";
/// On a rename to a twin of the time, and on the cache that takes its place: how far back it is looked at.
inline constexpr llvm::StringLiteral windowAttr = "quern.window";
/// On a `quern.concat` (PackProjections.cpp) or `quern.quantize` (StoreWeights.cpp) of parameters: it is no operation of
/// the program, but how a packed weight is put together at load.
inline constexpr llvm::StringLiteral weightAttr = "quern.weight";
/// On a parameter of which each position uses the matrices alone that it is routed to (routed experts): the share of them, such as 0.25.
inline constexpr llvm::StringLiteral routedShareAttr = "quern.routed_share";
/// On a parameter that is half of an adapter: it stays in f32, and may be absent. True: the matrix that it is beside is stored
/// as [inputs, outputs].
inline constexpr llvm::StringLiteral adapterAttr = "quern.adapter";
/// On a loop within a loop: the gradient runs it again.
inline constexpr llvm::StringLiteral segmentAttr = "quern.segment";
/// On what a gradient computes again outside of loops, so that it stays apart from what it repeats.
inline constexpr llvm::StringLiteral againAttr = "quern.again";
/// Where the results of a launch or loop are written: a #quern.place each.
inline constexpr llvm::StringLiteral placesAttr = "quern.places";
/// On a loop: which of its results are copied to their place before the first iteration, and after each.
inline constexpr llvm::StringLiteral copyInAttr = "quern.copy_in";
inline constexpr llvm::StringLiteral copyOutAttr = "quern.copy_out";
/// On a quern.kernel, from phase `scheduled` on: who makes it, and with which numbers, as text:
/// `halide: contract(columns = 64, rows = 6), map(work = 32768)`. What it may say is its producer's business
/// (codegen/schedule/Space.cpp), checked where a plan is made and where it is used.
inline constexpr llvm::StringLiteral planAttr = "quern.plan";

} // namespace quern::ir
#endif
