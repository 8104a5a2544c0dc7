// Small stand-ins for what a static program would carry of the C library for nothing, 120 KB in all: translations of
// messages, and with `assert` wide output, and with threads the resolver of host names (each thread has a place for it,
// which these programs do not use). Weak, so that a C library that needs its own keeps them.
#include "runtime/machine/LibcParts.h"

#include <cstdio>
#include <cstdlib>

namespace quern::runtime {
void useOwnLibcParts() {}
} // namespace quern::runtime

extern "C" {
[[gnu::weak]] char *gettext(const char *text) noexcept {
  return const_cast<char *>(text);
}
[[gnu::weak]] char *__dcgettext(const char *, const char *text, int) noexcept {
  return const_cast<char *>(text);
}
[[gnu::weak, noreturn]] void __assert_fail(const char *assertion, const char *file, unsigned line,
                                           const char *function) noexcept {
  std::fprintf(stderr, "%s:%u: %s: Assertion `%s' failed.\n", file, line, function, assertion);
  std::abort();
}
[[gnu::weak]] __thread void *__libc_resp = nullptr;
}
