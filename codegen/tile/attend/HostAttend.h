// Attention of a tile program executed on the processor.
#ifndef QUERN_CODEGEN_TILE_ATTEND_HOSTATTEND_H
#define QUERN_CODEGEN_TILE_ATTEND_HOSTATTEND_H

#include "codegen/tile/HostValues.h"

namespace quern::codegen::tile {

void runAttend(const Stage &stage, HostValues &values);

} // namespace quern::codegen::tile
#endif
