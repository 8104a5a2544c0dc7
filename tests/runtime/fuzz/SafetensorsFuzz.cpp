// libFuzzer: any bytes as a safetensors file. What is accepted must be readable to its last byte; all else is a
// UserError.
#include "runtime/Error.h"
#include "runtime/files/Safetensors.h"

#include <algorithm>

using namespace quern::runtime;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  try {
    auto file = MappedFile::copy({reinterpret_cast<const char *>(data), size}, "fuzz");
    for (const auto &[name, tensor] : readSafetensors(file)) {
      uint64_t end = uint64_t(tensor.data - file->data()) + tensor.bytes;
      if (tensor.data < file->data() || end > file->size())
        __builtin_trap();
      std::vector<float> values(size_t(tensor.elements()));
      if (isReal(tensor.dtype))
        toFloat(tensor, 0, tensor.elements(), values.data());
    }
  } catch (const UserError &) {
  }
  return 0;
}
