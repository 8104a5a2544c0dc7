// Instructions by what they do to a thread, each a template of its type. Registers are 64 bits without a type; an instruction
// reads as many of them as its type has.
#ifndef QUERN_TESTS_GPU_PTX_OPERATIONS_H
#define QUERN_TESTS_GPU_PTX_OPERATIONS_H

#include "support/numbers/SmallFloats.h"
#include "tests/gpu/ptx/Steps.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <type_traits>

namespace quern::ptx::operations {

template <typename T> T get(const Thread &thread, const Instruction &at, size_t operand) {
  const Operand &from = at.operands[operand];
  uint64_t bits = from.reg < 0 ? from.bits : thread.registers[from.reg];
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
/// Signed integers fill the register, as an 8-bit one is in one of 16 bits.
template <typename T> void put(Thread &thread, const Instruction &at, T value, size_t operand = 0) {
  uint64_t bits = 0;
  if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
    bits = uint64_t(int64_t(value));
  else
    std::memcpy(&bits, &value, sizeof value);
  thread.registers[at.operands[operand].reg] = bits;
}
inline bool predicate(const Thread &thread, const Instruction &at, size_t operand) {
  return get<uint64_t>(thread, at, operand) & 1;
}

template <typename T, T (*f)(T)> void one(Thread &t, const Instruction &at) {
  put(t, at, f(get<T>(t, at, 1)));
}
template <typename T, T (*f)(T, T)> void two(Thread &t, const Instruction &at) {
  put(t, at, f(get<T>(t, at, 1), get<T>(t, at, 2)));
}
template <typename T, T (*f)(T, T, T)> void three(Thread &t, const Instruction &at) {
  put(t, at, f(get<T>(t, at, 1), get<T>(t, at, 2), get<T>(t, at, 3)));
}

// Integers wrap around. A type of twice the bits holds products whole.
template <typename T>
using Wide =
    std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
                       std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                                          std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;
template <typename T> using Unsigned = std::make_unsigned_t<T>;

template <typename T> T add(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return T(Unsigned<T>(a) + Unsigned<T>(b));
  else
    return a + b;
}
template <typename T> T sub(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return T(Unsigned<T>(a) - Unsigned<T>(b));
  else
    return a - b;
}
template <typename T> T mulLow(T a, T b) {
  return T(Wide<T>(a) * Wide<T>(b));
}
template <typename T> T mulHigh(T a, T b) {
  return T((Wide<T>(a) * Wide<T>(b)) >> (8 * sizeof(T)));
}
template <typename T> T mulReal(T a, T b) {
  return a * b;
}
template <typename T> T madLow(T a, T b, T c) {
  return add<T>(mulLow<T>(a, b), c);
}
template <typename T> T fma3(T a, T b, T c) {
  return std::fma(a, b, c);
}
template <typename T> T divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0)
      throw std::runtime_error("divides by zero");
    if (std::is_signed_v<T> && b == T(-1))
      return sub<T>(0, a);
  }
  return a / b;
}
template <typename T> T remainder(T a, T b) {
  if (b == 0)
    throw std::runtime_error("divides by zero");
  return std::is_signed_v<T> && b == T(-1) ? 0 : a % b;
}
template <typename T> T negate(T a) {
  if constexpr (std::is_integral_v<T>)
    return sub<T>(0, a);
  else
    return -a;
}
template <typename T> T absolute(T a) {
  if constexpr (std::is_integral_v<T>)
    return a < 0 ? negate<T>(a) : a;
  else
    return std::fabs(a);
}
/// Of reals the one that is a number, as the ISA says.
template <typename T> T least(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return a < b ? a : b;
  else
    return std::isnan(a) ? b : std::isnan(b) ? a : a < b || (a == b && std::signbit(a)) ? a : b;
}
template <typename T> T most(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return a > b ? a : b;
  else
    return std::isnan(a) ? b : std::isnan(b) ? a : a > b || (a == b && !std::signbit(a)) ? a : b;
}
template <typename T> T both(T a, T b) {
  return a & b;
}
template <typename T> T either(T a, T b) {
  return a | b;
}
template <typename T> T differ(T a, T b) {
  return a ^ b;
}
template <typename T> T invert(T a) {
  return ~a;
}
template <typename T> T root(T a) {
  return std::sqrt(a);
}
template <typename T> T inverse(T a) {
  return T(1) / a;
}
template <typename T> T powerOfTwo(T a) {
  return std::exp2(a);
}
template <typename T> T ofTwo(T a) {
  return std::log2(a);
}

template <typename T>
  requires(sizeof(T) <= 4)
void mulWide(Thread &t, const Instruction &at) {
  put(t, at, Wide<T>(Wide<T>(get<T>(t, at, 1)) * get<T>(t, at, 2)));
}
template <typename T>
  requires(sizeof(T) <= 4)
