// The host program: what calls the kernels, in the LLVM dialect.
#ifndef QUERN_CODEGEN_HOST_HOSTPROGRAM_H
#define QUERN_CODEGEN_HOST_HOSTPROGRAM_H

#include "codegen/host/Slots.h"
#include "codegen/kernel/Scratch.h"
#include "ir/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace quern::codegen {

/// One entry of the program's table; names of functions in the host module, empty where there is none.
struct HostEntry {
  mlir::func::FuncOp source;
  std::string run, arenaBytes, keptBytes, callerScratch, workerScratch, epoch;
  /// Results that are gradients: their number, and the stored tensors (Slots::parameters) one after the other.
  std::vector<std::pair<unsigned, std::vector<int>>> gradients = {};
};

struct HostProgram {
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< llvm.func's with arith and scf inside
  std::vector<std::string> symbols;         ///< run-time lengths in the order of quern_call::sizes
  std::vector<HostEntry> entries;
  std::vector<ir::LaunchOp> launches; ///< of all entries; a profile (quern_profile) gets their numbers
  std::vector<std::string> states;    ///< in the order of quern_call::states
  std::vector<std::string> checks; ///< states whose content is looked at when stored (passes/raise/CheckPositions.cpp)
  Slots slots;
  KernelSymbols kernels;
  bool onDevice = false; ///< pointers are a device's; kernels find them in their buffers' field `device`
};

/// Lowers the functions of a planned module (phase `planned`) to calls of kernels by pointer arithmetic. The C
/// interface is runtime/abi/Abi.h. `scratch` and `symbols` are those of every kernel.
/// `onDevice`: the kernels are for a device.
HostProgram buildHostProgram(mlir::ModuleOp planned, const KernelScratch &scratch, KernelSymbols symbols,
                             bool onDevice = false);

} // namespace quern::codegen
#endif
