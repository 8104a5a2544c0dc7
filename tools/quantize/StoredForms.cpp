// Takes: a program's slots. Gives: for each tensor of a checkpoint the form that all of them can be made of, bit for bit.
// Why from the program: which weights --quantize reaches, along which dimension, and which share a format, is what passes
// decide.
#include "tools/quantize/StoredForms.h"

#include "runtime/weights/PackCodes.h"
#include "runtime/weights/Weights.h"
#include "support/CodedGroups.h"

#include <algorithm>
#include <numeric>

using namespace quern::runtime;

namespace quern::tools {
namespace {

/// All that reads one tensor.
struct Uses {
  std::vector<WeightLayout> layouts;
  int slot = -1; ///< one of them
};

Storage storageOf(const WeightLayout &layout) {
  if (const auto *packed = std::get_if<PackedLayout>(&layout))
    return packed->storage;
  return std::holds_alternative<NarrowLayout>(layout) ? Storage::BF16 : Storage::F32;
}

/// Elements between neighbours along a dimension.
int64_t strideOf(const std::vector<int64_t> &shape, size_t axis) {
  return std::accumulate(shape.begin() + std::ptrdiff_t(axis) + 1, shape.end(), int64_t(1), std::multiplies<>());
}

/// The dimension that is the inner one of each matrix, if the matrices are the whole tensor.
std::optional<size_t> axisOf(const std::vector<int64_t> &shape, const std::vector<PackedLayout> &layouts) {
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t stride = strideOf(shape, axis), rows = strideOf(shape, 0) * shape[0] / shape[axis];
    std::vector<bool> covered(static_cast<size_t>(rows));
    bool fits = true;
    for (const PackedLayout &layout : layouts) {
      fits = fits && layout.inner == shape[axis] && layout.innerStride == stride;
      for (int64_t o = 0; fits && o < layout.outer; ++o) {
        const int64_t first = layout.offset + o * layout.outerStride,
                      row = first / (stride * shape[axis]) * stride + first % stride;
        fits = first / stride % shape[axis] == 0 && row < rows;
        if (fits)
          covered[static_cast<size_t>(row)] = true;
      }
    }
    if (fits && std::all_of(covered.begin(), covered.end(), [](bool row) { return row; }))
      return axis;
  }
  return std::nullopt;
}

void choose(StoredForm &form, const Uses &uses) {
  if (uses.layouts.empty())
    return;
  const Storage storage = storageOf(uses.layouts[0]);
  if (std::any_of(uses.layouts.begin(), uses.layouts.end(), [&](auto &layout) { return storageOf(layout) != storage; }))
    return;
  if (!bitsOfCode(storage)) {
    form.storage = storage;
    return;
  }
  for (const WeightLayout &layout : uses.layouts)
    form.layouts.push_back(std::get<PackedLayout>(layout));
  std::optional<size_t> axis = axisOf(form.source->shape, form.layouts);
  if (!axis) {
    form.layouts.clear();
    return;
  }
  form.storage = storage;
  form.axis = *axis;
}

/// What stays as it is, but lies in blocks with the numbers of int8 or int4 (of a GGUF file): in the same codes.
void keepBlocks(StoredForm &form) {
  const std::vector<int64_t> &shape = form.source->shape;
  if (form.storage != Storage::F32 || !form.source->reader || shape.empty())
    return;
  const int64_t length = shape.back(), rows = form.source->elements() / length;
  for (Storage storage : {Storage::Int8, Storage::Int4}) {
    uint8_t room[2 + support::codedGroup];
    bool all = true;
    for (int64_t at = 0; all && at < rows * length; at += support::codedGroup)
      all = length % support::codedGroup == 0 &&
            form.source->reader->block(blockNameOf(storage), at, 1, support::codedGroup, room);
    if (!all)
      continue;
    form.storage = storage;
    form.axis = shape.size() - 1;
    form.layouts = {
        {.outer = rows, .inner = length, .outerStride = length, .innerStride = 1, .tile = 64, .storage = storage}};
    return;
  }
}

/// Its name in the checkpoint.
std::string nameOf(const ParameterInfo &parameter, const TensorSource &source) {
  for (const std::string &name : parameter.names)
    if (source.find(name))
      return name;
  return "";
}

} // namespace

std::vector<StoredForm> storedForms(const Description &description, const TensorSource &source) {
  std::vector<const StoredTensor *> found = matchParameters(description, source);
  std::vector<StoredForm> forms;
  std::map<const StoredTensor *, size_t> numberOf;
  std::vector<size_t> formOf(found.size(), SIZE_MAX); // of each parameter
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i])
      continue; // the model has an initial value for it
    auto [at, isNew] = numberOf.try_emplace(found[i], forms.size());
    if (isNew)
      forms.push_back({nameOf(description.parameters[i], source), found[i]});
    formOf[i] = at->second;
  }
  std::vector<Uses> uses(forms.size());
  for (size_t slot = 0; slot < description.slots.size(); ++slot)
    for (const std::vector<int> &turn : description.slots[slot].turns)
      for (size_t i = 0; i < turn.size(); ++i)
        if (size_t form = formOf[size_t(turn[i])]; form != SIZE_MAX) {
          std::vector<WeightLayout> &known = uses[form].layouts;
          const WeightLayout &layout = description.slots[slot].layout(i);
          if (std::find(known.begin(), known.end(), layout) == known.end())
            known.push_back(layout);
          if (storageOf(layout) != Storage::F32 || std::holds_alternative<PackedLayout>(layout))
            uses[form].slot = int(slot);
        }
  for (size_t i = 0; i < forms.size(); ++i) {
    choose(forms[i], uses[i]);
    keepBlocks(forms[i]);
    forms[i].group = uses[i].slot;
  }
  return forms;
}

} // namespace quern::tools
