// EXPECT that tensors are equal, within a tolerance; short words for dimensions.
#ifndef QUERN_TESTS_CODEGEN_SUPPORT_COMPARE_H
#define QUERN_TESTS_CODEGEN_SUPPORT_COMPARE_H

#include "tests/codegen/support/GraphMaker.h"
#include "tests/codegen/support/Reference.h"

#include <gtest/gtest.h>

#include <cmath>

namespace quern::codegen {

inline void compareTensors(const DenseTensor &got, const DenseTensor &want, double tolerance, const std::string &what) {
  ASSERT_EQ(got.data.size(), want.data.size()) << what;
  for (size_t i = 0; i < got.data.size(); ++i) {
    double a = got.data[i], b = want.data[i], slack = want.slack.empty() ? 0 : want.slack[i];
    if (std::fabs(b) > std::numeric_limits<float>::max()) // more than f32 holds
      b = std::copysign(INFINITY, b);
    bool same = std::isnan(b)   ? std::isnan(a)
                : std::isinf(b) ? a == b
                                : std::fabs(a - b) <= tolerance * (1 + std::fabs(b)) + slack;
    ASSERT_TRUE(same) << what << ": element " << i << " is " << a << ", should be " << b;
  }
}

inline Dim dim(const std::string &name, int64_t size) {
  return {name, ir::Size(size)};
}
inline Dim dim(const std::string &name) {
  return {name, ir::Size::symbol(name)};
}
inline Dim dim(const std::string &name, const ir::Size &size) {
  return {name, size};
}

} // namespace quern::codegen
#endif
