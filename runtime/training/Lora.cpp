// Takes: the gradient of a matrix, or a matrix and its adapter. Gives: the adapter's gradients, the merged matrix (Hu
// et al. 2021). Why outside of the compiled program: any program can be fine-tuned so, and with small ranks this is
// little beside the gradient itself. Sums have a fixed order, so that results do not depend on the number of threads.
#include "runtime/training/Lora.h"

#include "runtime/machine/ThreadPool.h"

#include <algorithm>
#include <vector>

namespace quern::runtime {

namespace {

constexpr int64_t block = 64;

int blocks(int64_t count) {
  return int((count + block - 1) / block);
}

float dot(const float *a, const float *b, int64_t count) {
  constexpr int lanes = 16;
  float sums[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (int lane = 0; lane < lanes; ++lane)
      sums[lane] += a[i + lane] * b[i + lane];
  float total = 0;
  for (float sum : sums)
    total += sum;
  for (; i < count; ++i)
    total += a[i] * b[i];
  return total;
}

} // namespace

void loraGradients(const LoraMatrix &m, const float *dw, const float *u, const float *v, float *du, float *dv) {
  ThreadPool::instance().forEach(blocks(m.rows), [&](int task) {
    for (int64_t row = task * block; row < std::min(m.rows, (task + 1) * block); ++row)
      for (int64_t k = 0; k < m.rank; ++k)
        du[row * m.rank + k] = m.scale * dot(dw + row * m.columns, v + k * m.columns, m.columns);
  });
  ThreadPool::instance().forEach(blocks(m.columns), [&](int task) {
    int64_t from = task * block, width = std::min(block, m.columns - from);
    std::vector<float> sums(size_t(m.rank * block), 0.0f);
    for (int64_t row = 0; row < m.rows; ++row)
      for (int64_t k = 0; k < m.rank; ++k) {
        float factor = u[row * m.rank + k], *to = sums.data() + k * block;
        const float *source = dw + row * m.columns + from;
        for (int64_t i = 0; i < width; ++i)
          to[i] += factor * source[i];
      }
    for (int64_t k = 0; k < m.rank; ++k)
      for (int64_t i = 0; i < width; ++i)
        dv[k * m.columns + from + i] = m.scale * sums[size_t(k * block + i)];
  });
}

void loraMerge(const LoraMatrix &m, const float *base, const float *u, const float *v, float *w) {
  ThreadPool::instance().forEach(blocks(m.rows), [&](int task) {
    std::vector<float> sums(size_t(m.columns));
    for (int64_t row = task * block; row < std::min(m.rows, (task + 1) * block); ++row) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (int64_t k = 0; k < m.rank; ++k) {
        float factor = u[row * m.rank + k];
        for (int64_t i = 0; i < m.columns; ++i)
          sums[size_t(i)] += factor * v[k * m.columns + i];
      }
      for (int64_t i = 0; i < m.columns; ++i)
        w[row * m.columns + i] = base[row * m.columns + i] + m.scale * sums[size_t(i)];
    }
  });
}

} // namespace quern::runtime
