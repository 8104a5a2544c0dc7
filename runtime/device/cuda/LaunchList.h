// What was asked of a CUDA device and not begun yet: launches and copies within its memory, in order.
#ifndef QUERN_RUNTIME_DEVICE_CUDA_LAUNCHLIST_H
#define QUERN_RUNTIME_DEVICE_CUDA_LAUNCHLIST_H

#include "runtime/device/GpuDevice.h"
#include "runtime/device/cuda/Cuda.h"

#include <vector>

namespace quern::runtime::cuda {

/// Begun when somebody copies to or from the host or waits. A list with the launches of one before (a step of decoding, the
/// choice of its token with it) is a graph: made once, then handed to the device whole, with the numbers and places that
/// are others than last time. Lists that come once are launched one by one.
class LaunchList {
public:
  explicit LaunchList(const Api &api) : api(api) {}
  ~LaunchList();
  LaunchList(const LaunchList &) = delete;

  /// Of a kernel (EarlyLaunch.h).
  struct Early {
    bool waits = false; ///< for the one before it, by itself, and lets the next begin
    bool eager = false; ///< and says where
  };
  /// `values[i]`: of an argument `bytes[i]`.
  void launch(Function kernel, const GpuDevice::Grid &grid, const std::vector<const void *> &values,
              const std::vector<size_t> &bytes, Early early);
  bool empty() const { return now.empty(); }
  void copy(Address to, Address from, size_t bytes);
  /// Gives a driver's status. `graphs` counts what is launched as one.
  int begin(Stream stream, Context context, uint64_t &graphs);

private:
  struct Entry {
    Function kernel = nullptr; ///< null: a copy
    Early early{};
    unsigned groups[3]{}, threads[3]{}, shared = 0;
    std::vector<uint64_t> values; ///< each argument in as many words as it needs; of a copy where to, where from, bytes
    std::vector<size_t> at;       ///< where each argument begins
  };
  struct Graph {
    std::vector<Entry> entries; ///< as the device has them
    GraphHandle handle = nullptr;
    GraphExec exec = nullptr; ///< null: the launches came once
    std::vector<Node> nodes;
    uint64_t used = 0; ///< by which list, the last time
  };

  const Api &api;
  std::vector<Entry> now;
  std::vector<Graph> graphs;
  uint64_t lists = 0;
  std::vector<void *> pointers;

  static bool sameShape(const std::vector<Entry> &a, const std::vector<Entry> &b);
  KernelNode kernelNode(Entry &entry);
  static CopyNode copyNode(const Entry &entry);
  Graph &find();
  void drop(Graph &graph);
  int make(Graph &graph, Context context);
  int update(Graph &graph, Context context);
  int one(Entry &entry, Stream stream);
};

} // namespace quern::runtime::cuda
#endif
