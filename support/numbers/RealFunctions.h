// The real functions of one number, each in one line: its name in C++, its name in the language, in the dialect and in kernels,
// and its value in double precision. The checker's constants, folding, the interpreter and the programs of loops compute it.
// Lists of these functions elsewhere are made of this one: QUERN_REAL_FUNCTIONS(X) is X(NAME, WORD, VALUE) for each, with
// VALUE an expression of `double x`. docs/extending.md says what a new line needs besides.
#ifndef QUERN_SUPPORT_NUMBERS_REALFUNCTIONS_H
#define QUERN_SUPPORT_NUMBERS_REALFUNCTIONS_H

#include <cmath>

#define QUERN_REAL_FUNCTIONS(X)                                                                                        \
  X(Exp, exp, std::exp(x))                                                                                             \
  X(Expm1, expm1, std::expm1(x))                                                                                       \
  X(Log, log, std::log(x))                                                                                             \
  X(Log1p, log1p, std::log1p(x))                                                                                       \
  X(Sqrt, sqrt, std::sqrt(x))                                                                                          \
  X(Sin, sin, std::sin(x))                                                                                             \
  X(Cos, cos, std::cos(x))                                                                                             \
  X(Tanh, tanh, std::tanh(x))                                                                                          \
  X(Sigmoid, sigmoid, 1.0 / (1.0 + std::exp(-x)))                                                                      \
  X(Erf, erf, std::erf(x))

#endif
