// Takes: pieces of messages. Gives: their text.
// Why: the runtime does without iostreams, whose locales would add half a megabyte to every emitted program.
#include "support/Error.h"

#include "support/Utf8.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace quern::support {

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

std::string printable(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    size_t length = utf8Char(text, at).length;
    auto byte = static_cast<unsigned char>(text[at]);
    // Controls of ASCII, and those of Latin-1 (U+0080 to U+009F), which some terminals obey, too.
    bool control = byte < 0x20 || byte == 0x7f || (byte == 0xc2 && static_cast<unsigned char>(text[at + 1]) < 0xa0);
    if (length == 0 || control) {
      for (size_t end = at + std::max<size_t>(length, 1); at < end; ++at)
        result += format("\\x%02x", static_cast<unsigned char>(text[at]));
    } else {
      result.append(text.substr(at, length));
      at += length;
    }
  }
  return result;
}

std::string printableLines(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find_first_of("\n\t", at), text.size());
    result += printable(text.substr(at, end - at)) + std::string(text.substr(end, 1));
    at = end + 1;
  }
  return result;
}

std::string quote(std::string_view text) {
  size_t cut = text.size();
  if (cut > 120)
    for (cut = 120; cut > 116 && (static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80;)
      --cut; // not inside of a character
  return "'" + printable(text.substr(0, cut)) + (cut < text.size() ? "...'" : "'");
}

std::string systemMessage(int code) {
  return std::strerror(code);
}

} // namespace quern::support
