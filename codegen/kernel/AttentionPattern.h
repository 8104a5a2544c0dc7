// An attention of a kernel as its family sees it: products, rows and heads, and which keys its mask lets a query see.
#ifndef QUERN_CODEGEN_KERNEL_ATTENTIONPATTERN_H
#define QUERN_CODEGEN_KERNEL_ATTENTIONPATTERN_H

#include "codegen/Targets.h"
#include "codegen/kernel/KernelGraph.h"

#include <functional>

namespace quern::codegen {

/// A length or position that only some of it is known before the run: `size` plus integers that are computed.
struct Position {
  ir::Size size;
  std::vector<std::pair<int, int64_t>> terms; ///< nodes (their dimensions: heads alone) and factors
};

/// One product of queries and keys.
struct AttentionDot {
  int node = 0, q = 0, k = 0;
  std::vector<Dim> depth; ///< what it sums over
};

/// result = sum over keys of softmax(score, sinks) v, where score is any expression of `dots`.
struct AttentionPattern {
  int result = 0, score = 0, v = 0;
  std::vector<AttentionDot> dots;
  bool narrow = false;                            ///< its weights are rounded to bf16 (ir/AttentionOps.td)
  std::vector<std::pair<int, std::string>> sinks; ///< scores without a value: node, its dimension of fixed size
  Dim key, query, column;
  std::vector<Dim> together; ///< other fixed dimensions that keys and values lack: their queries share a block
  std::vector<Dim> heads;    ///< the rest of the result's dimensions
  std::vector<int> inside;   ///< nodes that no one else needs to define: from the dots to the result
  /// What the gradient keeps of the softmax, if it does (Op::AttentionShift, Op::AttentionShare); or -1.
  int shift = -1, share = -1;
  /// index(key) <= index(query) + upper, index(key) >= index(query) + lower, where the mask says so.
  std::optional<Position> upper, lower;
  /// Keys before this one are a ring's: any of them may be seen, so `lower` holds only where there are none.
  std::optional<ir::Size> ring;
  /// Why its mask bounds no loops, where it has one that could.
  std::optional<std::string> unbounded;
};

/// Elementwise, or the same elements with other dimensions around them.
bool isPointwise(const KernelGraph &graph, int node);

/// Backwards from node `from` through pointwise nodes, which go to `region`, to the products that it is made from.
void collectProducts(const KernelGraph &graph, int from, const std::function<bool(int)> &isProduct,
                     std::vector<int> &products, std::vector<int> &region);

/// The attentions of a kernel, in the order of their nodes. Throws std::logic_error for one that no family can compute.
std::vector<AttentionPattern> readAttentions(const KernelGraph &graph);

/// Whether its products are pairs of bf16, two in an instruction of the target; and of how many numbers of bf16 a weight is the sum.
bool multipliesPairs(const KernelGraph &graph, const AttentionPattern &pattern, const CpuTarget &target);
int piecesOfWeights(const AttentionPattern &pattern);

/// Reads the bounds off the score expression (AttentionBounds.cpp). A text where a mask cannot bound the loops.
std::optional<std::string> findBounds(const KernelGraph &graph, AttentionPattern &pattern);

} // namespace quern::codegen
#endif
