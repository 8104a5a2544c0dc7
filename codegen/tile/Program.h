// A tile program: what a kernel does on a GPU with tensor cores, as plain data between its graph and code. Blocks of threads
// copy tiles to shared memory, multiply them and compute what becomes of each sum. HostRun.h executes it by plain loops,
// PtxModule.h writes PTX of it.
#ifndef QUERN_CODEGEN_TILE_PROGRAM_H
#define QUERN_CODEGEN_TILE_PROGRAM_H

#include "codegen/kernel/KernelGraph.h"

#include <map>

namespace quern::codegen::tile {

/// Where a block's elements are. Those of a map have rows and columns alone.
enum class Coordinate { Row, Column, Matrix, Depth };

/// A number that an element is made of; operands stand before it.
struct Value {
  enum class Form {
    Number,
    Coordinate, ///< `integer`: which; beyond the last row or column it is the last
    Length,     ///< `size`
    Table,      ///< `numbers` at operand 0
    Load,       ///< of buffer `integer` at the operands, one for each of its dimensions; stored narrow, it is widened
    Sum,        ///< of the product, of its part `integer`; with an operand that of the same row at another column
    Statistic,  ///< of the row: number `integer` of the stage's
    Apply,      ///< `op` of the operands; Narrow rounds to bf16 and stays a float
  };
  Form form = Form::Number;
  Kind kind = Kind::Int;
  Op op = Op::Const;
  Predicate predicate = Predicate::Lt;
  std::vector<int> operands{};
  int64_t integer = 0;
  double real = 0;
  ir::Size size{};
  std::vector<double> numbers{};
};

/// Equal values are one, and what is known about integers is computed.
class Values {
public:
  std::vector<Value> all;
  const Value &operator[](int i) const { return all[i]; }

