// What a module costs, in numbers: polynomials over run-time lengths, as far as the module is lowered.
#ifndef QUERN_TOOLS_INSPECT_STATISTICS_H
#define QUERN_TOOLS_INSPECT_STATISTICS_H

#include "codegen/host/LaunchScratch.h"
#include "ir/Dialect.h"

#include "mlir/IR/BuiltinOps.h"
#include <nlohmann/json.hpp>

#include <map>
#include <optional>

namespace quern::tools {

/// Values of run-time lengths: "T=512,B=1". What is not given has a default (B = 1, past = 0, cap = past + T, else
/// 512).
using Lengths = std::map<std::string, int64_t>;
/// Throws std::runtime_error for what is no NAME=NUMBER.
Lengths parseLengths(const std::vector<std::string> &settings);
int64_t valueOf(const ir::Size &size, const Lengths &lengths);

struct LoopStatistics {
  int64_t iterations = 0; ///< of this loop and all around it
  int launches = 0;       ///< of one iteration, without those of loops inside and those that run once a request
  int once = 0;
};

struct KernelBytes {
  std::string kernel; ///< empty: none asks for anything
  int64_t bytes = 0;
};

struct FunctionStatistics {
  std::string name;
  int ops = 0;
  int outside = 0;      ///< launches outside of loops, in every call
  int once = 0;         ///< launches in a request's first call alone
  int64_t launches = 0; ///< of one call, all iterations counted
  std::vector<LoopStatistics> loops;
  ir::Size flops, bytes;                                   ///< of one call
  std::optional<std::vector<std::vector<ir::Size>>> arena; ///< slots, each as large as the largest of its list
  std::vector<ir::Size> kept;
  std::vector<codegen::LaunchScratch> scratch;      ///< where what kernels ask for was given
  int64_t arenaBytes(const Lengths &lengths) const; ///< as the program allocates it: every slot a multiple of 64
  int64_t keptBytes(const Lengths &lengths) const;
  /// Of the launch that asks for most: the thread that calls kernels, or each that helps it.
  KernelBytes scratchBytes(int64_t codegen::ScratchBytes::*thread, const Lengths &lengths) const;
};

struct KernelStatistics {
  std::string name;
  int ops = 0, launches = 0; ///< launches: places that call it
  ir::Size flops, bytes;     ///< of one launch, in the kernel's own symbols
};

/// What lives from step to step.
struct StateStatistics {
  std::string name, type;
  int64_t layers = 1;
  ir::Size bytes;
  std::string remembered; ///< "8192 numbers per layer and position", or "... per layer" for what does not grow
  std::vector<std::string> functions; ///< that read or write it
};

struct Statistics {
  int ops = 0, kernelOps = 0;
  std::vector<FunctionStatistics> functions;
  std::vector<KernelStatistics> kernels;
  std::vector<StateStatistics> states;
  /// Of the states that `function` reads or writes.
  int64_t stateBytes(const std::string &function, const Lengths &lengths) const;
};

Statistics statisticsOf(mlir::ModuleOp module);
/// Adds what the kernels of a planned module ask for while they run.
void addScratch(Statistics &statistics, mlir::ModuleOp planned, const codegen::KernelScratch &kernels);

/// FLOPs and bytes of one run of an operation; of a loop, of all its iterations. Where kernels are launched only launches
/// count, with lower bounds (codegen/KernelCosts.h): what stands beside them are views and the joining of weights, which is
/// done once when a program starts.
struct OperationCost {
  ir::Size flops, bytes;
};
OperationCost costOf(mlir::Operation *op, bool launched);
/// True if the module has been cut into kernels.
bool isLaunched(mlir::ModuleOp module);
/// `lengths`: also what the polynomials are for them.
nlohmann::ordered_json toJson(const Statistics &statistics, const std::optional<Lengths> &lengths);
/// Lines for a reader.
std::string toText(const Statistics &statistics, const std::optional<Lengths> &lengths);
/// "6.8 G", "512", with three digits at most.
std::string shortNumber(double number);

} // namespace quern::tools
#endif
