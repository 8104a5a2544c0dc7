// How a launch is begun: what its function takes, its grid, its threads and their shared memory. Whoever writes the function
// and whoever writes its launch ask here.
#ifndef QUERN_CODEGEN_TILE_SIGNATURE_H
#define QUERN_CODEGEN_TILE_SIGNATURE_H

#include "codegen/tile/Program.h"

namespace quern::codegen::tile {

struct Parameter {
  enum class Form { Pointer, Length, Stride, Tensor };
  Form form;
  int buffer = 0;     ///< of a pointer, a stride or a tensor
  size_t dim = 0;     ///< of a stride; of a tensor its operand's number: 0: x or keys, then w's parts or values
  std::string symbol; ///< of a length
};

/// Pointers to the buffers that it touches, all lengths, strides that only the run knows, then operands as copies of boxes see
/// them: 128 bytes each, which the driver makes.
std::vector<Parameter> parametersOf(const Program &program, const Stage &stage);

/// `extent` in pieces of `by`.
struct Pieces {
  ir::Size extent;
  int64_t by = 1;
};
struct Grid {
  Pieces x, y, z;
  int threads = 0;
  int64_t sharedBytes = 0;
};
Grid gridOf(const Stage &stage);
/// Blocks that share a multiprocessor's registers, at least; 0: nobody counts with it.
int blocksTogether(const Stage &stage);

/// Where parts of a product's shared memory are. Rows are padded by 16 bytes, so that eight of them are in different banks.
struct SharedTiles {
  int64_t xPitch, xBytes;
  std::vector<int64_t> wPitch, wStart;
  int64_t stageBytes;
};
SharedTiles sharedTilesOf(const Stage &stage);

/// Where the parts of an attention's shared memory are: its rows, then `slots` of keys and values. Pieces follow each other.
struct SharedAttend {
  struct Part {
    int64_t start, pitch, pieceBytes;
  };
  std::vector<Part> q, k, v; ///< those of keys and values from a slot's start
  int64_t ring = 0, slotBytes = 0, slots = 1;
};
SharedAttend sharedAttendOf(const Attend &attend);

/// Of dots: numbers of x that a row has in shared memory at a time; behind them the warps' sums, parts of statistics, whole sums
/// of columns that are stored together, and the block's ticket.
struct SharedDots {
  int64_t depth, sums, statistics, together, ticket, bytes;
};
SharedDots sharedDotsOf(const Stage &stage);
/// Whether blocks of dots leave sums for one of them.
bool meets(const Stage &stage);

/// What a launch reads by copies of whole boxes: a product's factors, or an attention's keys and values.
size_t tensorsOf(const Stage &stage);
const Operand &operandOf(const Stage &stage, size_t number);
/// Of an attention by warp groups: bytes of a slot's keys, and of its values behind them; behind all slots stand four barriers
/// for each, then one for each group, of eight bytes.
struct GroupSlots {
  int64_t keys, values;
  int64_t bytes() const { return keys + values; }
};
GroupSlots groupSlotsOf(const Attend &attend);

/// Bytes of a slot of an asynchronous product's ring; behind all slots stand two barriers for each, of eight bytes.
int64_t asyncSlotBytes(const Stage &stage);
/// Where a part's columns are in a slot.
int64_t asyncStart(const Stage &stage, size_t part);

/// Whether a map's work-item makes two columns.
bool storesPairs(const Stage &stage);
/// Work-items of a map along columns; the rest are rows.
int mapWidth(const Stage &stage);
constexpr int mapThreads = 256, mostMapRows = 32768;
constexpr int dotThreads = 256; ///< of dots
/// Of an asynchronous product: threads of a warp group. The first one is the producer's.
constexpr int groupThreads = 128;

} // namespace quern::codegen::tile
#endif
