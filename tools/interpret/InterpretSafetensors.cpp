// Takes: paths. Gives: tensors of safetensors files, or of JSON, and such files written.
#include "tools/interpret/InterpretSafetensors.h"

#include "tools/interpret/TensorText.h"

#include "runtime/Error.h"
#include "runtime/weights/TextPart.h"

#include <algorithm>

namespace quern::tools {

StoredTensor::StoredTensor(runtime::StoredTensor tensor)
    : dtype(runtime::typeName(tensor)), shape(tensor.shape), count(tensor.elements()), stored(std::move(tensor)) {}

std::vector<double> StoredTensor::asDoubles() const {
  std::vector<double> numbers(count);
  runtime::toDouble(stored, 0, count, numbers.data());
  return numbers;
}

std::vector<int64_t> StoredTensor::asInts() const {
  std::vector<int64_t> numbers(count);
  runtime::toLong(stored, 0, count, numbers.data());
  return numbers;
}

/// Tensors that people wrote by hand; each keeps its bytes.
static std::map<std::string, runtime::StoredTensor> fromText(const std::string &path, const std::string &text) {
  std::map<std::string, runtime::StoredTensor> read;
  for (const auto &[name, tensor] : tensorsFromJson(path, text)) {
    auto bytes = runtime::MappedFile::copy(tensor.bytes, path);
    read[name] = {*runtime::dtypeNamed(tensor.dtype), tensor.shape, bytes->data(), bytes->size(), bytes};
  }
  return read;
}

/// What a checkpoint holds; each tensor keeps its file.
static std::map<std::string, runtime::StoredTensor> fromSource(const std::string &path) {
  std::unique_ptr<runtime::TensorSource> source = runtime::TensorSource::open(path);
  std::map<std::string, runtime::StoredTensor> read;
  for (const std::string &name : source->names())
    read.emplace(name, *source->find(name));
  return read;
}

SafetensorsFiles::SafetensorsFiles(const std::string &path) {
  if (support::isFolder(path)) {
    bool whole =
        support::fileExists(path + "/model.safetensors") || support::fileExists(path + "/model.safetensors.index.json");
    if (whole) {
      add(path, fromSource(path));
      return;
    }
    for (const std::string &name : support::namesIn(path))
      if (name.ends_with(".safetensors"))
        add(path + "/" + name, fromSource(path + "/" + name));
    if (tensors.empty())
      throw support::UserError(path + ": the folder holds no safetensors file");
    return;
  }
  if (path.ends_with(".json") && !path.ends_with(".index.json"))
    add(path, fromText(path, support::readFile(path)));
  else
    add(path, fromSource(path));
}

void SafetensorsFiles::add(const std::string &path, std::map<std::string, runtime::StoredTensor> read) {
  for (auto &[name, tensor] : read) {
    if (std::string inner = runtime::nameInTextPart(name); !inner.empty())
      ofTextPart.emplace(inner, name);
    if (!tensors.emplace(name, StoredTensor(std::move(tensor))).second)
      throw support::UserError(path + ": " + support::quote(name) + " is stored twice");
  }
}

const StoredTensor *SafetensorsFiles::find(const std::string &name) const {
  auto found = tensors.find(name);
  if (auto part = ofTextPart.find(name); found == tensors.end() && part != ofTextPart.end())
    found = tensors.find(part->second);
  return found == tensors.end() ? nullptr : &found->second;
}

void writeSafetensors(const std::string &path, const std::map<std::string, OutputTensor> &tensors) {
  std::vector<runtime::OutputTensor> list;
  for (const auto &[name, tensor] : tensors)
    list.push_back({name, *runtime::dtypeNamed(tensor.dtype), tensor.shape, tensor.bytes.data()});
  runtime::writeSafetensors(path, list);
}

} // namespace quern::tools
