// e^x and ln x with the same bits everywhere. Those of a C library differ between versions and processors in the last bit,
// and one bit is enough to choose another token. They use only operations that IEEE 754 fixes.
#ifndef QUERN_RUNTIME_SAMPLING_PORTABLEMATH_H
#define QUERN_RUNTIME_SAMPLING_PORTABLEMATH_H

#include <span>

namespace quern::runtime {

/// e^x for x <= 0 within 1e-15.
double portableExp(double x);
/// The same of each, in its place: a number's sums wait for each other, those of several do not.
void portableExp(std::span<double> x);
/// ln x for finite x > 0 within 1e-15 (absolute near 1).
double portableLog(double x);

} // namespace quern::runtime
#endif
