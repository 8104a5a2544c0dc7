// EXPECT that a compiled kernel gives what plain loops give.
#ifndef QUERN_TESTS_CODEGEN_SUPPORT_CHECK_H
#define QUERN_TESTS_CODEGEN_SUPPORT_CHECK_H

#include "tests/codegen/support/Compare.h"
#include "tests/codegen/support/KernelRunner.h"

namespace quern::codegen {

/// The rule of passes/memory/InPlace.cpp on plain data: the arguments that a result may be written over.
inline std::vector<int> inPlaceArguments(const KernelGraph &graph) {
  std::vector<int> found;
  if (graph.results.size() != 1)
    return found;
  const Node &result = graph.nodes[graph.results[0]];
  auto same = [](const std::vector<Dim> &a, const std::vector<Dim> &b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const Dim &x, const Dim &y) { return x.name == y.name && x.size == y.size; });
  };
  for (const Node &node : graph.nodes)
    if (node.op == Op::ScatterAdd)
      return found;
  for (int a = 0; a < graph.argumentCount(); ++a) {
    const Node &argument = graph.nodes[a];
    const Layout &layout = graph.argumentLayouts[a];
    if (argument.storage != result.storage || !same(argument.dims, result.dims) || layout.packed ||
        layout.strides != graph.resultLayouts[0].strides)
      continue;
    std::vector<char> made(graph.nodes.size());
    made[a] = 1;
    bool elementwise = true;
    for (size_t i = graph.argumentCount(); i < graph.nodes.size(); ++i)
      for (int operand : graph.nodes[i].operands)
        if (made[operand]) {
          made[i] = 1;
          elementwise &= graph.isElementwise(static_cast<int>(i)) || graph.nodes[i].op == Op::Permute;
        }
    if (elementwise && made[graph.results[0]])
      found.push_back(a);
  }
  return found;
}

/// Runs at all lengths; then again with the result over each argument that it may overlap. `sizedByData`: some blocks' sizes
/// are data, so that the scratch plan leaves them out.
inline void checkRuns(KernelRunner &runner, const KernelGraph &graph, const std::vector<Lengths> &lengths,
                      double tolerance = 2e-6, const std::vector<DenseTensor> *given = nullptr,
                      bool sizedByData = false) {
  for (const Lengths &now : lengths) {
    std::string what = graph.name;
    for (const auto &[symbol, length] : now)
      what += " " + symbol + "=" + std::to_string(length);
    std::vector<DenseTensor> arguments;
    for (int i = 0; i < graph.argumentCount(); ++i)
      arguments.push_back(given ? (*given)[i] : randomTensor(graph.nodes[i], now, i + 1));
    std::vector<DenseTensor> want = evaluate(graph, now, arguments, runner.rounding(now));
    runner.bind(now, arguments);
    ASSERT_EQ(runner.run(), 0) << what;
    for (size_t r = 0; r < graph.results.size(); ++r)
      compareTensors(runner.result(r), want[graph.results[r]], tolerance, what + " result " + std::to_string(r));
    if (!sizedByData) {
      EXPECT_LE(runner.used().caller, runner.planned().caller) << what;
      EXPECT_LE(runner.used().worker, runner.planned().worker) << what;
    }
    for (int argument : inPlaceArguments(graph)) {
      runner.bind(now, arguments);
      runner.shareResult(argument);
      ASSERT_EQ(runner.run(), 0) << what;
      compareTensors(runner.result(0), want[graph.results[0]], tolerance,
                     what + " over argument " + std::to_string(argument));
    }
  }
}

/// The same of what is compiled once. A kernel for a target that this machine cannot run is compiled, and its instructions are
/// looked at.
inline void checkKernel(const KernelGraph &graph, const std::vector<Lengths> &lengths, double tolerance = 2e-6,
                        const CpuTarget &target = cpuTarget("native"), const std::vector<DenseTensor> *given = nullptr,
                        bool sizedByData = false) {
  KernelRunner runner(graph, target);
  if (machineRuns(target))
    checkRuns(runner, graph, lengths, tolerance, given, sizedByData);
}

} // namespace quern::codegen
#endif
