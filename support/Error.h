// Errors that carry an exit status, and pieces of their messages.
#ifndef QUERN_SUPPORT_ERROR_H
#define QUERN_SUPPORT_ERROR_H

#include <stdexcept>
#include <string>
#include <string_view>

namespace quern::support {

/// The input was wrong: a file, an option, a text. Exit status 1.
struct UserError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The machine cannot: an older CPU, too little memory. Exit status 2.
struct MachineError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string format(const char *pattern, ...);

/// "1.5 GB": for messages.
std::string formatBytes(double bytes);

/// A stranger's text, fit for a terminal: control characters and what is no UTF-8 are escaped.
std::string printable(std::string_view text);
/// The same for a message of several lines: line ends and tabs stay.
std::string printableLines(std::string_view text);
/// Printable in quotes, cut at 120 bytes: for one line of a message.
std::string quote(std::string_view text);

/// The message of `errno`'s value.
std::string systemMessage(int code);

} // namespace quern::support
#endif
