// Results of a product of few rows that read several of its sums.
#ifndef QUERN_CODEGEN_TILE_PRODUCTS_TOGETHER_H
#define QUERN_CODEGEN_TILE_PRODUCTS_TOGETHER_H

#include "codegen/tile/products/Products.h"

namespace quern::codegen::tile {

/// The results of a kernel, each element at a column of its only product: those of the first result at the first columns, and
/// so on. An element reads sums of its row, at columns of the same `columns`.
struct Together {
  std::vector<Store> stores;
  int64_t columns = 0; ///< whole slices
};
/// Nothing: the results are not so.
std::optional<Together> storesTogether(const KernelGraph &graph, Program &program, Places &places,
                                       const Factors &product, int64_t slice);

} // namespace quern::codegen::tile
#endif
