// libFuzzer over the language: a spec, then (after a NUL) a config.json. Build with the preset `fuzz`; a corpus is
// examples/.
#include "frontend/Language.h"

#include <sstream>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace quern::frontend;
  std::string text(reinterpret_cast<const char *>(data), size);
  SpecInput input;
  input.name = "fuzz.quern";
  size_t nul = text.find('\0');
  input.text = text.substr(0, nul);
  if (nul != std::string::npos)
    input.configText = text.substr(nul + 1);
  Diagnostics diagnostics;
  checkSpec(input, diagnostics);
  std::ostringstream out;
  diagnostics.print(out);
  out << diagnostics.toJson();
  Diagnostics formatting;
  if (auto once = formatSpec(input.name, input.text, formatting)) {
    auto twice = formatSpec(input.name, *once, formatting);
    if (!twice || *twice != *once)
      __builtin_trap(); // formatting is idempotent
  }
  return 0;
}
