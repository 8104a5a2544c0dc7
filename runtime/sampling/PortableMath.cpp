// Takes: a number. Gives: its exponential or logarithm, from sums and products in a fixed order.
#include "runtime/sampling/PortableMath.h"

#include <cmath>

namespace quern::runtime {

// 2^n times a series of the rest.
double portableExp(double x) {
  if (!(x > -700))
    return 0;
  double n = std::floor(x * 1.4426950408889634 + 0.5);
  double r = x - n * 0.693147180369123816490 - n * 1.90821492927058770002e-10; // ln 2 in two parts
  double term = 1, sum = 1;
  for (int k = 1; k <= 14; ++k) {
    term = term * r / k;
    sum = sum + term;
  }
  return std::ldexp(sum, int(n));
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