  int number(int64_t value);
  int real(double value);
  int flag(bool value);
  int coordinate(Coordinate which);
  int length(const ir::Size &size);
  int table(std::vector<double> numbers, int index);
  int load(int buffer, Kind kind, std::vector<int> positions);
  int sum(int64_t part);
  int sumAt(int column); ///< of the only part
  int statistic(int64_t which);
  int apply(Op op, Kind kind, std::vector<int> operands, Predicate predicate = Predicate::Lt);
  std::optional<int64_t> known(int value) const;

private:
  int add(Value value);
  std::map<std::string, int> numbers;
};

struct Buffer {
  enum class Role { Argument, Result, Scratch };
  Role role;
  Storage storage;
  Layout layout; ///< of scratch: dense
  std::vector<Dim> dims;
};

/// Dimensions that a coordinate numbers, the last one fastest.
struct Axis {
  std::vector<Dim> dims;
  ir::Size extent() const;
};

/// A dimension as copies of whole boxes see it (TMA): a block's box begins at `at` + (its first row, column or depth).
struct TensorDim {
  enum class Along { Own, Depth, Neither }; ///< Own: rows or columns, whichever the operand has
  Along along = Along::Neither;
  ir::Size extent;
  int64_t box = 1;
  int64_t unit = 1, modulo = 0;     ///< of rows or columns: each counts for so many; 0: not divided again
  int at = -1;                      ///< a value of the matrix; -1: 0
  std::optional<ir::Size> stride{}; ///< in elements; without one it is that of the buffer's dimension `of`
  size_t of = 0;
};
/// An operand as such copies see it. In shared memory a copy leaves lines of `width` numbers, swizzled over that width.
struct Tensor {
  std::vector<TensorDim> dims; ///< the innermost first: its elements are side by side
  int width = 64;
  int64_t each = 0; ///< rows or columns of a copy
};

/// What a product reads tile by tile: numbers of two bytes, of which eight are side by side.
struct Operand {
  int buffer = 0;
  std::vector<int> at;     ///< positions of its dimensions, made of coordinates
  bool depthInner = false; ///< eight along the depth, else along the rows (columns)
  Tensor tensor{};         ///< of an asynchronous product
};

/// `from`, `to`: of a map the rows, of dots the columns for which there is such an element; all where there is no `to`.
struct Store {
  int buffer = 0;
  std::vector<int> at;
  int value = 0;
  ir::Size from{};
  std::optional<ir::Size> to{};
  /// Of a product or a map: elements of columns 2 i and 2 i + 1 are side by side, at a multiple of their size.
  bool pairs = false;
};

/// How a product is cut: a block's tile, the ring of its copies, its warps.
struct Cut {
  int rows = 128, columns = 128, depth = 32, stages = 3, warpRows = 2, warpColumns = 4;
  int threads() const { return 32 * warpRows * warpColumns; }
};
/// Of an asynchronous product: its depth, and rows of a warp group.
constexpr int asyncDepth = 64, groupRows = 64;

/// What a block of an attention holds in shared memory: of each row or key `inner` numbers, side by side.
struct Factor {
  int value = 0; ///< of a row and a depth, of a key (a column) and a depth, or of a key (a depth) and a column
  int64_t inner = 0;
  int pieces = 1;                  ///< numbers of bf16 that each of its numbers is
  std::optional<Operand> copied{}; ///< 16 bytes at a time, as it is in memory
  int64_t padded() const { return (inner + 15) / 16 * 16; }
};

/// Sums over keys of weights times values. Weights are made of products of rows and keys, tile by tile, and never stored.
struct Attend {
  struct Dot {
    Factor q, k; ///< the product is Sum `its number` of a row and a key, which is the column
  };
  struct Total {
    int weights = -1; ///< of a row and a key; -1: the softmax's
    int whole = -1;   ///< the same where a row sees all keys from `from` to `to`
    int pieces = 1;   ///< of a weight
    Factor v;
    std::vector<Store> stores{}; ///< for each row and column
  };
  Axis keys;
  std::vector<Dot> dots{};
  std::vector<Total> totals{};
  int score = -1;                 ///< whose softmax, times `scale`, weighs the only total; -1: no softmax
  double scale = 1;               ///< more than 0
  int whole = -1;                 ///< the score where a row sees all keys from `from` to `to`
  std::vector<int> sinks{};       ///< of a row: scores without a value
  int from = -1, to = -1;         ///< of a row: its first and last key, growing with rows; -1: all
  std::vector<Store> rowStores{}; ///< for each row
  /// 0: stores read the total or, of a softmax, the weighted sum, the shift and the share as sums 0 to 2. Else keys are
  /// divided among so many blocks (the coordinate depth), whose stores read sums of values, the largest score and the sum
  /// of e^(score - it).
  int split = 0;
  int rows = 64, keysTogether = 64, stages = 2, warps = 4; ///< of a block; the ring's slots
  /// Of Hopper: warp groups of 64 rows, beside the one that copies; keys and values then have tensors. 0: any card's.
  int groups = 0;
  bool turns = false; ///< groups issue their products one after the other
  int threads() const { return 32 * warps + (groups ? 128 : 0); }
  bool copies() const; ///< keys and values by asynchronous copies; else threads compute them
};

/// A number for each row of few, made by every block for itself: of a row and a position, which is the column.
struct Statistic {
  int value = 0; ///< may need those before it
  Reduction reduction = Reduction::Sum;
  ir::Size extent{};
};

/// A launch.
struct Stage {
  enum class Form {
    Product, ///< sum over depth of x * w by tensor cores: a ring of copies, then what becomes of the sums
    Dots, ///< the same for few rows: weights are read once, 16 bytes at a time, the depth is divided among warps and blocks
    Map,    ///< an element for each row and column
    Reduce, ///< of each row one number, of the only store's values along its columns
    Async, ///< a product by warp groups (Hopper): one fills the ring by copies of whole boxes, 64 rows for each of the others
    Attend, ///< products of rows and keys, and sums over keys that they weigh
  };
  Form form;
  Axis rows, columns, matrices;
  ir::Size depth;
  Operand x;
  std::vector<Operand> w; ///< for each part: products that share x, as a gate and what it opens
  Cut cut;
  std::vector<Store> stores{}; ///< for each row and column
  // Of dots; `split` of an asynchronous product, too, where it is that of its matrices:
  int xValue = 0;          ///< of a row at a depth
  int most = 0, split = 1; ///< rows; parts of the depth, which are blocks'
  int slice = 0;           ///< columns of a block, a part of a packed tile
  /// Columns, whole slices, whose sums its stores may read beside their own; 0: they read their own alone.
  int together = 0;
  /// Blocks that one of them needs the sums of, for what it stores.
  int blocksThatMeet() const { return split * (together ? together / slice : 1); }
  std::vector<Statistic> statistics{}; ///< that xValue needs
  int ahead = 0;                       ///< steps of weights that are fetched before the launch before has ended
  /// The buffer [split, matrices, rows, columns] of their sums, which a map adds up. Else one block of those that share a tile's
  /// depth does that, in their order, and stores what becomes of them.
  int sums = -1;
  Reduction reduction = Reduction::Sum; ///< of a reduction
  Attend attend{};                      ///< of attention
};

/// Launches in order, for lengths and addresses that fit.
struct Variant {
  std::string name;
  int64_t mostRows = 0; ///< 0: any
  ir::Size rows;
  std::vector<int> aligned; ///< buffers whose rows must begin at multiples of 16 bytes
  int capability = 80;      ///< of the image that has it: 80, for all later cards, too, or 90, for that one alone
  /// Dimensions that must follow each other without a gap: the stride of `outer` is `extent` times that of `inner`.
  struct Adjacent {
    int buffer;
    size_t outer, inner;
    ir::Size extent;
  };
  std::vector<Adjacent> adjacent{};
  std::vector<Stage> stages;
};

struct Program {
  std::string name;
  std::vector<std::string> symbols;
  std::vector<Buffer> buffers; ///< arguments, results, scratch
  Values values;
  std::vector<Variant> variants; ///< the first that fits is run; the last one fits always

  /// A new dense buffer between launches: its number.
  int scratch(Storage storage, std::vector<Dim> dims) {
    Layout layout;
    layout.strides.resize(dims.size());
    buffers.push_back({Buffer::Role::Scratch, storage, layout, std::move(dims)});
    return int(buffers.size()) - 1;
  }
};

/// What is wrong with a program; nothing: it is well formed.
std::optional<std::string> verify(const Program &program);
/// For readers.
std::string text(const Program &program);

} // namespace quern::codegen::tile
#endif
