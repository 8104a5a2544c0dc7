// Takes: a safetensors file. Gives: inputs of functions, of the kinds that these take.
#include "runtime/cli/GivenInputs.h"

#include "runtime/Error.h"

#include <algorithm>

namespace quern::runtime {

std::map<std::string, StoredTensor> readInputs(const std::string &path,
                                               const std::function<bool(const std::string &)> &isInput) {
  static const std::pair<const char *, const char *> published[] = {
      {"input_ids", "tokens"},         {"attention_mask", "mask"},     {"token_type_ids", "segments"},
      {"decoder_input_ids", "target"}, {"input_features", "features"}, {"pixel_values", "pixels"}};
  std::map<std::string, StoredTensor> stored = readSafetensors(MappedFile::open(path));
  for (auto [there, here] : published)
    if (auto found = stored.find(there);
        found != stored.end() && !isInput(there) && isInput(here) && !stored.count(here)) {
      stored.emplace(here, found->second);
      stored.erase(there);
    }
  return stored;
}

Value convertInput(const StoredTensor &tensor, const TensorInfo &wanted) {
  Value value = Value::make(wanted.storage, tensor.shape);
  bool fits = wanted.storage == Storage::F32   ? isReal(tensor.dtype)
              : wanted.storage == Storage::I32 ? tensor.dtype == Dtype::I32 || tensor.dtype == Dtype::I64
                                               : tensor.dtype == Dtype::BOOL || tensor.dtype == Dtype::I32 ||
                                                     tensor.dtype == Dtype::I64 || tensor.dtype == Dtype::U8;
  if (!fits)
    throw UserError("input " + describeTensor(wanted) + " cannot be read from the type " + dtypeName(tensor.dtype));
  int64_t count = value.elements();
  try {
    if (wanted.storage == Storage::F32)
      toFloat(tensor, 0, count, reinterpret_cast<float *>(value.data.data()));
    else if (wanted.storage == Storage::I32)
      toInt(tensor, 0, count, value.ints());
    else
      toBool(tensor, 0, count, value.data.data());
  } catch (const UserError &error) {
    throw UserError("input '" + wanted.name + "': " + error.what());
  }
  return value;
}

GivenInputs::GivenInputs(const std::string &path, const Description &description, const std::vector<int> &functions,
                         const std::string &text) {
  auto find = [&](const std::string &name) {
    const TensorInfo *found = nullptr;
    for (int number : functions)
      if (!found && number >= 0 && name != text)
        found = description.functions[size_t(number)].findInput(name);
    return found;
  };
  std::string first;
  for (const auto &[name, tensor] : readInputs(path, find)) {
    const TensorInfo *wanted = find(name);
    if (!wanted && name == text)
      throw UserError(path + " has " + quote(name) + ", the text that is written; give its beginning with --tokens");
    if (!wanted)
      throw UserError(path + ": there is no input " + quote(name));
    if (tensor.shape.size() != wanted->dims.size() || tensor.shape.empty() || tensor.shape[0] < 1)
      throw UserError(path + ": " + describeTensor(*wanted) + " cannot have the shape " + shapeText(tensor.shape));
    if (first.empty()) {
      first = name;
      count = tensor.shape[0];
    }
    if (tensor.shape[0] != count)
      throw UserError(format("%s: %s has %lld rows and %s %lld; a row of each belongs to a text", path.c_str(),
                             quote(first).c_str(), static_cast<long long>(count), quote(name).c_str(),
                             static_cast<long long>(tensor.shape[0])));
    values[name] = convertInput(tensor, *wanted);
  }
  if (first.empty())
    throw UserError(path + " is empty");
}

Values GivenInputs::row(int64_t row) const {
  Values result;
  for (const auto &[name, value] : values) {
    std::vector<int64_t> shape = value.shape;
    shape[0] = 1;
    Value one = Value::make(value.storage, shape);
    std::copy_n(value.data.begin() + row * int64_t(one.data.size()), one.data.size(), one.data.begin());
    result.emplace(name, std::move(one));
  }
  return result;
}

} // namespace quern::runtime
