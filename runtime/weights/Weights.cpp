// Takes: matched parameters (or a seed). Gives: the pointers that kernels get, packed in parallel where they want it.
//
// A dense f32 tensor (or a bf16 one that kernels want so) is used where it is mapped: nothing is copied, nothing is
// read before a kernel asks. What kernels want packed is written once, in [ceil(outer / tile)][inner][tile] order, so
// that a contraction reads it end to end; both orders of storage ([out, in] and GPT-2's [in, out]) arrive through the
// strides. Equal slots (a tied head) share one copy. Coded tensors are decoded in strips of some 256 numbers while they
// are laid out: no f32 copy of a whole one ever exists beside it.
#include "runtime/weights/Weights.h"

#include "runtime/Error.h"
#include "runtime/machine/Terminal.h"
#include "runtime/machine/ThreadPool.h"
#include "runtime/weights/PackCodes.h"
#include "support/numbers/SmallFloats.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <tuple>
#include <xmmintrin.h>

namespace quern::runtime {

namespace {

uint64_t mix(uint64_t x) { // splitmix64's finaliser (Steele, Lea and Flood 2014)
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

constexpr size_t alignment = 64;
size_t aligned(size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
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

/// Plans where every slot's iteration goes, then fills in parallel.
class Weights::Packer {
public:
  Packer(Weights &weights, const Description &description, std::vector<const StoredTensor *> sources, uint64_t seed)
      : weights(weights), description(description), sources(std::move(sources)), seed(seed) {}
  Packer(Weights &weights, const Description &description, const TensorSource &packed)
      : weights(weights), description(description), packed(&packed), seed(0) {}

  void run() {
    plan();
    if (needed)
      requireMemory(needed, "the model's weights");
    weights.memory.reset(needed);
    for (size_t slot = 0; slot < description.slots.size(); ++slot) {
      std::vector<const void *> pointers;
      for (const Place &place : places[slot])
        pointers.push_back(place.mapped ? place.mapped : weights.memory.data() + place.offset);
      weights.iterationPointers.push_back(std::move(pointers));
    }
    for (const std::vector<const void *> &pointers : weights.iterationPointers)
      weights.slotPointers.push_back(pointers.data());
    for (size_t i = 0; i < pieces.size(); ++i)
      weights.laid[i].data = pieces[i].mapped ? pieces[i].mapped : weights.memory.data() + pieces[i].offset;
    if (jobs.empty())
      return;
    Progress progress("preparing weights", double(needed));
    ThreadPool::instance().forEach(int(jobs.size()), [&](int i) {
      fill(jobs[size_t(i)]);
      progress.add(double(jobs[size_t(i)].count * jobs[size_t(i)].bytesEach));
    });
    for (int parameter : copied)
      if (const StoredTensor *tensor = sources[size_t(parameter)]; tensor && tensor->file)
        tensor->file->release(tensor->data, tensor->bytes);
  }

  void again() {
    ThreadPool::instance().forEach(int(jobs.size()), [&](int i) {
      if (!isFixed({jobs[size_t(i)].parameter}))
        fill(jobs[size_t(i)]);
    });
  }

private:
  struct Place {
    const void *mapped;
    size_t offset;
  };
  struct Job { // elements (dense) or tiles (packed) [first, first + count) of one parameter
    int parameter;
    const WeightLayout *layout;
    size_t offset;
    int64_t first, count, bytesEach;
  };
  using Key = std::pair<std::vector<int>, std::vector<WeightLayout>>;

  Weights &weights;
  const Description &description;
  std::vector<const StoredTensor *> sources; // empty: random
  const TensorSource *packed = nullptr;      // where all is already
  uint64_t seed;
  std::vector<std::vector<Place>> places;
  std::vector<Place> pieces; // of weights.laid
  std::vector<Job> jobs;
  std::vector<int> copied;
  size_t needed = 0;

  void plan() {
    std::map<Key, Place> made;
    if (sources.empty())
      sources.resize(description.parameters.size(), nullptr);
    for (const SlotInfo &slot : description.slots) {
      std::vector<Place> iterations;
      for (const std::vector<int> &parameters : slot.iterations) {
        Key key{parameters, slot.layouts};
        auto found = made.find(key);
        if (found == made.end()) {
          found = made.emplace(key, place(parameters, slot)).first;
          pieces.push_back(found->second);
        }
        iterations.push_back(found->second);
      }
      places.push_back(std::move(iterations));
    }
  }

  bool isFixed(const std::vector<int> &parameters) const {
    return !weights.fixed.empty() &&
           std::all_of(parameters.begin(), parameters.end(), [&](int i) { return weights.fixed[size_t(i)]; });
  }

  static Dtype dtypeOf(Storage storage) {
    return storage == Storage::BF16 ? Dtype::BF16 : storage == Storage::F16 ? Dtype::F16 : Dtype::F32;
  }

  /// Where these tensors follow one another in the numbers that a kernel wants; or null.
  const void *lyingInPlace(const std::vector<int> &parameters, Storage storage) {
    const uint8_t *first = nullptr, *end = nullptr;
    for (int parameter : parameters) {
      size_t i = size_t(parameter), element = size_t(support::bytesOf(storage));
      const uint8_t *data = nullptr;
      if (storage == Storage::BF16 && !weights.narrow.empty() && weights.narrow[i])
        data = reinterpret_cast<const uint8_t *>(weights.narrow[i]);
      else if (sources[i] && sources[i]->dtype == dtypeOf(storage))
        data = sources[i]->data;
      if (!data || uintptr_t(data) % element || (end && data != end))
        return nullptr;
      first = first ? first : data;
      end = data + size_t(description.parameters[i].elements()) * element;
    }
    return first;
  }

  Place place(const std::vector<int> &parameters, const SlotInfo &slot) {
    auto packedOf = [&](size_t i) { return std::get_if<PackedLayout>(&slot.layout(i)); };
    const Storage storage = storageOf(slot.layouts[0]);
    const int64_t element = support::bytesOf(storage);
    auto bytesOf = [&](size_t i) {
      return packedOf(i) ? packedOf(i)->bytes() : description.parameters[size_t(parameters[i])].elements() * element;
    };
    uint64_t bytes = 0;
    for (size_t i = 0; i < parameters.size(); ++i)
      bytes += uint64_t(bytesOf(i));
    weights.bytes += bytes;
    weights.laid.push_back({pieceName(description, parameters, slot.layouts), nullptr, bytes});
    if (packed)
      return {packedPiece(*packed, weights.laid.back().name, bytes), 0};
    if (!packedOf(0))
      if (const void *inPlace = lyingInPlace(parameters, storage))
        return {inPlace, 0};
    weights.dense |= !packedOf(0) && !isFixed(parameters);
    Place result{nullptr, needed};
    size_t at = needed;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const PackedLayout *packed = packedOf(i);
      int64_t each = packed ? packed->tileBytes() : element, count = bytesOf(i) / each;
      int64_t step = std::max<int64_t>(1, (int64_t(1) << 20) / each); // jobs of about a megabyte
      for (int64_t first = 0; first < count; first += step)
        jobs.push_back({parameters[i], &slot.layout(i), at, first, std::min(step, count - first), each});
      at += size_t(count * each);
      copied.push_back(parameters[i]);
    }
    needed = aligned(at);
    return result;
  }

  /// Element `i` of a parameter is load(i).
  template <typename Load> void fillFrom(const Job &job, Load load) {
    const auto *packed = std::get_if<PackedLayout>(job.layout);
    if (packed && bitsOfCode(packed->storage))
      return packCodes(
          *packed, job.first, job.count,
          [&](int64_t at, int64_t length, float *numbers) {
            for (int64_t i = 0; i < length; ++i)
              numbers[i] = load(at + i * packed->innerStride);
            return FoundBlock();
          },
          placeOf<uint8_t>(job));
    inNumbersOf(storageOf(*job.layout), [&]<typename T>(T) {
      if (packed)
        return packFrom<T>(job, *packed, load);
      T *to = placeOf<T>(job);
      for (int64_t i = 0; i < job.count; ++i)
        put(to[i], load(job.first + i));
    });
  }

  // Numbers of two bytes, distinguished by their types.
  struct BFloat {
    uint16_t bits;
    operator float() const { return support::bf16ToFloat(bits); }
  };
  struct Half {
    uint16_t bits;
    operator float() const { return support::halfToFloat(bits); }
  };
  static void put(float &to, float value) { to = value; }
  static void put(BFloat &to, BFloat value) { to = value; }
  static void put(Half &to, Half value) { to = value; }
  static void put(BFloat &to, float value) { to.bits = support::floatToBF16(value); }
  static void put(Half &to, float value) { to.bits = support::floatToHalf(value); }
  /// Calls `code` with a number of the type that holds `storage`.
  template <typename Code> static void inNumbersOf(Storage storage, Code code) {
    if (storage == Storage::BF16)
      code(BFloat());
    else if (storage == Storage::F16)
      code(Half());
    else
      code(float());
  }

  /// Where a job writes.
  template <typename T> T *placeOf(const Job &job) {
    return reinterpret_cast<T *>(weights.memory.data() + job.offset + size_t(job.first * job.bytesEach));
  }

  template <typename T, typename Load> void packFrom(const Job &job, const PackedLayout &layout, Load load) {
    T *to = placeOf<T>(job);
    constexpr int64_t block =
        64; // inner positions at a time: what is written stays in the first cache while rows are read along
    for (int64_t tile = 0; tile < job.count; ++tile, to += layout.inner * layout.tile) {
      int64_t outer = (job.first + tile) * layout.tile, rows = std::min(layout.tile, layout.outer - outer);
      for (int64_t i0 = 0; i0 < layout.inner; i0 += block) {
        int64_t i1 = std::min(i0 + block, layout.inner);
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t i = i0; i < i1; ++i)
            put(to[layout.placeOf(r, i)],
                load(layout.offset + (outer + r) * layout.outerStride + i * layout.innerStride));
      } // rows beyond the last stay zero, as the memory came
    }
  }

  /// fillFrom for f32 tensors that training packs after every step: rows copied whole, or transposed four by four.
  bool packFloats(const Job &job, const float *from) {
    const auto *packed = std::get_if<PackedLayout>(job.layout);
    if (!packed || packed->storage != Storage::F32 || (packed->outerStride != 1 && packed->innerStride != 1))
      return false;
    const PackedLayout &l = *packed;
    float *to = placeOf<float>(job);
    for (int64_t tile = 0; tile < job.count; ++tile, to += l.inner * l.tile) {
      int64_t outer = (job.first + tile) * l.tile, rows = std::min(l.tile, l.outer - outer);
      const float *source = from + l.offset + outer * l.outerStride;
      if (l.outerStride == 1) {
        for (int64_t i = 0; i < l.inner; ++i)
          std::memcpy(to + i * l.tile, source + i * l.innerStride, size_t(rows) * 4);
        continue;
      }
      constexpr int64_t block = 64; // as in fillFrom
      for (int64_t i0 = 0; i0 < l.inner; i0 += block) {
        int64_t i1 = std::min(i0 + block, l.inner), r = 0;
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

  static constexpr int64_t stripLength = 256; // the longest block: each is decoded once

  void fillCoded(const Job &job, const TensorReader &reader, const std::vector<int64_t> &shape) {
    float strip[stripLength];
    if (const auto *packed = std::get_if<PackedLayout>(job.layout))
      return packCoded(job, *packed, reader, shape);
    if (std::holds_alternative<DenseLayout>(*job.layout))
      return reader.read(job.first, job.count, placeOf<float>(job));
    inNumbersOf(storageOf(*job.layout), [&]<typename T>(T) {
      T *to = placeOf<T>(job);
      for (int64_t i = 0; i < job.count; ++i) {
        if (i % stripLength == 0)
          reader.read(job.first + i, std::min(stripLength, job.count - i), strip);
        put(to[i], strip[i % stripLength]);
      }
    });
  }

  void packCoded(const Job &job, PackedLayout l, const TensorReader &given, const std::vector<int64_t> &shape) {
    const TensorReader *reader = &given;
    if (given.transposed() && shape.size() == 2 &&
        std::minmax(l.outerStride, l.innerStride) == std::minmax(int64_t(1), shape[1])) {
      reader = given.transposed();
      l.offset = l.offset % shape[1] * shape[0] + l.offset / shape[1];
      l.outerStride = l.outerStride == 1 ? shape[0] : 1;
      l.innerStride = l.innerStride == 1 ? shape[0] : 1;
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
          placeOf<uint8_t>(job));
    inNumbersOf(l.storage, [&]<typename T>(T) { packNumbers<T>(job, l, *reader); });
  }

  template <typename T> void packNumbers(const Job &job, const PackedLayout &l, const TensorReader &reader) {
    float strip[stripLength];
    T *to = placeOf<T>(job);
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

  void fill(const Job &job) {
    const StoredTensor *source = sources[size_t(job.parameter)];
    if (!source) {
      const ParameterInfo &parameter = description.parameters[size_t(job.parameter)];
      fillFrom(job, [&](int64_t i) { return randomElement(parameter, seed, uint64_t(job.parameter), uint64_t(i)); });
      return;
    }
    if (source->reader)
      return fillCoded(job, *source->reader, source->shape);
    const uint8_t *data = source->data;
    if (source->dtype == Dtype::F32 && uintptr_t(data) % 4 == 0 &&
        packFloats(job, reinterpret_cast<const float *>(data)))
      return;
    auto read = [data]<typename T>(T, int64_t i) {
      T value;
      std::memcpy(&value, data + size_t(i) * sizeof(T), sizeof(T));
      return value;
    };
    switch (source->dtype) {
    case Dtype::F32:
      return fillFrom(job, [&](int64_t i) { return read(float(), i); });
    case Dtype::F64:
      return fillFrom(job, [&](int64_t i) { return float(read(double(), i)); });
    case Dtype::F16:
      return fillFrom(job, [&](int64_t i) { return read(Half(), i); });
    default:
      return fillFrom(job, [&](int64_t i) { return read(BFloat(), i); });
    }
  }
};

std::unique_ptr<Weights> Weights::load(const Description &description, std::unique_ptr<TensorSource> source) {
  auto weights = std::make_unique<Weights>();
  weights->source = std::move(source);
  if (isPacked(*weights->source))
    Packer(*weights, description, *weights->source).run();
  else
    Packer(*weights, description, matchParameters(description, *weights->source), 0).run();
  return weights;
}

std::unique_ptr<Weights> Weights::over(const Description &description, const std::vector<const float *> &tensors,
                                       std::vector<const uint16_t *> narrow, std::vector<const StoredTensor *> frozen,
                                       uint64_t seed) {
  auto weights = std::make_unique<Weights>();
  weights->narrow = std::move(narrow);
  std::vector<const StoredTensor *> sources;
  weights->changing.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    weights->fixed.push_back(!tensors[i]);
    if (!tensors[i]) {
      sources.push_back(frozen.empty() ? nullptr : frozen[i]);
      continue;
    }
    const ParameterInfo &parameter = description.parameters[i];
    weights->changing.push_back({Dtype::F32, parameter.shape, reinterpret_cast<const uint8_t *>(tensors[i]),
                                 uint64_t(parameter.elements()) * 4, nullptr});
    sources.push_back(&weights->changing.back());
  }
  weights->packer = std::make_unique<Packer>(*weights, description, std::move(sources), seed);
  weights->packer->run();
  return weights;
}

void Weights::update() {
  packer->again();
}

Weights::Weights() = default;
Weights::~Weights() = default;

std::unique_ptr<Weights> Weights::random(const Description &description, uint64_t seed) {
  auto weights = std::make_unique<Weights>();
  Packer(*weights, description, {}, seed).run();
  return weights;
}

} // namespace quern::runtime
