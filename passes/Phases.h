// The compiler's table of contents: phases, what is legal after each, and their passes in order.
#ifndef QUERN_PASSES_PHASES_H
#define QUERN_PASSES_PHASES_H

#include "passes/ChoosePlans.h"
#include "passes/Legality.h"
#include "passes/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <string>
#include <vector>

namespace quern::passes {

/// What passes need to know of the machine that is compiled for, and what is left out.
struct PassOptions {
  /// What choices between computing and memory count with.
  support::Machine machine = support::assumedMachine();
  PackingRule packing;
  RowsOfExperts rowsOfExperts = {};
  /// Whether attention in bf16 is faster than in f32 (narrow-attention).
  bool narrowAttention = false;
  /// Whether bytes are multiplied by pairs that saturate (pair-codes).
  bool pairCodes = false;
  /// Of a chunk of rows whose loss and gradient are computed together (chunk-loss).
  int64_t logitsBytes = int64_t(64) << 20;
  /// The default leaves kernels without plans, which are then chosen when they are compiled.
  PlanningRule planning = [](mlir::ModuleOp) { return mlir::success(); };
  Without without;
  /// Called before each pass that runs, so that a crash can say where it was.
  std::function<void(llvm::StringRef pass)> before = [](llvm::StringRef) {};
};

struct PassEntry {
  std::string name;
  std::string meaning;
  std::function<std::unique_ptr<mlir::Pass>(const PassOptions &)> create;
  /// Why the compiler cannot do without it; empty: it can be left out.
  std::string needed = "";
  /// Whether its module computes other numbers where the program's options ask for fewer bits.
  bool rounds = false;
};

struct Phase {
  std::string name;
  std::string meaning;
  std::vector<PassEntry> passes;
  /// What may occur once the phase is done.
  Legal legal;
  /// What is asked beyond that; reports what is wrong.
  std::function<llvm::LogicalResult(mlir::ModuleOp)> check = [](mlir::ModuleOp) { return mlir::success(); };
};

/// All phases in order, from `resolved` (the frontend's result) to `planned` (the code generator's input).
llvm::ArrayRef<Phase> phases();

/// The pass of that name; null if there is none.
const PassEntry *findPass(llvm::StringRef name);
/// True if `name` is a phase or a pass.
bool isPhaseOrPass(llvm::StringRef name);

/// Called after each pass with its name and how long it took in seconds; `module` is its result.
using AfterPass = llvm::function_ref<void(llvm::StringRef pass, mlir::ModuleOp module, double seconds)>;

/// Runs all passes after `from` up to and including `to` (names of phases or passes; empty: from the start, to the
/// end), but those that the options leave out. The verifier runs after every pass, what is legal is checked after
/// every phase, `from` included. Problems are emitted as MLIR diagnostics.
mlir::LogicalResult runPhases(
    mlir::ModuleOp module, const PassOptions &options, llvm::StringRef from = "", llvm::StringRef to = "",
    AfterPass after = [](llvm::StringRef, mlir::ModuleOp, double) {});

} // namespace quern::passes
#endif
