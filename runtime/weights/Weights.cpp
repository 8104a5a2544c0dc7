// Takes: matched parameters (or a seed). Gives: the pointers that kernels get, packed in parallel where they want it.
//
// A dense f32 tensor (or a bf16 one that kernels want so) is used where it is mapped: nothing is copied, nothing is
// read before a kernel asks. What kernels want packed is written once, in [ceil(outer / tile)][inner][tile] order, so
// that a contraction reads it end to end; both orders of storage ([out, in] and GPT-2's [in, out]) arrive through the
// strides (FillWeights.cpp). Equal slots (a tied head) share one copy.
#include "runtime/weights/Weights.h"

#include "runtime/Error.h"
#include "runtime/machine/Terminal.h"
#include "runtime/machine/ThreadPool.h"
#include "runtime/weights/FillWeights.h"

#include <algorithm>
#include <map>

namespace quern::runtime {

namespace {

constexpr size_t alignment = 64;
size_t aligned(size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

} // namespace

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

  void fill(const Job &job) {
    const FillJob part{*job.layout, job.first, job.count,
                       weights.memory.data() + job.offset + job.first * job.bytesEach};
    const size_t number = size_t(job.parameter);
    if (const StoredTensor *source = sources[number])
      fillWeights(part, *source);
    else
      fillRandom(part, description.parameters[number], seed, number);
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
