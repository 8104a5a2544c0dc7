// Small stand-ins for what a static program would carry of the C library for nothing, 250 KB in all: translations of
// messages, with `assert` wide output, with threads the resolver of host names (each thread has a place for it), with
// files and numbers the conversion of character sets and what opens its libraries, and for "inf" and "nan" in a number
// seven forms of strncasecmp. These programs use none of it: no locale is set and no wide character is written.
// Weak, so that a C library that needs its own keeps them; hidden, as those of a program that links its C library
// dynamically are nobody else's.
#include "runtime/machine/LibcParts.h"

#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace quern::runtime {
void useOwnLibcParts() {}
} // namespace quern::runtime

#pragma GCC visibility push(hidden)
extern "C" {
// NOLINTBEGIN(readability-identifier-naming): the C library's own names
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

[[gnu::weak]] void *__wcsmbs_gconv_fcts_c[4] = {};
[[gnu::weak]] void __wcsmbs_load_conv(void *) noexcept {}
[[gnu::weak]] int __wcsmbs_named_conv(void *, const char *) noexcept {
  return 1; // there is none
}
[[gnu::weak]] void __wcsmbs_clone_conv(void *) noexcept {}
[[gnu::weak]] void _nl_cleanup_ctype(void *) noexcept {}
[[gnu::weak]] void __gconv_release_step(void *) noexcept {}
[[gnu::weak]] int __gconv_lock[1] = {};

/// Of the "C" locale, which is the only one.
[[gnu::weak]] int __strncasecmp_l(const char *a, const char *b, size_t count, void *) noexcept {
  auto lower = [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c; };
  for (; count; --count, ++a, ++b)
    if (lower(*a) != lower(*b) || !*a)
      return lower(*a) - lower(*b);
  return 0;
}
// NOLINTEND(readability-identifier-naming)
}
#pragma GCC visibility pop
