// The host's side of a tile program in LLVM IR: a kernel's C function, which launches it.
#ifndef QUERN_CODEGEN_TILE_LAUNCHIR_H
#define QUERN_CODEGEN_TILE_LAUNCHIR_H

#include "codegen/tile/Program.h"

#include "llvm/IR/Module.h"

namespace quern::codegen::tile {

/// Writes `symbol` (codegen/README.md says its arguments) and `symbol`_argv. `texts`: its PTX by capability, which the
/// module carries. The device is given the image of the variant that is launched.
void emitLaunches(const Program &program, const std::map<int, std::string> &texts, const std::string &symbol,
                  llvm::Module &module);

} // namespace quern::codegen::tile
#endif
