// Takes: floats in LLVM IR. Gives: functions of them. Why our own: calls into libm are scalar, and exp is the price of
// every selective state space.
#include "codegen/llvm/VectorMath.h"

#include <limits>
#include <stdexcept>

using namespace llvm;

namespace quern::codegen {

Value *VectorMath::number(Value *like, double value) {
  return ConstantFP::get(like->getType(), value);
}
Type *VectorMath::ints(Value *like) {
  return like->getType()->getWithNewType(b.getInt32Ty());
}
Value *VectorMath::bits(Value *x) {
  return b.CreateBitCast(x, ints(x));
}
Value *VectorMath::floats(Value *bits, Value *like) {
  return b.CreateBitCast(bits, like->getType());
}
Value *VectorMath::fma(Value *x, Value *y, Value *z) {
  return b.CreateIntrinsic(x->getType(), Intrinsic::fmuladd, {x, y, z});
}
Value *VectorMath::polynomial(Value *x, std::initializer_list<float> coefficients) {
  Value *sum = nullptr;
  for (const float *c = coefficients.end(); c-- != coefficients.begin();)
    sum = sum ? fma(sum, x, number(x, *c)) : number(x, *c);
  return sum;
}
Value *VectorMath::intrinsic(Intrinsic::ID id, Value *x) {
  return b.CreateUnaryIntrinsic(id, x);
}
Value *VectorMath::max(Value *a, Value *c) {
  return b.CreateSelect(b.CreateFCmpOGT(a, c), a, c);
}
Value *VectorMath::min(Value *a, Value *c) {
  return b.CreateSelect(b.CreateFCmpOLT(a, c), a, c);
}
Value *VectorMath::nanThrough(Value *x, Value *result) {
  return b.CreateSelect(b.CreateFCmpORD(x, x), result, x);
}
Value *VectorMath::withSign(Value *magnitude, Value *x) {
  return b.CreateBinaryIntrinsic(Intrinsic::copysign, magnitude, x);
}

Value *VectorMath::exp(Value *x) {
  // Adding 1.5 * 2^23 rounds to an integer, which then stands in the lowest bits; shifted into the exponent of e^r it
  // multiplies by 2^n.
  constexpr double lowest = -87.0, highest = 88.72;
  Value *magic = number(x, 12582912.0);
  Value *inside = min(max(x, number(x, lowest)), number(x, highest));
  Value *shifted = fma(inside, number(x, 1.44269504), magic), *n = b.CreateFSub(shifted, magic);
  Value *r = fma(n, number(x, 2.12194440e-4), fma(n, number(x, -0.693359375), inside));
  Value *p = polynomial(r, {1.0f, 1.0f, 0.5f, 1.666640530e-01f, 4.166634014e-02f, 8.375968226e-03f, 1.394215984e-03f});
  Value *result = floats(b.CreateAdd(bits(p), b.CreateShl(bits(shifted), 23)), x);
  result = b.CreateSelect(b.CreateFCmpOLT(x, number(x, lowest)), number(x, 0), result);
  result = b.CreateSelect(b.CreateFCmpOGT(x, number(x, highest)), number(x, std::numeric_limits<double>::infinity()),
                          result);
  return nanThrough(x, result);
}

Value *VectorMath::expm1(Value *x) {
  // 2^n (e^r - 1) + (2^n - 1): where x is near 0, n is 0 and no digit is lost.
  constexpr double limit = 87.0;
  Value *inside = min(max(x, number(x, -limit)), number(x, limit));
  Value *n = intrinsic(Intrinsic::floor, fma(inside, number(x, 1.44269504), number(x, 0.5)));
  Value *r = fma(n, number(x, 2.12194440e-4), fma(n, number(x, -0.693359375), inside));
  Value *scale = floats(b.CreateShl(b.CreateAdd(b.CreateFPToSI(n, ints(x)), ConstantInt::get(ints(x), 127)), 23), x);
  Value *p = polynomial(r, {0.5f, 1.666640530e-01f, 4.166634014e-02f, 8.375968226e-03f, 1.394215984e-03f});
  Value *near = fma(scale, fma(b.CreateFMul(r, r), p, r), b.CreateFSub(scale, number(x, 1)));
  return nanThrough(x, b.CreateSelect(b.CreateFCmpOGT(x, number(x, limit)), exp(x), near));
}

Value *VectorMath::log(Value *x) {
  Value *tiny = b.CreateFCmpOLT(x, number(x, 1.17549435e-38)); // denormals are scaled up first
  Value *scaled = b.CreateSelect(tiny, b.CreateFMul(x, number(x, 16777216.0)), x);
  auto whole = [&](uint32_t value) { return ConstantInt::get(ints(x), value); };
  Value *e = b.CreateAShr(b.CreateSub(bits(scaled), whole(0x3f3504f3)), 23);
  Value *m = floats(b.CreateSub(bits(scaled), b.CreateShl(e, 23)), x); // in [1/sqrt 2, sqrt 2)
  Value *n = b.CreateFSub(b.CreateSIToFP(e, x->getType()), b.CreateSelect(tiny, number(x, 24), number(x, 0)));
  Value *f = b.CreateFSub(m, number(x, 1)), *z = b.CreateFMul(f, f);
  Value *p = polynomial(f, {3.333333117e-01f, -2.499999703e-01f, 2.000071834e-01f, -1.666779759e-01f, 1.424895528e-01f,
                            -1.242573915e-01f, 1.168660215e-01f, -1.147985486e-01f, 6.968252549e-02f});
  Value *small = fma(n, number(x, -2.12194440e-4),
                     b.CreateFSub(b.CreateFMul(b.CreateFMul(f, z), p), b.CreateFMul(number(x, 0.5), z)));
  Value *result = fma(n, number(x, 0.693359375), b.CreateFAdd(f, small));
  double infinity = std::numeric_limits<double>::infinity();
  result = b.CreateSelect(b.CreateFCmpOGE(x, number(x, infinity)), number(x, infinity), result);
  result = b.CreateSelect(b.CreateFCmpOEQ(x, number(x, 0)), number(x, -infinity), result);
  result =
      b.CreateSelect(b.CreateFCmpOLT(x, number(x, 0)), number(x, std::numeric_limits<double>::quiet_NaN()), result);
  return nanThrough(x, result);
}

Value *VectorMath::log1p(Value *x) {
  Value *one = number(x, 1), *u = b.CreateFAdd(x, one);
  // What rounding 1 + x lost, put back: log(u) - ((u - 1) - x) / u.
  Value *lost = b.CreateFDiv(b.CreateFSub(b.CreateFSub(u, one), x), u);
  Value *plain = b.CreateOr(b.CreateFCmpOGE(x, number(x, 1e30)), b.CreateFCmpOEQ(u, number(x, 0)));
  Value *result = b.CreateFSub(log(u), b.CreateSelect(plain, number(x, 0), lost));
  return b.CreateSelect(b.CreateFCmpOEQ(u, one), x, result);
}

Value *VectorMath::sigmoid(Value *x) {
  return b.CreateFDiv(number(x, 1), b.CreateFAdd(number(x, 1), exp(b.CreateFNeg(x))));
}

Value *VectorMath::tanh(Value *x) {
  Value *a = min(intrinsic(Intrinsic::fabs, x), number(x, 10)), *z = b.CreateFMul(a, a);
  Value *p =
      polynomial(z, {-3.333332843e-01f, 1.333271885e-01f, -5.384326318e-02f, 2.096132911e-02f, -6.045165098e-03f});
  Value *near = fma(b.CreateFMul(a, z), p, a); // a < 0.63
  Value *far = b.CreateFSub(number(x, 1),
                            b.CreateFDiv(number(x, 2), b.CreateFAdd(exp(b.CreateFMul(a, number(x, 2))), number(x, 1))));
  return nanThrough(x, withSign(b.CreateSelect(b.CreateFCmpOLT(a, number(x, 0.625)), near, far), x));
}

Value *VectorMath::erf(Value *x) {
  Value *a = min(intrinsic(Intrinsic::fabs, x), number(x, 4)), *z = b.CreateFMul(a, a);
  Value *near = b.CreateFMul(
      a, polynomial(z, {1.128379167e+00f, -3.761263847e-01f, 1.128378250e-01f, -2.686543073e-02f, 5.221031807e-03f,
                        -8.484080394e-04f, 1.126595895e-04f, -9.667044352e-06f})); // a < 1
  Value *tail =
      polynomial(a, {4.163292223e-04f, -1.130675144e+00f, -6.309530298e-01f, -1.110550174e-01f, 2.709952332e-02f,
                     -5.064946933e-03f, 6.858366868e-04f, -6.229835394e-05f, 3.321684661e-06f, -7.582682285e-08f});
  Value *far = b.CreateFSub(number(x, 1), exp(tail));
  return nanThrough(x, withSign(b.CreateSelect(b.CreateFCmpOLT(a, number(x, 1)), near, far), x));
}

Value *VectorMath::pow(Value *a, Value *exponent) {
  auto *constant = dyn_cast<ConstantFP>(exponent);
  if (auto *vector = dyn_cast<Constant>(exponent); vector && !constant && exponent->getType()->isVectorTy())
    constant = dyn_cast_or_null<ConstantFP>(vector->getSplatValue());
  double e = constant ? constant->getValueAPF().convertToDouble() : 0;
  if (constant && e == 0.5)
    return intrinsic(Intrinsic::sqrt, a);
  if (constant && e == static_cast<int>(e) && e >= 1 && e <= 16) {
    Value *product = a;
    for (int i = 1; i < static_cast<int>(e); ++i)
      product = b.CreateFMul(product, a);
    return product;
  }
  // In double precision, as everywhere: a call of libm for each lane.
  Type *wide = a->getType()->getWithNewType(b.getDoubleTy());
  Value *power = b.CreateBinaryIntrinsic(Intrinsic::pow, b.CreateFPExt(a, wide), b.CreateFPExt(exponent, wide));
  return b.CreateFPTrunc(power, a->getType());
}

Value *VectorMath::toInt(Value *x) {
  return b.CreateIntrinsic(Intrinsic::fptosi_sat, {ints(x), x->getType()}, {x});
}

Value *VectorMath::floorDivide(Value *a, Value *c) {
  Value *zero = Constant::getNullValue(c->getType()), *one = ConstantInt::get(c->getType(), 1);
  Value *safe = b.CreateSelect(b.CreateICmpEQ(c, zero), one, c);
  Value *quotient = b.CreateSDiv(a, safe), *rest = b.CreateSRem(a, safe);
  Value *below =
      b.CreateAnd(b.CreateICmpNE(rest, zero), b.CreateICmpNE(b.CreateICmpSLT(rest, zero), b.CreateICmpSLT(safe, zero)));
  return b.CreateSelect(b.CreateICmpEQ(c, zero), zero, b.CreateSub(quotient, b.CreateZExt(below, c->getType())));
}

Value *VectorMath::asReal(Value *x) {
  Type *type = x->getType()->getWithNewType(b.getFloatTy());
  if (x->getType()->isFPOrFPVectorTy())
    return x;
  return x->getType()->isIntOrIntVectorTy(1) ? b.CreateUIToFP(x, type) : b.CreateSIToFP(x, type);
}

Value *VectorMath::elementwise(const Node &node, const std::vector<Kind> &kinds, std::vector<Value *> v) {
  bool anyReal = false;
  for (size_t k = node.op == Op::Where ? 1 : 0; k < v.size(); ++k)
    anyReal |= kinds[k] == Kind::Real;
  bool arithmetic = node.op != Op::ToInt && node.op != Op::ToReal;
  if (arithmetic && (anyReal || node.kind() == Kind::Real) && node.kind() != Kind::Bool)
    for (size_t k = node.op == Op::Where ? 1 : 0; k < v.size(); ++k)
      v[k] = asReal(v[k]);
  if (node.op == Op::Compare && anyReal)
    for (Value *&x : v)
      x = asReal(x);
  bool real = v.back()->getType()->isFPOrFPVectorTy();
  switch (node.op) {
  case Op::Neg:
    return real ? b.CreateFNeg(v[0]) : b.CreateNeg(v[0]);
  case Op::Abs:
    return real ? intrinsic(Intrinsic::fabs, v[0])
                : b.CreateSelect(b.CreateICmpSLT(v[0], Constant::getNullValue(v[0]->getType())), b.CreateNeg(v[0]),
                                 v[0]);
  case Op::Exp:
    return exp(v[0]);
  case Op::Expm1:
    return expm1(v[0]);
  case Op::Log:
    return log(v[0]);
  case Op::Log1p:
    return log1p(v[0]);
  case Op::Sqrt:
    return intrinsic(Intrinsic::sqrt, v[0]);
  case Op::Sin:
    return intrinsic(Intrinsic::sin, v[0]);
  case Op::Cos:
    return intrinsic(Intrinsic::cos, v[0]);
  case Op::Tanh:
    return tanh(v[0]);
  case Op::Sigmoid:
    return sigmoid(v[0]);
  case Op::Erf:
    return erf(v[0]);
  case Op::Floor:
    return toInt(intrinsic(Intrinsic::floor, v[0]));
  case Op::Ceil:
    return toInt(intrinsic(Intrinsic::ceil, v[0]));
  case Op::Round:
    return toInt(intrinsic(Intrinsic::nearbyint, v[0]));
  case Op::ToInt:
    return real ? toInt(v[0]) : b.CreateZExt(v[0], v[0]->getType()->getWithNewType(b.getInt32Ty()));
  case Op::ToReal:
    return asReal(v[0]);
  case Op::Not:
    return b.CreateNot(v[0]);
  case Op::Add:
    return real ? b.CreateFAdd(v[0], v[1]) : b.CreateAdd(v[0], v[1]);
  case Op::Sub:
    return real ? b.CreateFSub(v[0], v[1]) : b.CreateSub(v[0], v[1]);
  case Op::Mul:
    return real ? b.CreateFMul(v[0], v[1]) : b.CreateMul(v[0], v[1]);
  case Op::Div:
    return b.CreateFDiv(v[0], v[1]);
  case Op::FloorDiv:
    return floorDivide(v[0], v[1]);
  case Op::Mod:
    return b.CreateSub(v[0], b.CreateMul(floorDivide(v[0], v[1]), v[1]));
  case Op::Pow:
    return pow(v[0], v[1]);
  case Op::Max:
    return real ? max(v[0], v[1]) : b.CreateBinaryIntrinsic(Intrinsic::smax, v[0], v[1]);
  case Op::Min:
    return real ? min(v[0], v[1]) : b.CreateBinaryIntrinsic(Intrinsic::smin, v[0], v[1]);
  case Op::And:
    return b.CreateAnd(v[0], v[1]);
  case Op::Or:
    return b.CreateOr(v[0], v[1]);
  case Op::Where:
    return b.CreateSelect(v[0], v[1], v[2]);
  case Op::Compare:
    break;
  default:
    throw std::logic_error("not an elementwise operation");
  }
  static const CmpInst::Predicate reals[] = {CmpInst::FCMP_OLT, CmpInst::FCMP_OLE, CmpInst::FCMP_OGT,
                                             CmpInst::FCMP_OGE, CmpInst::FCMP_OEQ, CmpInst::FCMP_UNE},
                                  ints[] = {CmpInst::ICMP_SLT, CmpInst::ICMP_SLE, CmpInst::ICMP_SGT,
                                            CmpInst::ICMP_SGE, CmpInst::ICMP_EQ,  CmpInst::ICMP_NE};
  int predicate = static_cast<int>(node.predicate);
  return real ? b.CreateFCmp(reals[predicate], v[0], v[1]) : b.CreateICmp(ints[predicate], v[0], v[1]);
}

} // namespace quern::codegen
