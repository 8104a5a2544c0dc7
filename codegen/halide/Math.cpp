// Takes: Halide expressions. Gives: the elementwise functions of the language as expressions without calls or branches.
// Why our own: Halide's tanh and erf are scalar calls into libm, and its fast exponential loses digits. The polynomials
// interpolate the functions at Chebyshev nodes of the interval named beside each.
#include "codegen/halide/Math.h"

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace quern::codegen::math {

// One by one: whole namespaces would make log, sqrt, max ... ambiguous.
using Halide::Bool, Halide::cast, Halide::ceil, Halide::floor, Halide::Float, Halide::reinterpret, Halide::select;
using Halide::Type, Halide::Internal::Call, Halide::Internal::FloatImm;

static Expr strict(Call::IntrinsicOp op, const Expr &a, const Expr &b, Type type) {
  return Call::make(type, op, {a, b}, Call::PureIntrinsic);
}
Expr add(Expr a, Expr b) {
  return strict(Call::strict_add, a, b, a.type());
}
Expr sub(Expr a, Expr b) {
  return strict(Call::strict_sub, a, b, a.type());
}
Expr mul(Expr a, Expr b) {
  return strict(Call::strict_mul, a, b, a.type());
}
Expr div(Expr a, Expr b) {
  return strict(Call::strict_div, a, b, a.type());
}
Expr max(Expr a, Expr b) {
  return strict(Call::strict_max, a, b, a.type());
}
Expr min(Expr a, Expr b) {
  return strict(Call::strict_min, a, b, a.type());
}
Expr less(Expr a, Expr b) {
  return strict(Call::strict_lt, a, b, Bool());
}
Expr lessEqual(Expr a, Expr b) {
  return strict(Call::strict_le, a, b, Bool());
}
Expr equal(Expr a, Expr b) {
  return strict(Call::strict_eq, a, b, Bool());
}

// Literals: to negate an infinity would be arithmetic that assumes there is none.
Expr infinity() {
  return FloatImm::make(Float(32), std::numeric_limits<float>::infinity());
}
Expr negativeInfinity() {
  return FloatImm::make(Float(32), -std::numeric_limits<float>::infinity());
}
// By its bits: a comparison with an infinity is folded to false wherever "no infinities" is assumed.
Expr isNegativeInfinity(Expr x) {
  return reinterpret<uint32_t>(x) == Expr(uint32_t(0xff800000u));
}

/// c[0] + c[1] x + ..., of finite values.
static Expr polynomial(const Expr &x, const std::vector<float> &c) {
  Expr sum = c.back();
  for (size_t i = c.size() - 1; i-- > 0;)
    sum = sum * x + c[i];
  return sum;
}

Expr choose(Expr condition, Expr a, Expr b) {
  return reinterpret<float>(select(condition, reinterpret<int32_t>(a), reinterpret<int32_t>(b)));
}

Expr chooseUnseen(Expr condition, Expr a, Expr b) {
  Expr mask = select(condition, -1, 0);
  return reinterpret<float>((reinterpret<int32_t>(a) & mask) | (reinterpret<int32_t>(b) & ~mask));
}

static Expr nanThrough(const Expr &x, const Expr &result) {
  return choose(equal(x, x), result, x);
}
static Expr clampStrict(const Expr &x, float low, float high) {
  return math::min(math::max(x, Expr(low)), Expr(high));
}

/// e^r for |r| <= ln(2) / 2.
static Expr exponentialNear0(const Expr &r) {
  return polynomial(r, {1.0f, 1.0f, 0.5f, 1.666640530e-01f, 4.166634014e-02f, 8.375968226e-03f, 1.394215984e-03f});
}
/// e^r - 1, likewise.
static Expr exponentialNear0Minus1(const Expr &r) {
  return r + r * r * polynomial(r, {0.5f, 1.666640530e-01f, 4.166634014e-02f, 8.375968226e-03f, 1.394215984e-03f});
}

/// The power of two that is nearest to e^x, for |x| < 2^21: its exponent as a float, and in the lowest bits of one, `more` above it.
/// Adding 1.5 * 2^23 rounds, so neither a rounding nor a conversion is needed.
struct Nearest {
  Expr number, bits;
};
static Nearest nearestPowerOf2(const Expr &x, int more) {
  constexpr float perLn2 = 1.44269504f;
  const Expr magic = 12582912.0f + float(more), shifted = x * perLn2 + magic;
  return {sub(shifted, magic), reinterpret<int32_t>(shifted)};
}

/// x - n ln 2, for n that is nearest to x / ln 2: in two parts, of which the first has few digits, so that n times it is exact.
static Expr behind(const Expr &x, const Expr &n) {
  return (x - n * 0.693359375f) - n * -2.12194440e-4f;
}

/// e^x for -104 <= x <= 89.
static Expr expFinite(const Expr &x) {
  const Expr n = nearestPowerOf2(x, 0).number;
  // 2^n in two factors: n reaches 128 and falls below -126, where one would not be a normal number.
  Expr k = cast<int32_t>(n), half = k >> 1;
  auto power = [](const Expr &e) { return reinterpret<float>((e + 127) << 23); };
  return mul(mul(exponentialNear0(behind(x, n)), power(half)), power(k - half));
}

/// e^x for -88 <= x <= 88; 0 where that is below 2^-126.5.
static Expr expWithin88(const Expr &x) {
  auto [n, bits] = nearestPowerOf2(x, 127); // the lowest bits are then 2^n as a float has it
  return mul(exponentialNear0(behind(x, n)), reinterpret<float>(bits << 23));
}

Expr exp(Expr x) {
  return nanThrough(x, expFinite(clampStrict(x, -104.0f, 89.0f)));
}

Expr expm1(Expr x) {
  // 2^n (e^r - 1) + (2^n - 1): where x is near 0, n is 0 and no digit is lost.
  Expr inside = clampStrict(x, -87.0f, 87.0f);
  auto [n, bits] = nearestPowerOf2(inside, 127);
  Expr scale = reinterpret<float>(bits << 23);
  Expr near = add(mul(scale, exponentialNear0Minus1(behind(inside, n))), sub(scale, Expr(1.0f)));
  return nanThrough(x, choose(less(87.0f, x), expFinite(clampStrict(x, -104.0f, 89.0f)), near));
}

Expr expOfDifference(Expr x) {
  return expWithin88(math::max(Expr(-88.0f), x)); // a NaN is not smaller, and goes through the products
}

Expr roundUpToLn2(Expr x) {
  constexpr float ln2 = std::numbers::ln2_v<float>;
  return mul(Halide::strict_float(ceil(mul(x, 1 / ln2))), ln2);
}

Expr log(Expr x) {
  Expr tiny = less(x, Expr(1.17549435e-38f)); // denormals are scaled up first
  Expr scaled = select(tiny, mul(x, Expr(16777216.0f)), x);
  Expr bits = reinterpret<int32_t>(scaled);
  // The mantissa in [1/sqrt 2, sqrt 2).
  Expr e = (bits - 0x3f3504f3) >> 23;
  Expr m = reinterpret<float>(bits - (e << 23));
  Expr n = cast<float>(e) - select(tiny, 24.0f, 0.0f);
  Expr f = m - 1.0f, z = f * f;
  Expr p = polynomial(f, {3.333333117e-01f, -2.499999703e-01f, 2.000071834e-01f, -1.666779759e-01f, 1.424895528e-01f,
                          -1.242573915e-01f, 1.168660215e-01f, -1.147985486e-01f, 6.968252549e-02f});
  Expr small = n * -2.12194440e-4f + (f * z * p - 0.5f * z);
  Expr result = add(add(f, small), n * 0.693359375f);
  Expr nan = FloatImm::make(Float(32), std::numeric_limits<float>::quiet_NaN());
  result = choose(lessEqual(infinity(), x), infinity(), result);
  result = choose(less(x, 0.0f), nan,
                  choose((reinterpret<uint32_t>(x) & Expr(0x7fffffffu)) == Expr(0u), negativeInfinity(), result));
  return nanThrough(x, result);
}

Expr log1p(Expr x) {
  Expr u = add(x, Expr(1.0f));
  // What rounding 1 + x lost, put back: log(u) - ((u - 1) - x) / u.
  Expr lost = div(sub(sub(u, Expr(1.0f)), x), u);
  Expr big = lessEqual(Expr(1e30f), x);
  // Named in full: with a number beside it, Halide's own `equal`, which compares trees, would be a better match.
  return choose(math::equal(u, 1.0f), x, sub(math::log(u), choose(big || math::equal(u, 0.0f), 0.0f, lost)));
}

Expr sqrt(Expr x) {
  return Halide::sqrt(x);
}

Expr withSign(const Expr &magnitude, const Expr &x) {
  return reinterpret<float>(reinterpret<uint32_t>(magnitude) | (reinterpret<uint32_t>(x) & Expr(0x80000000u)));
}
Expr magnitude(const Expr &x) {
  return reinterpret<float>(reinterpret<uint32_t>(x) & Expr(0x7fffffffu));
}
/// At most `high`, also of NaN. By the bits, which are in the same order; and Halide, which knows the bounds of a clamped
/// real, would spend seconds on those of a polynomial in it.
static Expr magnitudeUpTo(const Expr &x, float high) {
  Expr bits = reinterpret<uint32_t>(x) & Expr(0x7fffffffu);
  return reinterpret<float>(Halide::min(bits, Expr(std::bit_cast<uint32_t>(high))));
}

/// Halide 21 writes a double into SPIR-V and OpenCL with the digits of a float; its bits keep theirs.
static Expr wideConstant(double value) {
  return reinterpret<double>(Halide::Internal::UIntImm::make(Halide::UInt(64), std::bit_cast<uint64_t>(value)));
}

/// Of a double between -2^30 and 2^30, where one may also come out too large by 2^-22.
static Expr floorOf(const Expr &x, bool calls) {
  if (calls)
    return floor(x);
  return cast<double>(cast<int32_t>(x + wideConstant(1073741824.0)) - (1 << 30)); // towards zero: down, here
}

/// Sine of x + quarter * pi / 2. The reduction runs in double precision, as positions times frequencies grow large.
static Expr sineShifted(const Expr &x, int quarter, bool calls) {
  Expr wide = cast<double>(clampStrict(x, -1e9f, 1e9f));
  Expr n = floorOf(wide * wideConstant(0.63661977236758134308) + Expr(0.5), calls);
  Expr r = cast<float>((wide - n * wideConstant(1.5707963267948966)) - n * wideConstant(6.123233995736766e-17));
  Expr z = r * r; // |r| <= pi / 4
  Expr s = r + r * z * polynomial(z, {-1.666666666e-01f, 8.333331785e-03f, -1.984003887e-04f, 2.724378144e-06f});
  Expr c = 1.0f - 0.5f * z +
           z * z * polynomial(z, {4.166666666e-02f, -1.388888760e-03f, 2.480056037e-05f, -2.729582559e-07f});
  Expr q = (cast<int32_t>(n) + quarter) & 3;
  Expr value = select((q & 1) == 1, c, s);
  value = select((q & 2) == 2, -value, value);
  Expr nan = FloatImm::make(Float(32), std::numeric_limits<float>::quiet_NaN());
  return choose(less(magnitude(x), infinity()), value, nan);
}
Expr sine(Expr x, bool calls) {
  return sineShifted(x, 0, calls);
}
Expr cosine(Expr x, bool calls) {
  return sineShifted(x, 1, calls);
}

Expr tanh(Expr x) {
  Expr a = magnitudeUpTo(x, 10.0f), z = a * a;
  Expr near = a + a * z *
                      polynomial(z, {-3.333332843e-01f, 1.333271885e-01f, -5.384326318e-02f, 2.096132911e-02f,
                                     -6.045165098e-03f}); // a < 0.63
  Expr far = 1.0f - div(Expr(2.0f), expWithin88(a * 2.0f) + 1.0f);
  return nanThrough(x, withSign(select(a < 0.625f, near, far), x));
}

Expr sigmoid(Expr x) {
  Expr e = expWithin88(clampStrict(-x, -88.0f, 88.0f));
  return nanThrough(x, div(Expr(1.0f), add(e, Expr(1.0f))));
}

Expr erf(Expr x) {
  Expr a = magnitudeUpTo(x, 4.0f), z = a * a;
  Expr near = a * polynomial(z, {1.128379167e+00f, -3.761263847e-01f, 1.128378250e-01f, -2.686543073e-02f,
                                 5.221031807e-03f, -8.484080394e-04f, 1.126595895e-04f, -9.667044352e-06f}); // a < 1
  // The logarithm of 1 - erf(a) for 1 <= a <= 4.
  Expr tail =
      polynomial(a, {4.163292223e-04f, -1.130675144e+00f, -6.309530298e-01f, -1.110550174e-01f, 2.709952332e-02f,
                     -5.064946933e-03f, 6.858366868e-04f, -6.229835394e-05f, 3.321684661e-06f, -7.582682285e-08f});
  Expr far = 1.0f - expWithin88(tail);
  return nanThrough(x, withSign(select(a < 1.0f, near, far), x));
}

static Expr powerOf(const Expr &x, int n) {
  if (n == 1)
    return x;
  Expr half = powerOf(x, n / 2), square = mul(half, half);
  return n % 2 ? mul(square, x) : square;
}

/// c[0] + c[1] x + ... in double precision.
static Expr wideSeries(const Expr &x, const std::vector<double> &c) {
  Expr sum = wideConstant(c.back());
  for (size_t i = c.size() - 1; i-- > 0;)
    sum = sum * x + wideConstant(c[i]);
  return sum;
}

/// a to the b in double precision, for a language that has no functions of doubles: e^(b ln a), both by series.
static Expr wideSeriesPower(const Expr &a, const Expr &b) {
  Expr bits = reinterpret<int32_t>(a) & 0x7fffffff;
  Expr tiny = bits < 0x00800000; // a denormal is scaled up first
  Expr scaled = select(tiny, reinterpret<int32_t>(mul(magnitude(a), Expr(16777216.0f))), bits);
  // ln a = e ln 2 + 2 artanh((m - 1) / (m + 1)), m in [1/sqrt 2, sqrt 2).
  Expr e = (scaled - 0x3f3504f3) >> 23, m = cast<double>(reinterpret<float>(scaled - (e << 23)));
  Expr s = (m - Expr(1.0)) / (m + Expr(1.0));
  std::vector<double> odd, factorials = {1};
  for (int i = 0; i < 9; ++i)
    odd.push_back(2.0 / (2 * i + 1));
  for (int i = 1; i < 12; ++i)
    factorials.push_back(factorials.back() / i);
  Expr ln2 = wideConstant(0.69314718055994530942), perLn2 = wideConstant(1.4426950408889634074);
  Expr logarithm = cast<double>(e - select(tiny, 24, 0)) * ln2 + s * wideSeries(s * s, odd);
  // Beyond these the result is infinite or 0.
  Expr y = Halide::clamp(logarithm * cast<double>(clampStrict(b, -1e30f, 1e30f)), Expr(-110.0), Expr(95.0));
  Expr n = floorOf(y * perLn2 + Expr(0.5), false), k = cast<int32_t>(n), half = k >> 1;
  Expr p = cast<float>(wideSeries(y - n * ln2, factorials));
  auto power = [](const Expr &exponent) { return reinterpret<float>((exponent + 127) << 23); };
  Expr result = mul(mul(p, power(half)), power(k - half));
  Expr large = lessEqual(Expr(16777216.0f), magnitude(b)), whole = large || math::equal(floor(b), b);
  Expr isOdd = !large && whole && (cast<int32_t>(clampStrict(b, -16777216.0f, 16777216.0f)) & 1) == 1;
  // 0 and infinity have no logarithm; to an infinite power only 1 stays what it is.
  Expr rising = less(0.0f, b), nan = FloatImm::make(Float(32), std::numeric_limits<float>::quiet_NaN());
  result = choose(bits == 0, choose(rising, 0.0f, infinity()), result);
  result = choose(bits == 0x7f800000, choose(rising, infinity(), 0.0f), result);
  result = choose(reinterpret<int32_t>(a) < 0 && isOdd,
                  reinterpret<float>(reinterpret<uint32_t>(result) | Expr(0x80000000u)), result);
  result = choose(less(a, 0.0f) && bits != 0x7f800000 && !whole, nan, result);
  result = nanThrough(a, nanThrough(b, result));
  return choose(math::equal(b, 0.0f) || math::equal(a, 1.0f) || (math::equal(a, -1.0f) && large), 1.0f, result);
}

Expr pow(Expr a, Expr b, bool calls) {
  if (const FloatImm *exponent = b.as<FloatImm>()) {
    double e = exponent->value;
    if (e == 0.5)
      return math::sqrt(a);
    if (e == -0.5)
      return div(Expr(1.0f), math::sqrt(a));
    if (e == std::floor(e) && e >= 1 && e <= 16)
      return powerOf(a, static_cast<int>(e));
  }
  // In double precision: frequencies are powers whose error positions multiply.
  if (!calls)
    return wideSeriesPower(a, b);
  return cast<float>(Halide::pow(cast<double>(a), cast<double>(b)));
}

Expr roundEven(Expr x) {
  return Halide::round(x);
}

Expr toInt(Expr x) {
  Expr inside = clampStrict(x, -2147483648.0f, 2147483520.0f);
  return select(equal(x, x), cast<int32_t>(inside), 0);
}

static Expr bitsOf(uint32_t value) {
  return Halide::Internal::UIntImm::make(Halide::UInt(32), value);
}

Expr narrow(Expr x) {
  Expr bits = reinterpret<uint32_t>(x), upper = bits >> bitsOf(16);
  Expr nearest = (bits + bitsOf(0x7fff) + (upper & bitsOf(1))) >> bitsOf(16);
  return cast<uint16_t>(select((bits & bitsOf(0x7fffffff)) > bitsOf(0x7f800000), upper | bitsOf(0x40), nearest));
}

Expr inBF16(Expr x, const CpuTarget &target) {
  return widen(support::Storage::BF16, narrow(x), target);
}

Expr widen(support::Storage storage, Expr bits, const CpuTarget &target) {
  if (storage == support::Storage::BF16)
    return reinterpret<float>(cast<uint32_t>(bits) << bitsOf(16));
  if (widensHalves(target))
    return cast<float>(reinterpret<Halide::float16_t>(bits));
  Expr wide = cast<uint32_t>(bits), magnitude = wide & bitsOf(0x7fff), sign = (wide & bitsOf(0x8000)) << bitsOf(16);
  Expr exponents = select(magnitude < bitsOf(0x7c00), bitsOf(0x38000000), bitsOf(0x70000000));
  Expr normal = (magnitude << bitsOf(13)) + exponents;
  Expr small = reinterpret<uint32_t>(cast<float>(magnitude) * 0x1p-24f); // a device may take such an f32 for zero
  return reinterpret<float>(sign | select(magnitude < bitsOf(0x400), small, normal));
}

} // namespace quern::codegen::math
