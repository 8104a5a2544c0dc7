// Takes: paths. Gives: tensors of safetensors files, or of JSON, and such files written.
#include "tools/interpret/InterpretSafetensors.h"

#include "tools/interpret/TensorText.h"

#include "runtime/Error.h"

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

SafetensorsFiles::SafetensorsFiles(const std::string &path) {
  if (support::isFolder(path)) {
    bool whole =
        support::fileExists(path + "/model.safetensors") || support::fileExists(path + "/model.safetensors.index.json");
    if (whole) {
      addSource(path);
      return;
    }
    for (const std::string &name : support::namesIn(path))
      if (name.ends_with(".safetensors"))
        addSource(path + "/" + name);
    if (tensors.empty())
      throw support::UserError(path + ": the folder holds no safetensors file");
    return;
  }
  if (path.ends_with(".json") && !path.ends_with(".index.json"))
    add(path, fromText(path, support::readFile(path)));
  else
    addSource(path);
}

void SafetensorsFiles::add(const std::string &path, std::map<std::string, runtime::StoredTensor> read) {
  for (auto &[name, tensor] : read)
    if (!tensors.emplace(name, StoredTensor(std::move(tensor))).second)
      throw support::UserError(path + ": " + support::quote(name) + " is stored twice");
}

/// What a checkpoint holds; each tensor keeps its file.
void SafetensorsFiles::addSource(const std::string &path) {
  std::unique_ptr<runtime::TensorSource> source = runtime::TensorSource::open(path);
  std::map<std::string, runtime::StoredTensor> read;
  for (const std::string &name : source->names())
    read.emplace(name, *source->find(name));
  add(path, std::move(read));
  for (const std::string &name : source->otherNames())
    others.emplace(name, StoredTensor(*source->find(name)));
}

const StoredTensor *SafetensorsFiles::find(const std::string &name) const {
  for (const auto *table : {&tensors, &others})
    if (auto found = table->find(name); found != table->end())
      return &found->second;
  return nullptr;
}

void writeSafetensors(const std::string &path, const std::map<std::string, OutputTensor> &tensors) {
  std::vector<runtime::OutputTensor> list;
  for (const auto &[name, tensor] : tensors)
    list.push_back({name, *runtime::dtypeNamed(tensor.dtype), tensor.shape, tensor.bytes.data()});
  runtime::writeSafetensors(path, list);
}

} // namespace quern::tools
