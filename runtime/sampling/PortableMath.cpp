// Takes: a number. Gives: its exponential or logarithm, from sums and products in a fixed order.
#include "runtime/sampling/PortableMath.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace quern::runtime {

static constexpr int together = 8;

static constexpr double least = -700; // below it e^x is 0 here; above it 2^n is a normal number

// 2^n times a series of the rest, of some numbers side by side.
static void exponentials(double *x) {
  double n[together], r[together], term[together], sum[together];
  for (int i = 0; i < together; ++i) {
    double bounded = x[i] > least ? x[i] : least, nearest = bounded * 1.4426950408889634 + 0.5;
    n[i] = double(int(nearest));
    n[i] -= n[i] > nearest ? 1 : 0;                                                      // as floor
    r[i] = bounded - n[i] * 0.693147180369123816490 - n[i] * 1.90821492927058770002e-10; // ln 2 in two parts
    term[i] = sum[i] = 1;
  }
  for (int k = 1; k <= 14; ++k)
    for (int i = 0; i < together; ++i) {
      term[i] = term[i] * r[i] / k;
      sum[i] = sum[i] + term[i];
    }
  for (int i = 0; i < together; ++i)
    x[i] = x[i] > least ? sum[i] * std::bit_cast<double>(uint64_t(int64_t(n[i]) + 1023) << 52) : 0;
}

void portableExp(std::span<double> x) {
  size_t at = 0;
  for (; at + together <= x.size(); at += together)
    exponentials(&x[at]);
  double rest[together] = {};
  std::copy(x.begin() + std::ptrdiff_t(at), x.end(), rest);
  exponentials(rest);
  std::copy(rest, rest + (x.size() - at), x.begin() + std::ptrdiff_t(at));
}

double portableExp(double x) {
  portableExp({&x, 1});
  return x;
}

// x is m times a power of 2, m near 1; of m the series of 2 artanh((m - 1) / (m + 1)).
double portableLog(double x) {
  int n = 0;
  double m = std::frexp(x, &n);
  if (m < 0.70710678118654752440) {
    m *= 2;
    --n;
  }
  double s = (m - 1) / (m + 1), power = s, sum = 0;
  for (int k = 1; k <= 23; k += 2) {
    sum = sum + power / k;
    power = power * s * s;
  }
  return 2 * sum + n * 0.693147180559945309417;
}

} // namespace quern::runtime
