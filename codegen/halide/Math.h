// Elementwise functions as Halide expressions that vectorise.
#ifndef QUERN_CODEGEN_HALIDE_MATH_H
#define QUERN_CODEGEN_HALIDE_MATH_H

#include "codegen/Targets.h"
#include "support/Storage.h"

#include <Halide.h>

namespace quern::codegen::math {

using Halide::Expr;

// Arithmetic that keeps IEEE meaning (infinities and NaN are values here: masked scores are -inf). Halide's plain
// operators promise LLVM that neither occurs.
Expr add(Expr a, Expr b);
Expr sub(Expr a, Expr b);
Expr mul(Expr a, Expr b);
Expr div(Expr a, Expr b);
Expr max(Expr a, Expr b);
Expr min(Expr a, Expr b);
Expr less(Expr a, Expr b);
Expr lessEqual(Expr a, Expr b);
Expr equal(Expr a, Expr b);

Expr infinity(); ///< f32
Expr negativeInfinity();
Expr isNegativeInfinity(Expr x);
/// a or b bit by bit. LLVM takes a plain choice between reals as one that never gives an infinity.
Expr choose(Expr condition, Expr a, Expr b);
/// The same, but Halide does not see that a or b is not needed where the other is taken.
Expr chooseUnseen(Expr condition, Expr a, Expr b);

// All of f32, within about 2 ulp unless noted.
Expr exp(Expr x);
Expr expm1(Expr x);
Expr expOfDifference(Expr x); ///< for x <= 0 (or NaN); below 1e-38 it is 0
Expr roundUpToLn2(Expr x);    ///< to the next multiple of ln 2, of which e to its power is a power of two
Expr log(Expr x);
Expr log1p(Expr x);
Expr sqrt(Expr x);
// `calls`: whether the target's language has functions of doubles.
Expr sine(Expr x, bool calls);   ///< absolute error 1e-7 for |x| < 1e6
Expr cosine(Expr x, bool calls); ///< likewise
Expr tanh(Expr x);
Expr sigmoid(Expr x);
Expr erf(Expr x); ///< 4 ulp
Expr pow(Expr a, Expr b, bool calls);
Expr roundEven(Expr x); ///< still real
/// By bits, so of NaN, too: `x` without its sign; a magnitude with the sign of `x`.
Expr magnitude(const Expr &x);
Expr withSign(const Expr &magnitude, const Expr &x);
Expr toInt(Expr x); ///< towards zero; saturates outside of int32, 0 for NaN

// Numbers of two bytes as 16 bits (support/numbers/SmallFloats.h): no arithmetic is done with them.
Expr narrow(Expr x); ///< to bf16, to the nearest, halves to even; NaN stays NaN
/// Exact.
Expr widen(support::Storage storage, Expr bits, const CpuTarget &target);
Expr inBF16(Expr x, const CpuTarget &target); ///< narrowed and widened

} // namespace quern::codegen::math
#endif