void madWide(Thread &t, const Instruction &at) {
  put(t, at, add<Wide<T>>(Wide<T>(get<T>(t, at, 1)) * get<T>(t, at, 2), get<Wide<T>>(t, at, 3)));
}
/// Counts beyond the width give what is left of all bits.
template <typename T> void shiftLeft(Thread &t, const Instruction &at) {
  uint32_t by = get<uint32_t>(t, at, 2);
  put(t, at, by >= 8 * sizeof(T) ? T(0) : T(get<T>(t, at, 1) << by));
}
template <typename T> void shiftRight(Thread &t, const Instruction &at) {
  uint32_t by = get<uint32_t>(t, at, 2), last = 8 * sizeof(T) - 1;
  T value = get<T>(t, at, 1);
  put(t, at, by <= last ? T(value >> by) : std::is_signed_v<T> ? T(value >> last) : T(0));
}
/// shf: both words as one, shifted, modulo 32; the upper (left) or lower (right) word of it.
template <bool left> void funnel(Thread &t, const Instruction &at) {
  uint64_t words = uint64_t(get<uint32_t>(t, at, 2)) << 32 | get<uint32_t>(t, at, 1);
  uint32_t by = get<uint32_t>(t, at, 3) & 31;
  put(t, at, left ? uint32_t((words << by) >> 32) : uint32_t(words >> by));
}
template <typename T> void extract(Thread &t, const Instruction &at) {
  T value = get<T>(t, at, 1);
  uint32_t from = get<uint32_t>(t, at, 2) & 255, many = get<uint32_t>(t, at, 3) & 255, bits = 8 * sizeof(T);
  // What lies beyond the word is 0; beyond those that are taken is the last one's sign.
  uint64_t taken = many < 64 ? (uint64_t(1) << many) - 1 : ~uint64_t(0),
           got = (from < bits ? uint64_t(Unsigned<T>(value)) >> from : 0) & taken;
  bool sign = std::is_signed_v<T> && many && ((value >> std::min(from + many - 1, bits - 1)) & 1);
  put(t, at, T(sign ? got | ~taken : got));
}
/// prmt: each byte of the result picks one of the eight of two words, or that one's sign.
inline void permute(Thread &t, const Instruction &at) {
  uint64_t words = uint64_t(get<uint32_t>(t, at, 2)) << 32 | get<uint32_t>(t, at, 1);
  uint32_t picks = get<uint32_t>(t, at, 3), got = 0;
  for (int i = 0; i < 4; ++i) {
    uint32_t pick = (picks >> (4 * i)) & 15, byte = uint32_t(words >> (8 * (pick & 7))) & 255;
    got |= (pick & 8 ? (byte & 128 ? 255u : 0u) : byte) << (8 * i);
  }
  put(t, at, got);
}

template <typename T> void copy(Thread &t, const Instruction &at) {
  put(t, at, get<T>(t, at, 1));
}
/// mov.b64 {low, high}, x and x, {low, high}; T: the halves' type.
template <typename T> void split(Thread &t, const Instruction &at) {
  uint64_t value = get<uint64_t>(t, at, 2);
  put(t, at, T(value), 0);
  put(t, at, T(value >> 8 * sizeof(T)), 1);
}
template <typename T> void join(Thread &t, const Instruction &at) {
  put(t, at, Wide<T>(Wide<T>(get<T>(t, at, 2)) << 8 * sizeof(T) | get<T>(t, at, 1)));
}
/// Numbers of two bytes.
inline void roundToBF16(Thread &t, const Instruction &at) {
  put(t, at, support::floatToBF16(get<float>(t, at, 1)));
}
inline void roundPairToBF16(Thread &t, const Instruction &at) { // the first operand becomes the upper half
  put(t, at, uint32_t(support::floatToBF16(get<float>(t, at, 1))) << 16 | support::floatToBF16(get<float>(t, at, 2)));
}
inline void widenHalf(Thread &t, const Instruction &at) {
  put(t, at, support::halfToFloat(get<uint16_t>(t, at, 1)));
}
template <typename T> void withSign(Thread &t, const Instruction &at) { // the first operand's
  put(t, at, std::copysign(get<T>(t, at, 2), get<T>(t, at, 1)));
}
template <typename T> void choose(Thread &t, const Instruction &at) {
  put(t, at, predicate(t, at, 3) ? get<T>(t, at, 1) : get<T>(t, at, 2));
}
template <int which> void ofPredicates(Thread &t, const Instruction &at) {
  bool a = predicate(t, at, 1), b = which == 3 ? false : predicate(t, at, 2);
  put(t, at, uint64_t(which == 0 ? a && b : which == 1 ? a || b : which == 2 ? a != b : !a));
}

