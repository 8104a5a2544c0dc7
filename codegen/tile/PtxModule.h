// A tile program as PTX, and as LLVM IR for readers and tests.
#ifndef QUERN_CODEGEN_TILE_PTXMODULE_H
#define QUERN_CODEGEN_TILE_PTXMODULE_H

#include "codegen/tile/Program.h"

namespace quern::codegen::tile {

/// The oldest compute capability that its instructions need.
constexpr int ptxCapability = 80;

/// Of a launch, in the module of its program.
std::string kernelName(const Program &program, size_t variant, size_t stage);

struct PtxModule {
  std::string ptx, llvm; ///< `llvm`: before it is optimised
};
/// Throws std::runtime_error where LLVM refuses it, which is a fault of ours.
PtxModule ptxOf(const Program &program);

} // namespace quern::codegen::tile
#endif
