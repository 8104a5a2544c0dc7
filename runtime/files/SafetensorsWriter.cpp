// Takes: dense tensors in memory. Gives: a safetensors file, through OutputFile.
#include "runtime/Error.h"
#include "runtime/files/Safetensors.h"
#include "support/OutputFile.h"

#include <nlohmann/json.hpp>

namespace quern::runtime {

void writeSafetensors(const std::string &path, const std::vector<OutputTensor> &tensors) {
  nlohmann::json header = nlohmann::json::object();
  uint64_t offset = 0;
  std::vector<uint64_t> sizes;
  for (const OutputTensor &tensor : tensors) {
    uint64_t bytes = dtypeBytes(tensor.dtype);
    for (int64_t length : tensor.shape)
      bytes *= uint64_t(length);
    header[tensor.name] = {
        {"dtype", dtypeName(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + bytes}}};
    sizes.push_back(bytes);
    offset += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 8 + 63) / 64 * 64 - 8, ' '); // so that the data is aligned, for any vector
  uint64_t length = text.size();

  OutputFile file(path);
  file.write(&length, 8);
  file.write(text.data(), text.size());
  for (size_t i = 0; i < tensors.size(); ++i)
    file.write(tensors[i].data, sizes[i]);
  file.commit();
}

} // namespace quern::runtime
