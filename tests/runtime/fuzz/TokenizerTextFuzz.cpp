// libFuzzer: any bytes as text for the golden tokenizers (the first byte chooses one), and as token numbers to decode.
#include "runtime/tokenizer/Tokenizer.h"
#include "runtime/tokenizer/text/Unicode.h"
#include "runtime/weights/Checkpoint.h"

#include <cstdlib>

using namespace quern::runtime;

static const std::vector<Tokenizer> &tokenizers() {
  static const std::vector<Tokenizer> all = [] {
    std::vector<Tokenizer> result;
    const char *folder = std::getenv("QUERN_TEST_DATA");
    for (const char *name : {"gpt2-bpe", "llama3-bpe", "llama2-spm", "t5-unigram", "bert-wordpiece"}) {
      std::string path =
          std::string(folder ? folder : QUERN_TEST_DATA_DEFAULT) + "/tokenizers/" + name + "/tokenizer.json";
      result.push_back(Tokenizer::parse(readFile(path), path));
    }
    return result;
  }();
  return all;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  const Tokenizer &tokenizer = tokenizers()[data[0] % tokenizers().size()];
  std::string_view text(reinterpret_cast<const char *>(data) + 1, size - 1);
  std::vector<int> ids = tokenizer.encode(text, true);
  TextStream stream(tokenizer);
  std::string joined;
  for (int id : ids)
    joined += stream.push(id);
  joined += stream.finish();
  if (!isValidUtf8(joined) || !isValidUtf8(tokenizer.decode(ids, false)))
    __builtin_trap();
  std::vector<int> numbers;
  for (size_t i = 1; i + 1 < size; i += 2)
    numbers.push_back(int(data[i] | data[i + 1] << 8) % (tokenizer.size() + 2));
  if (!isValidUtf8(tokenizer.decode(numbers, true)))
    __builtin_trap();
  return 0;
}
