// EXPECT that a compiled kernel gives what plain loops give.
#ifndef QUERN_TESTS_CODEGEN_CHECK_H
#define QUERN_TESTS_CODEGEN_CHECK_H

#include "tests/codegen/GraphMaker.h"
#include "tests/codegen/KernelRunner.h"

#include <gtest/gtest.h>

#include <cmath>

namespace quern::codegen {

inline void compareTensors(const DenseTensor &got, const DenseTensor &want, double tolerance, const std::string &what) {
  ASSERT_EQ(got.data.size(), want.data.size()) << what;
  for (size_t i = 0; i < got.data.size(); ++i) {
    double a = got.data[i], b = want.data[i];
    if (std::fabs(b) > std::numeric_limits<float>::max()) // more than f32 holds
      b = std::copysign(INFINITY, b);
    bool same = std::isnan(b) ? std::isnan(a) : std::isinf(b) ? a == b : std::fabs(a - b) <= tolerance * (1 + std::fabs(b));
    ASSERT_TRUE(same) << what << ": element " << i << " is " << a << ", should be " << b;
  }
}

/// Compiles once, runs at all lengths.
inline void checkKernel(const KernelGraph &graph, const std::vector<Lengths> &lengths, double tolerance = 2e-6,
                        const CpuTarget &target = cpuTarget("native"),
                        const std::vector<DenseTensor> *given = nullptr) {
  KernelRunner runner(graph, target);
  for (const Lengths &now : lengths) {
    std::string what = graph.name;
    for (const auto &[symbol, length] : now)
      what += " " + symbol + "=" + std::to_string(length);
    std::vector<DenseTensor> arguments;
    for (int i = 0; i < graph.argumentCount(); ++i)
      arguments.push_back(given ? (*given)[i] : randomTensor(graph.nodes[i], now, i + 1));
    std::vector<DenseTensor> want = evaluate(graph, now, arguments);
    runner.bind(now, arguments);
    ASSERT_EQ(runner.run(), 0) << what;
    for (size_t r = 0; r < graph.results.size(); ++r)
      compareTensors(runner.result(r), want[graph.results[r]], tolerance, what + " result " + std::to_string(r));
  }
}

inline Dim dim(const std::string &name, int64_t size) { return {name, ir::Size(size)}; }
inline Dim dim(const std::string &name) { return {name, ir::Size::symbol(name)}; }
inline Dim dim(const std::string &name, const ir::Size &size) { return {name, size}; }

} // namespace quern::codegen
#endif
