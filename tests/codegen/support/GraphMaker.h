// Kernels for tests, made without MLIR: each call adds a node and gives its number; dimensions follow by name.
#ifndef QUERN_TESTS_CODEGEN_SUPPORT_GRAPHMAKER_H
#define QUERN_TESTS_CODEGEN_SUPPORT_GRAPHMAKER_H

#include "codegen/kernel/KernelGraph.h"

namespace quern::codegen {

class GraphMaker {
public:
  KernelGraph graph;
  /// Whether this program's kernels are a device's, which reads packed bf16 number by number, not in pairs.
  static inline bool ofDevices = false;

  /// Arguments come before all else. Dense unless strides are given.
  int argument(Storage storage, std::vector<Dim> dims, std::vector<std::optional<int64_t>> strides = {});
  int weight(std::vector<Dim> dims, int64_t tile, Storage storage = Storage::F32); ///< packed
  int constant(double value) { return leaf(Op::Const, Storage::F32, {}, {value}, 0); }
  int integer(int64_t value) { return leaf(Op::Const, Storage::I32, {}, {}, value); }
  int flag(bool value) { return leaf(Op::Const, Storage::U8, {}, {}, value); }
  int values(Dim dim, std::vector<double> numbers) { return leaf(Op::Values, Storage::F32, {dim}, numbers, 0); }
  int size(const ir::Size &size);
  int index(Dim dim) { return leaf(Op::Index, Storage::I32, {dim}, {}, 0); }

  int elementwise(Op op, std::vector<int> operands);
  int compare(Predicate predicate, int a, int b);
  int reduce(Reduction reduction, int x, std::vector<std::string> over);
  int contract(int a, int b, std::vector<std::string> over);
  int softmax(int x, std::vector<std::string> over);
  /// Sum over `key` of softmax(score, sinks) * values; each sink with its dimension of fixed size.
  int attention(int score, int values, std::string key, std::vector<std::pair<int, std::string>> sinks = {},
                bool narrow = false);
  /// Each row's shift and share of the softmax of an attention, right behind it.
  std::pair<int, int> statistics(int attention);
  /// Of attention's gradient: sum over one dimension of weights * value; or of the weights along diagonals, at
  /// offset + index(plus) - index(minus), where products' other sides have `over`.
  int weightedSum(int weights, int value, std::string over);
  int distanceSum(int weights, std::string plus, std::string minus, std::string over, const ir::Size &offset, Dim into);
  int quantize(int x, std::string along, Storage storage = Storage::Int8, bool paired = false);
  int cumsum(int x, std::string along, bool reverse = false);
  int scatterAdd(int x, int positions, std::vector<std::string> over, Dim into);
  int argmax(int x, std::string along);
  std::pair<int, int> topK(int x, std::string from, Dim into);
  int rename(int x, std::string from, Dim to);
  int split(int x, std::string dim, std::vector<Dim> into);
  int merge(int x, std::vector<std::string> dims, Dim into);
  int cut(int x, std::string dim, const ir::Size &offset, Dim into);
  int concat(std::vector<int> xs, std::vector<std::string> parts, Dim into);
  int unit(int x, Dim into);
  int squeeze(int x, std::string dim);
  int gather(int x, int positions, std::string dim);
  int expand(int x, std::vector<Dim> dims);
  int permute(int x, std::vector<std::string> order);

  /// Each position of `dim` does what the nodes of `body` say, whose first are its arguments; `operands`: carried values,
  /// `slices` values with `dim`, inputs. The results of its `yields`: the carried values, then the others with `dim` first.
  std::vector<int> scan(const Dim &dim, bool fromEnd, const GraphMaker &body, const std::vector<int> &operands,
                        int carried, int slices, const std::vector<int> &yields);

  void yield(int node, std::vector<std::optional<int64_t>> strides = {});
  /// Collects symbols; the graph is then ready to build.
  KernelGraph &finish(const std::string &name);

private:
  int add(Node node);
  void addLayout(Layout layout);
  int leaf(Op op, Storage storage, std::vector<Dim> dims, std::vector<double> numbers, int64_t integer);
  std::vector<Dim> unionOf(const std::vector<int> &operands) const;
};

/// Strides of a dense tensor, where they are fixed.
std::vector<std::optional<int64_t>> denseStrides(const std::vector<Dim> &dims);

} // namespace quern::codegen
#endif
