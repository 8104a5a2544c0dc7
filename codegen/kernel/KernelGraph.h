// A fusion group as plain data: what the Halide side reads instead of MLIR.
#ifndef QUERN_CODEGEN_KERNEL_KERNELGRAPH_H
#define QUERN_CODEGEN_KERNEL_KERNELGRAPH_H

#include "ir/Size.h"
#include "support/Storage.h"
#include "support/numbers/RealFunctions.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace quern::codegen {

using support::bitsOfCode;
using support::Kind;
using support::Storage;

struct Dim {
  std::string name;
  ir::Size size;
  std::optional<int64_t> fixed() const { return size.constant(); }
};

/// The mnemonic of an operation, which is also what the builders switch on.
enum class Op {
  Argument,
  Const,
  Values,
  Size,
  Index,
  Neg,
  Abs,
// clang-format off
#define QUERN_REAL_FUNCTION(NAME, WORD, VALUE) NAME,
  QUERN_REAL_FUNCTIONS(QUERN_REAL_FUNCTION)
#undef QUERN_REAL_FUNCTION
  // clang-format on
  Floor,
  Ceil,
  Round,
  ToInt,
  ToReal,
  Narrow,
  Widen,
  Dequantize,
  Rescale, ///< codes of one byte times the scales of their rows
  Not,
  Add,
  Sub,
  Mul,
  Div,
  FloorDiv,
  Mod,
  Pow,
  Max,
  Min,
  And,
  Or,
  Compare,
  Where,
  Reduce,
  Contract,
  Softmax,
  Attention, ///< operands: the score, the values, then the sinks; names: of the keys, then of each sink's own dimension
  AttentionShift, ///< of the same operands: each row's largest score, 0 where all are -inf
  AttentionShare, ///< ... and 1 / sum of e^(score - shift), 0 where all are -inf
  /// A sum of attention's gradient over `names` of weights * value, the operands; all that the weights are made of with
  /// queries and keys is never stored.
  WeightedSum,
  /// The same along diagonals: of the weights, added up at size + index(names[0]) - index(names[1]) of the new
  /// dimension. names[2] is that of both which the products' other sides have.
  DistanceSum,
  Cumsum,
  Quantize, ///< names: the dimension of groups
  ScatterAdd,
  Argmax,
  TopK,
  TopKPositions,
  Rename,
  Split,
  Merge,
  Cut,
  Concat,
  Unit,
  Squeeze,
  Gather,
  Expand,
  Permute,
  Scan, ///< one node for each result; operands: the carried values, the slices, the inputs
};
enum class Reduction { Sum, Mean, Max, Min, Any, All };
enum class Predicate { Lt, Le, Gt, Ge, Eq, Ne };

struct ScanBody;

struct Node {
  Op op;
  Storage storage;
  std::vector<Dim> dims{}; ///< of the result, in order of storage
  std::vector<int> operands{};
  std::vector<std::string> names{}; ///< reduced, renamed, split, merged, cut, gathered dimensions; parts of a concat
  std::vector<Dim> into{};          ///< what they become
  std::vector<double> numbers{};    ///< const, values
  int64_t integer = 0; ///< const of kind int or bool, exact; 1: a sum from the end, rounded weights, paired codes
  ir::Size size{};     ///< size, offset of a cut or of distances
  Reduction reduction = Reduction::Sum;
  Predicate predicate = Predicate::Lt;
  std::shared_ptr<const ScanBody> scan{}; ///< of a scan (`integer`: which result), and of what stands for its body

  Kind kind() const { return support::kindOf(storage); }
  bool has(const std::string &name) const { return find(name) >= 0; }
  int find(const std::string &name) const;
};

/// What a scan does at each position of `dim`. The first nodes are its arguments, in the order of the scan's operands;
/// slices lack `dim`.
struct ScanBody {
  Dim dim;
  bool fromEnd = false;
  int carried = 0, slices = 0, inputs = 0;
  std::vector<Node> nodes;
  std::vector<int> yields; ///< the carried values for the next position, then a part of each further result
};

/// Whether it makes real numbers of those that are stored in fewer bits.
inline bool widensStored(Op op) {
  return op == Op::Widen || op == Op::Dequantize || op == Op::Rescale;
}

struct Layout {
  bool packed = false;
  /// Strided: per dimension the stride in elements, where it is fixed; else the buffer says.
  std::vector<std::optional<int64_t>> strides;
  int64_t tile = 0;   ///< packed: rows per tile; the last two dimensions are rows and reduction
  int64_t beside = 1; ///< packed: neighbours along the reduction that are one word
};

/// Nodes stand after their operands; the first `layouts` of them are the arguments.
struct KernelGraph {
  std::string name;
  std::vector<std::string> symbols; ///< sorted: the leading int32 arguments
  std::vector<Node> nodes;
  std::vector<Layout> argumentLayouts;
  std::vector<int> results;
  std::vector<Layout> resultLayouts;
  std::optional<int> inPlace; ///< the argument that the only result overlaps: what is scattered is added to it there
  /// What decides the machine code, without the name: the key of the cache.
  std::string text;

  int argumentCount() const { return static_cast<int>(argumentLayouts.size()); }
  std::vector<std::vector<int>> users() const;
  bool isElementwise(int node) const;
};

} // namespace quern::codegen
#endif