enum class Compare { Eq, Ne, Lt, Le, Gt, Ge, Num, Nan };
template <typename T, Compare how, bool unordered> void compare(Thread &t, const Instruction &at) {
  T a = get<T>(t, at, 1), b = get<T>(t, at, 2);
  bool apart = a != a || b != b, holds = false;
  switch (how) {
  case Compare::Eq:
    holds = a == b;
    break;
  case Compare::Ne:
    holds = a != b && !apart;
    break;
  case Compare::Lt:
    holds = a < b;
    break;
  case Compare::Le:
    holds = a <= b;
    break;
  case Compare::Gt:
    holds = a > b;
    break;
  case Compare::Ge:
    holds = a >= b;
    break;
  case Compare::Num:
    holds = !apart;
    break;
  case Compare::Nan:
    holds = apart;
    break;
  }
  put(t, at, uint64_t(holds || (unordered && apart)));
}

// Conversions. Of reals to integers: rounded, then held within the type; no number is 0.
enum class Round { None, Nearest, Zero, Down, Up };
template <typename T> T rounded(T x, Round how) {
  switch (how) {
  case Round::Nearest:
    return std::nearbyint(x);
  case Round::Zero:
    return std::trunc(x);
  case Round::Down:
    return std::floor(x);
  case Round::Up:
    return std::ceil(x);
  default:
    return x;
  }
}
template <typename To, typename From, Round how> void convert(Thread &t, const Instruction &at) {
  From x = get<From>(t, at, 1);
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    x = rounded(x, how);
    if (x != x)
      put(t, at, To(0));
    else if (double(x) >= std::ldexp(1.0, std::numeric_limits<To>::digits))
      put(t, at, std::numeric_limits<To>::max());
    else if (double(x) <= double(std::numeric_limits<To>::min()))
      put(t, at, std::numeric_limits<To>::min());
    else
      put(t, at, To(x));
  } else if constexpr (std::is_floating_point_v<From> && std::is_same_v<From, To>) {
    put(t, at, rounded(x, how));
  } else {
    put(t, at, To(x));
  }
}

enum class Space { Any, Global, Local, Shared, Table, Parameter };
template <Space space> uint8_t *placeOf(Thread &t, const Operand &where, size_t bytes) {
  if (space == Space::Parameter)
    return t.parameters + where.bits;
  uint64_t address = (where.reg < 0 ? 0 : t.registers[where.reg]) + where.bits;
  if (address % bytes)
    throw std::runtime_error("reads or writes at an address that is not aligned to its size");
  auto within = [&](uint64_t base, const uint8_t *begin, size_t size) {
    if (address - base + bytes > size)
      throw std::runtime_error("leaves its own memory");
    return const_cast<uint8_t *>(begin) + (address - base);
  };
  switch (address >> 60) {
  case 0:
    if (space == Space::Any || space == Space::Global)
      return t.memory->at(address, bytes);
    break;
  case 1:
    if (space == Space::Any || space == Space::Local)
      return within(localBase, t.local.data(), t.local.size());
    break;
  case 2:
    if (space == Space::Any || space == Space::Shared)
      return within(sharedBase, t.shared->data(), t.shared->size());
    break;
  case 3:
    if (space == Space::Any || space == Space::Global || space == Space::Table)
      return within(tableBase, t.module->constants.data(), t.module->constants.size());
    break;
  }
  throw std::runtime_error("has an address of another space");
}
template <typename T, Space space, int many> void load(Thread &t, const Instruction &at) {
  const uint8_t *from = placeOf<space>(t, at.operands.back(), sizeof(T) * many);
  for (int i = 0; i < many; ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    put(t, at, value, i);
  }
}
template <typename T, Space space, int many> void store(Thread &t, const Instruction &at) {
  uint8_t *to = placeOf<space>(t, at.operands.front(), sizeof(T) * many);
  for (int i = 0; i < many; ++i) {
    T value = get<T>(t, at, 1 + i);
    std::memcpy(to + i * sizeof(T), &value, sizeof(T));
  }
}
inline void prefetch(Thread &t, const Instruction &at) {
  t.memory->askedFor(placeOf<Space::Global>(t, at.operands.front(), 1));
}
/// Adds one; from the limit on it begins at 0. Gives what was there.
inline void countUp(Thread &t, const Instruction &at) {
  uint8_t *place = placeOf<Space::Global>(t, at.operands[1], sizeof(uint32_t));
  uint32_t was;
  std::memcpy(&was, place, sizeof was);
  uint32_t becomes = was + get<uint32_t>(t, at, 2);
  std::memcpy(place, &becomes, sizeof becomes);
  put(t, at, was, 0);
}
inline void nothing(Thread &, const Instruction &) {}

} // namespace quern::ptx::operations
#endif
