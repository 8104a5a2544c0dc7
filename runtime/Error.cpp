// Takes: pieces of messages. Gives: their text.
// Why: the runtime does without iostreams, whose locales would add half a megabyte to every emitted program.
#include "runtime/Error.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace quern::runtime {

std::string format(const char *pattern, ...) {
  va_list args, again;
  va_start(args, pattern);
  va_copy(again, args);
  int length = std::vsnprintf(nullptr, 0, pattern, args);
  va_end(args);
  std::string text(length > 0 ? size_t(length) : 0, '\0');
  std::vsnprintf(text.data(), text.size() + 1, pattern, again);
  va_end(again);
  return text;
}

std::string formatBytes(double bytes) {
  const char *units[] = {"bytes", "KB", "MB", "GB", "TB"};
  int unit = 0;
  while (bytes >= 1000 && unit < 4) {
    bytes /= 1000;
    ++unit;
  }
  return format(unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
}

std::string quote(std::string_view text) {
  std::string result = "'";
  for (char c : text.substr(0, 120)) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      result += format("\\x%02x", static_cast<unsigned char>(c));
    else
      result += c;
  }
  return result + (text.size() > 120 ? "...'" : "'");
}

std::string systemMessage(int code) {
  return std::strerror(code);
}

} // namespace quern::runtime

// libstdc++'s own handler prints the exception's type, and for that carries 50 KB of demangler into every program. What
// gets here is a bug; the message and a core are enough.
namespace __gnu_cxx {
void __verbose_terminate_handler();
void __verbose_terminate_handler() {
  std::fputs("error: an exception was not caught\n", stderr);
  std::abort();
}
} // namespace __gnu_cxx
