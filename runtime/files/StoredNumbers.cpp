// Takes: a stored tensor of any type. Gives: its elements as the numbers that programs compute with.
#include "runtime/Error.h"
#include "runtime/files/Safetensors.h"
#include "support/numbers/SmallFloats.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace quern::runtime {

namespace {

template <typename T> T load(const uint8_t *at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

[[noreturn]] void badType(const StoredTensor &tensor, const char *wanted) {
  throw UserError(
      format("a tensor of type %s in %s cannot be read as %s", typeName(tensor), tensor.file->name().c_str(), wanted));
}

} // namespace

void toFloat(const StoredTensor &tensor, int64_t first, int64_t count, float *result) {
  const uint8_t *from = tensor.data + uint64_t(first) * dtypeBytes(tensor.dtype);
  switch (tensor.dtype) {
  case Dtype::Coded:
    tensor.reader->read(first, count, result);
    return;
  case Dtype::F32:
    std::memcpy(result, from, size_t(count) * 4);
    return;
  case Dtype::F64:
    for (int64_t i = 0; i < count; ++i)
      result[i] = float(load<double>(from + i * 8));
    return;
  case Dtype::F16:
    for (int64_t i = 0; i < count; ++i)
      result[i] = support::halfToFloat(load<uint16_t>(from + i * 2));
    return;
  case Dtype::BF16:
    for (int64_t i = 0; i < count; ++i) {
      uint32_t bits = uint32_t(load<uint16_t>(from + i * 2)) << 16;
      std::memcpy(result + i, &bits, 4);
    }
    return;
  default:
    badType(tensor, "real numbers");
  }
}

void toLong(const StoredTensor &tensor, int64_t first, int64_t count, int64_t *result) {
  const uint8_t *from = tensor.data + uint64_t(first) * dtypeBytes(tensor.dtype);
  auto all = [&]<typename T>(T) {
    for (int64_t i = 0; i < count; ++i) {
      T value = load<T>(from + i * int64_t(sizeof(T)));
      if (!std::in_range<int64_t>(value))
        throw UserError(format("%llu in %s does not fit 64 bits with a sign", static_cast<unsigned long long>(value),
                               tensor.file->name().c_str()));
      result[i] = int64_t(value);
    }
  };
  switch (tensor.dtype) {
  case Dtype::I64:
    return all(int64_t());
  case Dtype::I32:
    return all(int32_t());
  case Dtype::I16:
    return all(int16_t());
  case Dtype::I8:
    return all(int8_t());
  case Dtype::U64:
    return all(uint64_t());
  case Dtype::U32:
    return all(uint32_t());
  case Dtype::U16:
    return all(uint16_t());
  case Dtype::U8:
  case Dtype::BOOL:
    return all(uint8_t());
  default:
    badType(tensor, "integers");
  }
}

std::vector<float> numbersOf(const StoredTensor &tensor) {
  std::vector<float> numbers(size_t(tensor.elements()));
  toFloat(tensor, 0, tensor.elements(), numbers.data());
  return numbers;
}

void toInt(const StoredTensor &tensor, int64_t first, int64_t count, int32_t *result) {
  if (tensor.dtype == Dtype::BOOL)
    badType(tensor, "integers");
  int64_t wide[256];
  for (int64_t i = 0; i < count; i += 256) {
    int64_t some = std::min<int64_t>(256, count - i);
    toLong(tensor, first + i, some, wide);
    for (int64_t k = 0; k < some; ++k) {
      if (wide[k] != int32_t(wide[k]))
        throw UserError(
            format("%lld in %s does not fit 32 bits", static_cast<long long>(wide[k]), tensor.file->name().c_str()));
      result[i + k] = int32_t(wide[k]);
    }
  }
}

void toDouble(const StoredTensor &tensor, int64_t first, int64_t count, double *result) {
  if (tensor.dtype == Dtype::F64) {
    std::memcpy(result, tensor.data + uint64_t(first) * 8, size_t(count) * 8);
    return;
  }
  float real[256];
  int64_t whole[256];
  for (int64_t i = 0; i < count; i += 256) {
    int64_t some = std::min<int64_t>(256, count - i);
    if (isReal(tensor.dtype)) {
      toFloat(tensor, first + i, some, real);
      std::copy(real, real + some, result + i);
    } else {
      toLong(tensor, first + i, some, whole);
      std::copy(whole, whole + some, result + i);
    }
  }
}

void toBool(const StoredTensor &tensor, int64_t first, int64_t count, uint8_t *result) {
  if (isReal(tensor.dtype) || tensor.dtype > Dtype::U8)
    badType(tensor, "booleans");
  size_t width = dtypeBytes(tensor.dtype);
  const uint8_t *from = tensor.data + uint64_t(first) * width;
  for (int64_t i = 0; i < count; ++i) {
    uint8_t any = 0;
    for (size_t k = 0; k < width; ++k)
      any |= from[size_t(i) * width + k];
    result[i] = any != 0;
  }
}

} // namespace quern::runtime
