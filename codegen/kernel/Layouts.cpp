// Takes: the shape of a weight, schedules, target. Gives: the tile it is packed in.
// Why not always the widest: padding is read from memory like the rest, and decoding is bound by memory.
#include "codegen/kernel/Layouts.h"

namespace quern::codegen {

int64_t weightTile(int64_t rows, int64_t depth, const ScheduleTable &schedules, const CpuTarget &target) {
  if (rows < 2)
    return 0;
  int64_t tile = schedules.find(
      "contract",
      {{"vector", target.vector}, {"registers", target.registers}, {"outer", rows}, {"inner", depth}})["columns"];
  auto padding = [&] { return (rows + tile - 1) / tile * tile - rows; };
  while (tile > target.vector && padding() * 16 > rows)
    tile /= 2;
  return tile;
}

} // namespace quern::codegen
