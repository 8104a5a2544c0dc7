// How a scan is divided: which dimensions are tasks, lanes and inner loops, and in which order a position is computed.
#ifndef QUERN_CODEGEN_SCAN_SCANSHAPE_H
#define QUERN_CODEGEN_SCAN_SCANSHAPE_H

#include "codegen/Targets.h"
#include "codegen/kernel/KernelGraph.h"

#include <map>
#include <set>

namespace quern::codegen::scan {

/// What is computed at a position in one nest of loops, at its end.
struct Nest {
  std::vector<Dim> dims;    ///< inner ones
  std::vector<int> carried; ///< whose next values
  std::vector<int> outputs; ///< results (by number) of which a part is stored
  std::vector<int> sums;    ///< reductions over all of `dims`, gathered in passing
  std::vector<int> totals;  ///< results (by number) that add over the lanes of all tasks, too
};

struct ScanShape {
  const ScanBody *body = nullptr;
  std::vector<int> operands;   ///< of the scan, as nodes of the kernel
  std::map<int, int> results;  ///< number of a scan's result -> number of the kernel's
  std::vector<Dim> tasks;      ///< independent of each other: dimensions that nothing in the body touches
  std::optional<Dim> lane;     ///< ... and the one of them that vectors run along
  int width = 1;               ///< lanes of a task
  std::vector<int> reductions; ///< nodes of the body in order, each computed before the nests
  std::vector<Nest> nests;     ///< then these, in order
  std::set<int> shadowed;      ///< carried values that are read after their next value is known

  /// Results that are sums over the lane's dimension (the gradient of what all channels read), by number: each part of
  /// the blocks of lanes has sums of its own, which are added at the end.
  std::set<int> totals;
  /// Blocks of lanes; those of a part; parts. As many for any number of threads, so that sums are added in one order.
  int64_t blocks() const { return lane ? (*lane->fixed() + width - 1) / width : 1; }
  int64_t blocksOfPart() const;
  int64_t parts() const { return (blocks() + blocksOfPart() - 1) / blocksOfPart(); }

  bool isTask(const std::string &dim) const;
  /// The dimensions of a value that are neither tasks nor lanes.
  std::vector<Dim> inner(const std::vector<Dim> &dims) const;
  bool hasLane(const std::vector<Dim> &dims) const;
};

/// Why there is no such division; nothing: `shape` has it.
std::optional<std::string> divide(const KernelGraph &graph, const CpuTarget &target, ScanShape &shape);

/// Whether a node combines positions: its value is stored before it is read.
bool isReduction(const Node &node);
/// The dimensions that a reduction runs over.
std::vector<Dim> reducedDims(const std::vector<Node> &nodes, const Node &node);

} // namespace quern::codegen::scan
#endif
