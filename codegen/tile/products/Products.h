// What the contractions of a kernel are, and how each result's dimensions follow from theirs.
#ifndef QUERN_CODEGEN_TILE_PRODUCTS_PRODUCTS_H
#define QUERN_CODEGEN_TILE_PRODUCTS_PRODUCTS_H

#include "codegen/tile/Places.h"

namespace quern::codegen::tile {

/// A contraction by what its dimensions are of: of one operand, or of both.
struct Factors {
  int node = 0, x = 0, w = 0;
  std::vector<Dim> rows, columns, matrices, depth;
  std::vector<Dim> all() const;
};

/// Throws Refusal for contractions that are no products of matrices.
Factors factorsOf(const KernelGraph &graph, int node);

/// A kernel whose results are all computed from one contraction's sums at one row and column: no sum is stored.
struct Fusion {
  Factors factors; ///< dimensions that are parts are gone, those of the result stand for the contraction's
  std::map<std::string, std::vector<Dim>> becomes; ///< a dimension of the contraction: the results'
  std::vector<std::string> partDims;               ///< at fixed positions
  std::vector<std::vector<int64_t>> parts;         ///< these positions
};
std::optional<Fusion> fusionOf(const KernelGraph &graph, const Factors &factors);

/// Into how many parts the depth of a weight's gradient is divided, so that its few tiles keep the card busy: all tokens are
/// their depth.
int64_t partsOfDepth(const Fusion &fusion, const Cut &cut);
/// The same where rows are at most some hundred: into how many parts, 0 for one, once tiles are narrower, too.
int spread(const Factors &factors, int &wide);

/// Whether a reduction is one that tile programs make, and along what.
bool reducesReals(const Node &node, const Node &from);
Axis reducedAxis(const Node &node, const Node &from);

} // namespace quern::codegen::tile
#endif
