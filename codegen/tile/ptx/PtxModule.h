// A tile program as PTX, and as LLVM IR for readers and tests.
#ifndef QUERN_CODEGEN_TILE_PTX_PTXMODULE_H
#define QUERN_CODEGEN_TILE_PTX_PTXMODULE_H

#include "codegen/tile/Program.h"

#include <functional>

namespace llvm {
class Module;
}

namespace quern::codegen::tile {

/// Of a program's variants, the best first: each capability has an image of its own.
std::vector<int> capabilitiesOf(const Program &program);

/// Of a launch, in the module of its program.
std::string kernelName(const Program &program, size_t variant, size_t stage);

/// A comment where a kernel first needs what the launch before wrote; runtime/device/cuda puts the wait there. Without it that
/// is a kernel's first instruction.
constexpr const char *waitHere = "// quern: wait";
/// And where the next launch may begin; without it that is where it waited. A kernel that reads for long says it when it has read:
/// what began before would take room from blocks that are yet to come, and its reads their pace.
constexpr const char *endHere = "// quern: end";

struct PtxModule {
  std::string ptx, llvm; ///< `llvm`: before it is optimised
};
/// The launches of all variants of a capability: 90 is Hopper alone, 80 that and all later ones. Throws std::runtime_error where LLVM refuses it, which is a fault of ours.
PtxModule ptxOf(const Program &program, int capability = 80);
/// What `write` puts into a module. `what`: for messages.
PtxModule ptxOf(const std::string &what, int capability, const std::function<void(llvm::Module &)> &write);

} // namespace quern::codegen::tile
#endif
