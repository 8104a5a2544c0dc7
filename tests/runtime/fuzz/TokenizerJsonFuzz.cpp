// libFuzzer: any bytes as a tokenizer.json. One that is accepted must encode and decode some hard text without a fault.
#include "runtime/Error.h"
#include "runtime/tokenizer/Tokenizer.h"
#include "runtime/tokenizer/text/Unicode.h"

using namespace quern::runtime;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  try {
    Tokenizer tokenizer = Tokenizer::parse({reinterpret_cast<const char *>(data), size}, "fuzz");
    std::vector<int> ids = tokenizer.encode("Hello  <s> w\xc3\xb6rld\xe4\xb8\xad\xff\n 123 e\xcc\x81", true);
    TextStream stream(tokenizer);
    for (int id : ids)
      if (!isValidUtf8(stream.push(id)))
        __builtin_trap();
    tokenizer.decode(ids, true);
  } catch (const UserError &) {
  }
  return 0;
}
