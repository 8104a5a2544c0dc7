// Takes: a program's slots. Gives: for each tensor of a checkpoint the form that all of them can be made of, bit for bit.
// Why from the program: which weights --quantize reaches, along which dimension, and which share a format, is what passes
// decide.
#include "tools/quantize/StoredForms.h"

#include "runtime/formats/ByteFloats.h"
#include "runtime/weights/PackCodes.h"
#include "runtime/weights/Weights.h"
#include "support/CodedGroups.h"

#include <algorithm>
#include <numeric>

using namespace quern::runtime;

namespace quern::tools {
namespace {

/// Tensors that share a format because some product reads them together.
class Groups {
public:
  explicit Groups(size_t count) : parent(count), inProduct(count) {
    std::iota(parent.begin(), parent.end(), size_t(0));
  }
  void join(size_t a, size_t b) { parent[rootOf(a)] = rootOf(b); }
  void mark(size_t form) { inProduct[form] = true; }
  int of(size_t form) { return inProduct[form] ? int(rootOf(form)) : -1; }

private:
  std::vector<size_t> parent;
  std::vector<bool> inProduct;
  size_t rootOf(size_t form) {
    while (parent[form] != form)
      form = parent[form] = parent[parent[form]];
    return form;
  }
};

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

void choose(StoredForm &form, const std::vector<WeightLayout> &uses) {
  if (uses.empty())
    return;
  const Storage storage = storageOf(uses[0]);
  if (std::any_of(uses.begin(), uses.end(), [&](auto &layout) { return storageOf(layout) != storage; }))
    return;
  if (!bitsOfCode(storage)) {
    form.storage = storage;
    return;
  }
  for (const WeightLayout &layout : uses)
    form.layouts.push_back(std::get<PackedLayout>(layout));
  std::optional<size_t> axis = axisOf(form.source->shape, form.layouts);
  if (!axis) {
    form.layouts.clear();
    return;
  }
  form.storage = storage;
  form.axis = *axis;
}

/// What stays as it is, but is in blocks with the numbers of int8 or int4 (of a GGUF file, GPTQ, AWQ), or in floats of one byte: in the
/// same codes.
void keepBlocks(StoredForm &form) {
  const std::vector<int64_t> &shape = form.source->shape;
  if (form.storage != Storage::F32 || !form.source->reader || shape.empty())
    return;
  const int64_t length = shape.back(), rows = form.source->elements() / length;
  for (Storage storage :
       {Storage::Int4, Storage::Int8, Storage::F8E4M3, Storage::F8E5M2}) { // the smallest that holds all
    uint8_t room[bytesOfFloatGroup];
    const int64_t each = support::blockOf(storage);
    bool all = floatCodesOf(storage) || length % each == 0;
    for (int64_t row = 0; all && row < rows; ++row)
      for (int64_t i = 0; all && i < length; i += each)
        all =
            form.source->reader->block(blockNamesOf(storage)[0], row * length + i, 1, std::min(each, length - i), room);
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
  std::vector<std::vector<WeightLayout>> uses(forms.size()); // all layouts of each
  Groups groups(forms.size());
  for (const SlotInfo &slot : description.slots) {
    size_t first = SIZE_MAX; // of the slot's forms
    for (const std::vector<int> &iteration : slot.iterations)
      for (size_t i = 0; i < iteration.size(); ++i) {
        const size_t form = formOf[size_t(iteration[i])];
        if (form == SIZE_MAX)
          continue;
        const WeightLayout &layout = slot.layout(i);
        if (std::find(uses[form].begin(), uses[form].end(), layout) == uses[form].end())
          uses[form].push_back(layout);
        if (storageOf(layout) == Storage::F32 && !std::holds_alternative<PackedLayout>(layout))
          continue; // no product that packs its weight
        groups.mark(form);
        first = first == SIZE_MAX ? form : first;
        groups.join(form, first);
      }
  }
  for (size_t i = 0; i < forms.size(); ++i) {
    choose(forms[i], uses[i]);
    keepBlocks(forms[i]);
    forms[i].group = groups.of(i);
  }
  return forms;
}

} // namespace quern::tools
