// Takes: dense tensors in memory. Gives: a safetensors file, through OutputFile.
#include "runtime/Error.h"
#include "runtime/files/Safetensors.h"
#include "support/OutputFile.h"

#include <nlohmann/json.hpp>

namespace quern::runtime {

uint64_t OutputTensor::bytes() const {
  uint64_t bytes = dtypeBytes(dtype);
  for (int64_t length : shape)
    bytes *= uint64_t(length);
  return bytes;
}

std::string safetensorsHeader(const std::vector<OutputTensor> &tensors) {
  nlohmann::json header = nlohmann::json::object();
  uint64_t offset = 0;
  for (const OutputTensor &tensor : tensors) {
    uint64_t end = offset + tensor.bytes();
    header[tensor.name] = {
        {"dtype", dtypeName(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 8 + 63) / 64 * 64 - 8, ' '); // so that the data is aligned, for any vector
  uint64_t length = text.size();
  return std::string(reinterpret_cast<const char *>(&length), 8) + text;
}

void writeSafetensors(const std::string &path, const std::vector<OutputTensor> &tensors) {
  OutputFile file(path);
  file.write(safetensorsHeader(tensors));
  for (const OutputTensor &tensor : tensors)
    file.write(tensor.data, tensor.bytes());
  file.commit();
}

} // namespace quern::runtime
