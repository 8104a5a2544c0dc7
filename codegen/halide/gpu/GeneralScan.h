// A recurrence on a device: a work-item goes through all positions of what does not touch its neighbours.
#ifndef QUERN_CODEGEN_HALIDE_GPU_GENERALSCAN_H
#define QUERN_CODEGEN_HALIDE_GPU_GENERALSCAN_H

#include "codegen/halide/KernelBuilder.h"

namespace quern::codegen {

/// Why a kernel's recurrence cannot be computed on a device; nothing: it can, or it has none.
std::optional<std::string> refusesScan(const KernelGraph &graph, const CpuTarget &target);

/// The graph with the nodes of the recurrence's body before its results, marked by `scan`; names of a result: dimensions
/// along which elements are independent. Graphs without a recurrence stay as they are.
KernelGraph withScanBody(const KernelGraph &graph, const CpuTarget &target);

/// Takes the results of recurrences.
void takeScans(KernelBuilder &builder);

class GeneralScan {
public:
  /// `node`: the first result of a recurrence in such a graph.
  GeneralScan(KernelBuilder &builder, int node);
  /// Gives all results their values.
  void define();

private:
  /// Elements of one work-item: from `at` on, one for each position of `dims`.
  struct Place {
    int node;
    std::vector<Dim> dims;
    int64_t at, count;
  };
  /// What a position computes one element at a time: `count` of them.
  struct Phase {
    int64_t count;
    std::function<std::pair<Expr, Expr>(const Expr &i)> element; ///< where it goes, and what
  };
  Place take(int node);
  Index indexOf(const std::vector<Dim> &dims, Expr i) const;
  static Expr offsetOf(const Place &place, const Index &index);
  Expr stored(int node, const Index &index) const;
  Expr read(const Expr &at, Kind kind) const;
  void place();
  void defineBody();
  Phase sumOf(const Place &sum) const;
  Phase copyOf(int node, const Place &to, std::function<Expr()> begin) const;

  KernelBuilder &b;
  int first, base;
  const ScanBody &body;
  std::vector<Dim> tasks;
  Func memory;
  Expr position, step;                      ///< the present position, and how many there were before
  std::vector<int> wanted;                  ///< numbers of further results that the kernel has
  std::vector<Place> states, sums, outputs; ///< in the order of carried values, of nodes, of `wanted`
  int64_t taken = 0, halfSize = 0, outputSize = 0, outputBegin = 0;
};

} // namespace quern::codegen
#endif
