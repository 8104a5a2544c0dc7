// Recurrences that can run by chunks of positions: memories of keys and values, with or without a delta rule.
#ifndef QUERN_CODEGEN_SCAN_CHUNKFORM_H
#define QUERN_CODEGEN_SCAN_CHUNKFORM_H

#include "codegen/scan/ScanShape.h"

namespace quern::codegen::scan {

/// Nodes of the body that are multiplied; none: 1.
struct Product {
  std::vector<int> factors{};
  bool minus = false;
};

/// scale * sum[A](h * query), of the state after this position's update or before it.
struct ChunkRead {
  int node; ///< of the body
  bool updated;
  Product scale, query; ///< each in neither U; `scale` without A
};

/// With h: [heads, A, U], U among them the lanes of tasks:
///
///   memory:  h' = decay * h + key * value
///   delta:   the same, where `value` is value(0) + rate * r, of a read r of the state before the update
///
/// decay: [heads]; key: [heads, A]; value, rate: [heads, U]. This is linear attention with a decay for each head (RetNet,
/// Mamba 2: Dao and Gu 2024) and the gated delta rule (Yang, Kautz and Hatamizadeh 2024).
struct ChunkForm {
  Dim keys; ///< A
  Product decay, key, value;
  Product rate{}; ///< of delta
  std::vector<ChunkRead> reads{};
  int inner = -1;            ///< number of the read that `value` has; -1: memory
  std::optional<int> hold{}; ///< a condition under which the state stays as it is ...
  bool holdsWhere = true;    ///< ... if it has this value

  bool isDelta() const { return inner >= 0; }
};

/// Why the scan is of neither form; nothing: `form` has it. Recognised by what is computed, whatever the names: statements on the
/// state may follow each other, products and differences stand in any order.
std::optional<std::string> recognise(const KernelGraph &graph, const ScanShape &shape, ChunkForm &form);

} // namespace quern::codegen::scan
#endif
