// Takes: launches and copies in order. Gives: one graph launch for those that came before, else each by itself.
//
// Why numbers are set and not read from the device's memory: kernels have lengths as arguments, and the size of a grid
// follows from them, which no kernel could read anyway. Of a step of a Llama that are the launches of attention and what
// writes into caches; all others stay as they are.
#include "runtime/device/cuda/LaunchList.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace quern::runtime::cuda {

/// Graphs that are kept: of a step, the choice of a token by some rules, a chunk of a prefill, for one text and for batches.
constexpr size_t mostGraphs = 16;
/// A list of so many is begun for its length, and is no graph.
constexpr size_t mostEntries = 1 << 14;

LaunchList::~LaunchList() {
  for (Graph &graph : graphs)
    drop(graph);
}

void LaunchList::drop(Graph &graph) {
  if (graph.exec)
    api.GraphExecDestroy(graph.exec);
  if (graph.handle)
    api.GraphDestroy(graph.handle);
  graph = {};
}

void LaunchList::launch(Function kernel, const GpuDevice::Grid &grid, const std::vector<const void *> &values,
                        const std::vector<size_t> &bytes, Early early) {
  Entry &entry = now.emplace_back();
  entry.kernel = kernel;
  entry.early = early;
  entry.shared = unsigned(grid.shared);
  for (int d = 0; d < 3; ++d) {
    entry.groups[d] = unsigned(grid.groups[d]);
    entry.threads[d] = unsigned(grid.threads[d]);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    entry.at.push_back(entry.values.size());
    entry.values.resize(entry.values.size() + (bytes[i] + 7) / 8);
    std::memcpy(&entry.values[entry.at.back()], values[i], bytes[i]);
  }
}

void LaunchList::copy(Address to, Address from, size_t bytes) {
  now.emplace_back().values = {to, from, bytes};
}

bool LaunchList::sameShape(const std::vector<Entry> &a, const std::vector<Entry> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Entry &x, const Entry &y) { return x.kernel == y.kernel && x.at == y.at; });
}

KernelNode LaunchList::kernelNode(Entry &entry) {
  pointers.clear();
  for (size_t at : entry.at)
    pointers.push_back(&entry.values[at]);
  return {entry.kernel,     entry.groups[0],  entry.groups[1], entry.groups[2], entry.threads[0],
          entry.threads[1], entry.threads[2], entry.shared,    pointers.data(), nullptr};
}

CopyNode LaunchList::copyNode(const Entry &entry) {
  CopyNode node;
  node.to.address = entry.values[0], node.from.address = entry.values[1], node.bytes = entry.values[2];
  return node;
}

/// The graph of these launches; a new one where there is none, or they came once.
LaunchList::Graph &LaunchList::find() {
  for (Graph &graph : graphs)
    if (sameShape(graph.entries, now))
      return graph;
  if (graphs.size() < mostGraphs)
    return graphs.emplace_back();
  Graph &oldest =
      *std::min_element(graphs.begin(), graphs.end(), [](const Graph &a, const Graph &b) { return a.used < b.used; });
  drop(oldest);
  return oldest;
}

int LaunchList::make(Graph &graph, Context context) {
  if (int status = api.GraphCreate(&graph.handle, 0))
    return status;
  for (Entry &entry : graph.entries) {
    Node node = nullptr, *before = graph.nodes.empty() ? nullptr : &graph.nodes.back();
    // A kernel that waits itself may begin while the one before it, which lets it, is still at work. Where neither is made for
    // that (products of many rows, and what is written for them), it took time on an H100.
    const Early none, &last = before ? graph.entries[graph.nodes.size() - 1].early : none;
    bool early = entry.early.waits && last.waits && (entry.early.eager || last.eager);
    size_t after = before && !early;
    int status;
    if (entry.kernel) {
      KernelNode one = kernelNode(entry);
      status = api.GraphAddKernelNode(&node, graph.handle, before, after, &one);
    } else {
      CopyNode one = copyNode(entry);
      status = api.GraphAddMemcpyNode(&node, graph.handle, before, after, &one, context);
    }
    if (!status && early) {
      EdgeData edge{programmaticPort, 0, programmaticEdge, {}};
      status = api.GraphAddDependencies(graph.handle, before, &node, &edge, 1);
    }
    if (status)
      return status;
    graph.nodes.push_back(node);
  }
  return api.GraphInstantiateWithFlags(&graph.exec, graph.handle, 0);
}

int LaunchList::update(Graph &graph, Context context) {
  for (size_t i = 0; i < now.size(); ++i) {
    Entry &was = graph.entries[i], &is = now[i];
    if (was.values == is.values && was.shared == is.shared && std::equal(was.groups, was.groups + 3, is.groups) &&
        std::equal(was.threads, was.threads + 3, is.threads))
      continue;
    int status;
    if (is.kernel) {
      KernelNode one = kernelNode(is);
      status = api.GraphExecKernelNodeSetParams(graph.exec, graph.nodes[i], &one);
    } else {
      CopyNode one = copyNode(is);
      status = api.GraphExecMemcpyNodeSetParams(graph.exec, graph.nodes[i], &one, context);
    }
    if (status)
      return status;
    std::swap(was, is);
  }
  return 0;
}

int LaunchList::one(Entry &entry, Stream stream) {
  if (!entry.kernel)
    return api.MemcpyDtoDAsync(entry.values[0], entry.values[1], entry.values[2], stream);
  KernelNode node = kernelNode(entry);
  return api.LaunchKernel(node.kernel, node.groupsX, node.groupsY, node.groupsZ, node.threadsX, node.threadsY,
                          node.threadsZ, node.sharedBytes, stream, node.arguments, nullptr);
}

int LaunchList::begin(Stream stream, Context context, uint64_t &launched) {
  if (now.empty())
    return 0;
  int status = 0;
  if (now.size() > 1 && now.size() < mostEntries) {
    Graph &graph = find();
    graph.used = ++lists;
    if (!graph.exec && !graph.entries.empty()) { // the second time
      graph.entries = std::move(now);
      status = make(graph, context);
    } else if (graph.exec) {
      status = update(graph, context);
    } else {
      graph.entries = now;
    }
    if (!status && graph.exec) {
      ++launched;
      status = api.GraphLaunch(graph.exec, stream);
    }
    if (status || graph.exec) {
      now.clear();
      return status;
    }
  }
  for (size_t i = 0; i < now.size() && !status; ++i)
    status = one(now[i], stream);
  now.clear();
  return status;
}

} // namespace quern::runtime::cuda
