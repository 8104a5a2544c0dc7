// libFuzzer over specs that the frontend accepts: bytes choose the spec, its inputs and what is left out; the
// interpreter's numbers before and after every pass must agree. Kernels are compiled where QUERN_FUZZ_CACHE names a
// folder for them (slow). Build with the preset `fuzz`.
#include "tests/specs/CheckSpec.h"

#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace quern::test;
  Choices choices(data, size);
  RandomSpec spec = makeSpec(choices);
  CheckOptions options;
  const char *cache = std::getenv("QUERN_FUZZ_CACHE");
  options.compile = cache != nullptr;
  options.cache = cache ? cache : "";
  options.without = "random";
  options.schedules = smallTiles;
  Outcome outcome = checkSpec(spec, choices, options);
  if (outcome.verdict == Verdict::Different || outcome.verdict == Verdict::Refused) {
    std::fprintf(stderr, "%s: %s\nwithout %s\n%s", outcome.stage.c_str(), outcome.message.c_str(),
                 outcome.without.c_str(), spec.text.c_str());
    __builtin_trap();
  }
  return 0;
}
