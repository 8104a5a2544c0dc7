// From a kernel of attention, or of its gradient, to its tile program.
#ifndef QUERN_CODEGEN_TILE_ATTEND_DIVIDEATTENTION_H
#define QUERN_CODEGEN_TILE_ATTEND_DIVIDEATTENTION_H

#include "codegen/tile/Program.h"

namespace quern::codegen::tile {

/// Of attention: a block's rows, keys at a time, slots of the ring, warps; up to `few` rows keys are divided among `split`
/// blocks; `pieces`: bf16 numbers for a number that is none. On Hopper `groups` warp groups (0: none) with `wide` keys at a time
/// and `ring` slots, which multiply in `turns` if that is 1.
struct AttendNumbers {
  int rows = 64, keys = 64, stages = 2, warps = 4, few = 16, split = 16, pieces = 3;
  int groups = 0, wide = 128, ring = 2, turns = 1;
};

/// Whether it has an attention or a sum of its gradient.
bool holdsAttention(const KernelGraph &graph);

/// Throws Refusal for what no tile program computes.
void divideAttention(const KernelGraph &graph, const AttendNumbers &numbers, Program &program);

/// What is known of a kernel of attention before the run, as the family `attend` has it. Throws Refusal.
std::map<std::string, int64_t> factsOfAttention(const KernelGraph &graph);

} // namespace quern::codegen::tile
#endif
