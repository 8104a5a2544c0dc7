// How the weights of contractions lie in memory.
//
// Packed: [stacked ...][ceil(rows / tile)][depth][tile], zero padded, one matrix after the other. The halide_buffer_t
// of such an argument has the dimensions tile, depth, tiles and then the stacked ones, innermost first.
#ifndef QUERN_CODEGEN_KERNEL_LAYOUTS_H
#define QUERN_CODEGEN_KERNEL_LAYOUTS_H

#include "codegen/schedule/Schedule.h"
#include "codegen/Targets.h"

#include <cstdint>

namespace quern::codegen {

/// Rows per tile for a weight [rows, depth]; 0: better left as it is stored.
int64_t weightTile(int64_t rows, int64_t depth, const ScheduleTable &schedules, const CpuTarget &target);

} // namespace quern::codegen
#endif
