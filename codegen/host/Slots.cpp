// Takes: quern.param operations and the layouts that kernels want. Gives: the lists of stored tensors and slots that
// the program's description names. Why slots: a loop's body reads "the weight of this iteration", one pointer each.
#include "codegen/host/Slots.h"

#include "ir/Attributes.h"
#include "ir/analysis/Weights.h"

using namespace mlir;
using namespace quern::ir;
using namespace quern::codegen;

int Slots::parameter(std::vector<std::string> names, const std::vector<int64_t> &shape, ParamOp param) {
  auto [it, isNew] = byNames.try_emplace(names, parameterList.size());
  if (isNew)
    parameterList.push_back({std::move(names), shape, param.getInitAttr(), param.getLoc()});
  if (auto adapter = param->getAttrOfType<BoolAttr>(adapterAttr))
    parameterList[it->second].adapter = adapter.getValue();
  if (auto share = param->getAttrOfType<FloatAttr>(routedShareAttr))
    parameterList[it->second].routedShare = share.getValueAsDouble();
  return it->second;
}

/// `name` with each "{label}" replaced by that dimension's position.
static std::string spelled(StringRef name, ArrayRef<std::string> labels, ArrayRef<int64_t> grid) {
  std::string text = name.str();
  for (auto [label, position] : llvm::zip(labels, grid)) {
    std::string key = "{" + label + "}";
    for (size_t at; (at = text.find(key)) != std::string::npos;)
      text.replace(at, key.size(), std::to_string(position));
  }
  return text;
}

std::vector<std::vector<int>> Slots::iterationsOf(ParamOp param) {
  NamedTensorType type = typeOf(param.getResult());
  SmallVector<std::string> labels = param.getStacked();
  // Stacked dimensions lead the type, in the type's order, slowest first.
  SmallVector<std::string> order;
  int64_t count = 1;
  std::vector<int64_t> shape;
  for (DimAttr dim : type.getDims()) {
    if (llvm::is_contained(labels, dim.getName().str())) {
      order.push_back(dim.getName().str());
      count *= *dim.getStatic();
    } else {
      shape.push_back(*dim.getStatic());
    }
  }
  std::vector<std::vector<int>> iterations;
  for (Attribute iteration : param.getPaths()) {
    std::vector<int> &tensors = iterations.emplace_back();
    for (int64_t i = 0; i < count; ++i) {
      SmallVector<int64_t> grid(order.size());
      int64_t rest = i;
      for (int d = static_cast<int>(order.size()) - 1; d >= 0; --d) {
        int64_t size = *type.dim(order[d]).getStatic();
        grid[d] = rest % size;
        rest /= size;
      }
      std::vector<std::string> names;
      for (Attribute name : cast<ArrayAttr>(iteration))
        names.push_back(spelled(cast<StringAttr>(name).getValue(), order, grid));
      tensors.push_back(parameter(std::move(names), shape, param));
    }
  }
  return iterations;
}

std::vector<int> Slots::gradient(ArrayAttr paths, NamedTensorType type, Location at) {
  ArrayRef<DimAttr> dims = type.getDims();
  for (int64_t rest = paths.size(); rest > 1; dims = dims.drop_front())
    rest /= *dims.front().getStatic();
  OpBuilder builder(type.getContext());
  OwningOpRef<ParamOp> like = ParamOp::create(builder, at, type.withDims(dims), paths, InitAttr());
  std::vector<int> all;
  for (const std::vector<int> &iteration : iterationsOf(*like))
    all.insert(all.end(), iteration.begin(), iteration.end());
  return all;
}

int Slots::add(Slot slot) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  for (auto &iteration : slot.iterations) {
    for (int tensor : iteration)
      stream << tensor << ",";
    stream << ";";
  }
  stream << slot.tile << "," << slot.inner << "," << slot.beside << "," << quern::support::elementName(slot.storage);
  for (const Part &part : slot.parts)
    stream << ";" << part.outer << "," << part.outerStride << "," << part.innerStride << "," << part.offset;
  auto [it, isNew] = byText.try_emplace(text, slotList.size());
  if (isNew)
    slotList.push_back(std::move(slot));
  return it->second;
}

int Slots::dense(ParamOp param) {
  Slot slot;
  slot.iterations = iterationsOf(param);
  slot.storage = typeOf(param.getResult()).getStorage();
  return add(std::move(slot));
}

int Slots::packed(ArrayRef<ParamOp> params, ArrayRef<Part> parts, LayoutAttr layout, int64_t inner, Storage storage) {
  Slot slot{{}, layout.getTile(), inner, layout.getBeside(), {parts.begin(), parts.end()}, storage};
  for (ParamOp param : params) {
    std::vector<std::vector<int>> iterations = iterationsOf(param);
    if (slot.iterations.size() < iterations.size()) // what all iterations share is beside what each has of its own
      slot.iterations.resize(iterations.size(), slot.iterations.empty() ? std::vector<int>() : slot.iterations[0]);
    for (size_t iteration = 0; iteration < slot.iterations.size(); ++iteration) {
      const std::vector<int> &tensors = iterations[iterations.size() == 1 ? 0 : iteration];
      slot.iterations[iteration].insert(slot.iterations[iteration].end(), tensors.begin(), tensors.end());
    }
  }
  return add(std::move(slot));
}
