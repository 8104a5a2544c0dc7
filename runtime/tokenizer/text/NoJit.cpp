// Takes the place of PCRE2's just-in-time compiler, a quarter of a megabyte that no pattern of ours asks for
// (pcre2_jit_compile is never called), but that the matcher refers to. All definitions are weak: where a linker takes
// PCRE2's own after all, those win.
#include "runtime/tokenizer/text/NoJit.h"

#include <cstddef>
#include <cstdint>

extern "C" {
[[gnu::weak]] void _pcre2_jit_free_8(void *, void *) {}
[[gnu::weak]] void _pcre2_jit_free_rodata_8(void *, void *) {}
[[gnu::weak]] size_t _pcre2_jit_get_size_8(void *) {
  return 0;
}
[[gnu::weak]] int _pcre2_jit_check_exec_8() {
  return 0;
}
[[gnu::weak]] int pcre2_jit_match_8(const void *, const uint8_t *, size_t, size_t, uint32_t, void *, void *) {
  return -45;
} // PCRE2_ERROR_JIT_BADOPTION
}

namespace quern::runtime {
void leaveOutJit() {}
} // namespace quern::runtime
