// Any bytes as a GGUF file: its values, tensors, config and vocabulary, or a UserError.
#include "runtime/Error.h"
#include "runtime/gguf/Gguf.h"

#include <nlohmann/json.hpp>

#include <vector>

using namespace quern::runtime;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  try {
    const GgufFile file(MappedFile::copy({reinterpret_cast<const char *>(data), size}, "model.gguf"));
    for (const auto &[name, tensor] : ggufTensors(file))
      if (isReal(tensor.dtype) && tensor.elements() < 10000) {
        numbersOf(tensor);
        uint8_t room[1024];
        if (const char *format = tensor.reader ? tensor.reader->heldBy() : nullptr)
          for (int64_t at = 0; at + 32 <= tensor.elements(); at += 32)
            tensor.reader->block(format, at, 1, 32, room);
      }
    ggufConfig(file).dump();
    for (const char *name : {"generation_config.json", "tokenizer_config.json", "chat_template.jinja"})
      ggufText(file, name);
    ggufTokenizer(file);
  } catch (const UserError &) { // NOLINT: either is right
  }
  return 0;
}
