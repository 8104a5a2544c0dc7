// The toy decoder as a whole static program, linked as emitted programs are: for its size, and to see that nothing is
// missing.
#include "tests/runtime/ToyProgram.h"

namespace {
int32_t run(const quern_call *) {
  return 0;
}
int64_t bytes(const int64_t *) {
  return 64;
}
constexpr char text[] =
    R"({"quern": 1, "model": "toy", "symbols": [], "functions": [{"name": "forward", "role": "eval"}]})";
constexpr quern_entry entries[] = {{run, bytes, bytes, nullptr, nullptr, nullptr}};
} // namespace

extern "C" const quern_program_table quern_program = {QUERN_ABI_VERSION, 1, text, sizeof(text) - 1, entries};
