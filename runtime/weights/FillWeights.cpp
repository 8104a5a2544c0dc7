// Takes: tensors of a checkpoint, or a seed. Gives: a part of one as a kernel reads it: packed in
// [ceil(outer / tile)][inner][tile] order, in another type, or both.
#include "runtime/weights/FillWeights.h"

#include "runtime/weights/PackCodes.h"
#include "support/numbers/SmallFloats.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <xmmintrin.h>

namespace quern::runtime {

namespace {

uint64_t mix(uint64_t x) { // splitmix64's finaliser (Steele, Lea and Flood 2014)
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

} // namespace

float randomElement(const ParameterInfo &parameter, uint64_t seed, uint64_t number, uint64_t element) {
  if (parameter.init == Init::Zeros)
    return 0;
  if (parameter.init == Init::Ones)
    return 1;
  uint64_t bits = mix(mix(seed * 0x9e3779b97f4a7c15ull + number) + element * 0x9e3779b97f4a7c15ull);
  float u = (float(bits >> 40) + 0.5f) * 0x1p-24f, v = float(bits & 0xffffff) * 0x1p-24f;
  if (parameter.init == Init::Uniform)
    return float(parameter.initValue) * (2 * u - 1);
  return float(parameter.initValue) * std::sqrt(-2 * std::log(u)) * std::cos(6.2831853f * v); // Box and Muller 1958
}

namespace {

// Numbers of two bytes, distinguished by their types.
struct BFloat {
  uint16_t bits;
};
struct Half {
  uint16_t bits;
};
void put(float &to, float value) {
  to = value;
}
void put(BFloat &to, float value) {
  to.bits = support::floatToBF16(value);
}
void put(Half &to, float value) {
  to.bits = support::floatToHalf(value);
}
/// Calls `code` with a number of the type that holds `storage`.
template <typename Code> void inNumbersOf(Storage storage, Code code) {
  if (storage == Storage::BF16)
    code(BFloat());
  else if (storage == Storage::F16)
    code(Half());
  else
    code(float());
}

/// What has no tensor: numbers by a seed.
class RandomReader : public TensorReader {
public:
  RandomReader(const ParameterInfo &parameter, uint64_t seed, uint64_t number)
      : parameter(parameter), seed(seed), number(number) {}
  const char *type() const override { return "F32"; }
  void read(int64_t first, int64_t count, float *to) const override {
    for (int64_t i = 0; i < count; ++i)
      to[i] = randomElement(parameter, seed, number, uint64_t(first + i));
  }

private:
  const ParameterInfo &parameter;
  uint64_t seed, number;
};

class PlainReader : public TensorReader {
public:
  explicit PlainReader(const StoredTensor &tensor) : tensor(tensor) {}
  const char *type() const override { return typeName(tensor); }
  void read(int64_t first, int64_t count, float *to) const override { toFloat(tensor, first, count, to); }

private:
  const StoredTensor &tensor;
};

constexpr int64_t innerBlock =
    64; // inner positions at a time: what is written stays in the first cache while rows are read along

/// Numbers of two bytes that kernels read as they are stored.
bool moveHalves(const FillJob &job, const StoredTensor &source) {
  const Storage storage = storageOf(job.layout);
  if (!(source.dtype == Dtype::BF16 && storage == Storage::BF16) &&
      !(source.dtype == Dtype::F16 && storage == Storage::F16))
    return false;
  const auto *packed = std::get_if<PackedLayout>(&job.layout);
  if (!packed) {
    std::memcpy(job.to, source.data + job.first * 2, size_t(job.count) * 2);
    return true;
  }
  const PackedLayout &l = *packed;
  auto *to = static_cast<uint16_t *>(job.to);
  for (int64_t tile = 0; tile < job.count; ++tile, to += l.inner * l.tile) {
    const int64_t outer = (job.first + tile) * l.tile, rows = std::min(l.tile, l.outer - outer);
    for (int64_t i0 = 0; i0 < l.inner; i0 += innerBlock) {
      const int64_t i1 = std::min(i0 + innerBlock, l.inner);
      for (int64_t r = 0; r < rows; ++r) {
        const uint8_t *row = source.data + (l.offset + (outer + r) * l.outerStride) * 2;
        for (int64_t i = i0; i < i1; ++i)
          std::memcpy(to + l.placeOf(r, i), row + i * l.innerStride * 2, 2);
      }
    } // rows beyond the last stay zero, as the memory came
  }
  return true;
}

/// Tensors of f32, which training packs after every step: rows copied whole, or transposed four by four.
bool packFloats(const FillJob &job, const float *from) {
  const auto *packed = std::get_if<PackedLayout>(&job.layout);
  if (!packed || packed->storage != Storage::F32 || (packed->outerStride != 1 && packed->innerStride != 1))
    return false;
  const PackedLayout &l = *packed;
  float *to = static_cast<float *>(job.to);
  for (int64_t tile = 0; tile < job.count; ++tile, to += l.inner * l.tile) {
    int64_t outer = (job.first + tile) * l.tile, rows = std::min(l.tile, l.outer - outer);
    const float *source = from + l.offset + outer * l.outerStride;
    if (l.outerStride == 1) {
      for (int64_t i = 0; i < l.inner; ++i)
        std::memcpy(to + i * l.tile, source + i * l.innerStride, size_t(rows) * 4);
      continue;
    }
    for (int64_t i0 = 0; i0 < l.inner; i0 += innerBlock) {
      int64_t i1 = std::min(i0 + innerBlock, l.inner), r = 0;
      for (; r + 4 <= rows; r += 4) {
        const float *row = source + r * l.outerStride;
        int64_t i = i0;
        for (; i + 4 <= i1; i += 4) {
          __m128 a = _mm_loadu_ps(row + i), b = _mm_loadu_ps(row + l.outerStride + i),
                 c = _mm_loadu_ps(row + 2 * l.outerStride + i), d = _mm_loadu_ps(row + 3 * l.outerStride + i);
          _MM_TRANSPOSE4_PS(a, b, c, d);
          float *at = to + i * l.tile + r;
          _mm_storeu_ps(at, a);
          _mm_storeu_ps(at + l.tile, b);
          _mm_storeu_ps(at + 2 * l.tile, c);
          _mm_storeu_ps(at + 3 * l.tile, d);
        }
        for (; i < i1; ++i)
          for (int64_t k = 0; k < 4; ++k)
            to[i * l.tile + r + k] = row[k * l.outerStride + i];
      }
      for (; r < rows; ++r)
        for (int64_t i = i0; i < i1; ++i)
          to[i * l.tile + r] = source[r * l.outerStride + i];
    }
  }
  return true;
}

constexpr int64_t stripLength = 256; // the longest block: each is decoded once

template <typename T> void packNumbers(const FillJob &job, const PackedLayout &l, const TensorReader &reader) {
  float strip[stripLength];
  T *to = static_cast<T *>(job.to);
  for (int64_t tile = 0; tile < job.count; ++tile, to += l.inner * l.tile) {
    const int64_t outer = (job.first + tile) * l.tile, rows = std::min(l.tile, l.outer - outer);
    const int64_t start = l.offset + outer * l.outerStride;
    if (l.outerStride == 1) {
      for (int64_t i = 0; i < l.inner; ++i)
        for (int64_t r0 = 0; r0 < rows; r0 += stripLength) {
          const int64_t count = std::min(stripLength, rows - r0);
          reader.read(start + i * l.innerStride + r0, count, strip);
          for (int64_t r = 0; r < count; ++r)
            put(to[l.placeOf(r0 + r, i)], strip[r]);
        }
      continue;
    }
    for (int64_t i0 = 0; i0 < l.inner; i0 += stripLength) {
      const int64_t count = std::min(stripLength, l.inner - i0);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t from = start + r * l.outerStride + i0 * l.innerStride;
        if (l.innerStride == 1)
          reader.read(from, count, strip);
        else
          for (int64_t i = 0; i < count; ++i)
            reader.read(from + i * l.innerStride, 1, strip + i);
        for (int64_t i = 0; i < count; ++i)
          put(to[l.placeOf(r, i0 + i)], strip[i]);
      }
    }
  }
}

void packRead(const FillJob &job, PackedLayout l, const TensorReader &given, const std::vector<int64_t> &shape) {
  const TensorReader *reader = &given;
  if (given.transposed() && shape.size() >= 2 &&
      std::minmax(l.outerStride, l.innerStride) == std::minmax(int64_t(1), shape.back())) {
    reader = given.transposed();
    const int64_t rows = shape[shape.size() - 2], columns = shape.back(), within = l.offset % (rows * columns);
    l.offset += within % columns * rows + within / columns - within;
    l.outerStride = l.outerStride == 1 ? rows : 1;
    l.innerStride = l.innerStride == 1 ? rows : 1;
  }
  if (bitsOfCode(l.storage))
    return packCodes(
        l, job.first, job.count,
        [&](int64_t at, int64_t length, float *numbers) {
          for (const char *format : blockNamesOf(l.storage))
            if (const uint8_t *block = reader->block(format, at, l.innerStride, length,
                                                     reinterpret_cast<uint8_t *>(numbers))) // as long as a block
              return FoundBlock{block, format};
          const bool row = l.innerStride == 1;
          for (int64_t i = 0; i < length; i += row ? length : 1)
            reader->read(at + i * l.innerStride, row ? length : 1, numbers + i);
          return FoundBlock();
        },
        static_cast<uint8_t *>(job.to));
  inNumbersOf(l.storage, [&]<typename T>(T) { packNumbers<T>(job, l, *reader); });
}

void fillRead(const FillJob &job, const TensorReader &reader, const std::vector<int64_t> &shape) {
  float strip[stripLength];
  if (const auto *packed = std::get_if<PackedLayout>(&job.layout))
    return packRead(job, *packed, reader, shape);
  if (std::holds_alternative<DenseLayout>(job.layout))
    return reader.read(job.first, job.count, static_cast<float *>(job.to));
  inNumbersOf(storageOf(job.layout), [&]<typename T>(T) {
    T *to = static_cast<T *>(job.to);
    for (int64_t i = 0; i < job.count; ++i) {
      if (i % stripLength == 0)
        reader.read(job.first + i, std::min(stripLength, job.count - i), strip);
      put(to[i], strip[i % stripLength]);
    }
  });
}

} // namespace

void fillRandom(const FillJob &job, const ParameterInfo &parameter, uint64_t seed, uint64_t number) {
  fillRead(job, RandomReader(parameter, seed, number), parameter.shape);
}

void fillWeights(const FillJob &job, const StoredTensor &source) {
  if (source.reader)
    return fillRead(job, *source.reader, source.shape);
  const bool aligned = uintptr_t(source.data) % 4 == 0;
  if (source.dtype == Dtype::F32 && aligned && packFloats(job, reinterpret_cast<const float *>(source.data)))
    return;
  if (!moveHalves(job, source))
    fillRead(job, PlainReader(source), source.shape);
}

} // namespace quern::runtime
