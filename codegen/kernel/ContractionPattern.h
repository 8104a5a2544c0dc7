// How a contraction of a kernel is computed: which operand gives rows and which columns, and what its dimensions are.
#ifndef QUERN_CODEGEN_KERNEL_CONTRACTIONPATTERN_H
#define QUERN_CODEGEN_KERNEL_CONTRACTIONPATTERN_H

#include "codegen/kernel/KernelGraph.h"
#include "codegen/kernel/TileTerms.h"

#include <optional>

namespace quern::codegen {

enum class ContractionForm {
  Dots,     ///< no columns, or neither rows nor a packed weight: sums of products
  Taps,     ///< of these a few, of numbers that nothing else reads: written out where the sum is used (a convolution)
  Packed,   ///< a packed weight
  Dense,    ///< neither operand is packed: parts of both are, as they are used
  Grouped,  ///< a weight for each row, routed to one of several (experts)
  ByExpert, ///< the gradient of such a weight: for each expert a sum over the rows routed to it
};

/// Numbers of bf16 along the depth that AMX multiplies at a time.
inline constexpr int depthOfTile = 32;

struct ContractionPattern {
  ContractionForm form = ContractionForm::Dots;
  int node = 0;
  int x = 0, w = 0;    ///< operands: rows, columns
  bool packed = false; ///< the weight's layout
  std::vector<Dim> reduced, others;
  std::optional<Dim> row, column;
  std::vector<Dim> pairs; ///< dimensions of the positions that route: together they number the pairs of row and expert
  bool perHead = false;   ///< dense, with one weight of fixed size for each of the other dimensions

  bool isGrouped() const { return !pairs.empty(); }
  bool isDense() const { return form == ContractionForm::Dense; }
};

/// A gather, behind what widens its numbers; or the node itself.
int pickOf(const KernelGraph &graph, int operand);
/// How an operand's numbers are stored, whatever they are widened to before they are multiplied. Codes of caches have a scale
/// for each row: no product reads them as they are.
Storage storedAs(const KernelGraph &graph, int operand);
/// What an operand of the contraction is gathered from, one expert for each position; or the packed weight that it
/// widens; or itself.
int tableOf(const KernelGraph &graph, const ContractionPattern &pattern, int operand);

/// `vector`: floats in a register of the target; a narrower dimension makes no columns.
ContractionPattern matchContraction(const KernelGraph &graph, int node, int vector);

/// Whether a product with a packed weight reads codes of columns; and of rows, too, which the kernel quantises.
bool hasCodes(const KernelGraph &graph, const ContractionPattern &pattern);
bool hasCodesAlone(const KernelGraph &graph, const ContractionPattern &pattern);
/// Whether one reads a weight in bf16, whose pairs along the depth an instruction multiplies; and rows in bf16, too.
bool hasPairs(const KernelGraph &graph, const ContractionPattern &pattern);
bool hasPairsAlone(const KernelGraph &graph, const ContractionPattern &pattern);
/// Whether one reads a weight in f32 along one known depth.
bool hasNumbers(const KernelGraph &graph, const ContractionPattern &pattern);
/// Of experts: whether these are in bf16, along one known depth; whether rows and experts are in codes.
bool hasRoutedWords(const KernelGraph &graph, const ContractionPattern &pattern);
bool hasRoutedCodes(const KernelGraph &graph, const ContractionPattern &pattern);
/// Whether the gradient of experts multiplies bf16 alone, along the rows routed to each.
bool hasRoutedFactors(const KernelGraph &graph, const ContractionPattern &pattern);
/// Of a dense product: of what is summed the longest, whose parts are packed; and whether it multiplies bf16 alone, such that
/// a row's pairs along that depth are read at once: rows are side by side, or their depth is.
const Dim &longestDepth(const ContractionPattern &pattern);
bool hasStoredPairs(const KernelGraph &graph, const ContractionPattern &pattern);
/// The same of whatever is stored, for AMX; and how many numbers of bf16 one of an operand is.
bool hasWords(const KernelGraph &graph, const ContractionPattern &pattern);
int piecesOf(const KernelGraph &graph, int operand);
/// Whether its numbers are of bf16, which is all that was stored of them.
bool isOfBF16(const KernelGraph &graph, int operand);
/// Whether such rows run along their depth in memory.
bool liesAlongDepth(const KernelGraph &graph, const ContractionPattern &pattern);

/// Whether a scatter is the gradient of weights that rows are routed to; `users`: of the graph.
bool sumsByExpert(const KernelGraph &graph, const std::vector<std::vector<int>> &users, int scatter);
ContractionPattern matchByExpert(const KernelGraph &graph, int scatter);

} // namespace quern::codegen
#endif
