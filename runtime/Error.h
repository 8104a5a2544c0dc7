// How the runtime tells that something is wrong: exceptions that carry the exit status, caught once in `runProgram`.
#ifndef QUERN_RUNTIME_ERROR_H
#define QUERN_RUNTIME_ERROR_H

#include <stdexcept>
#include <string>

namespace quern::runtime {

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

/// The text of a string from a stranger, fit for one line of a terminal: control characters escaped, cut at 120 bytes.
std::string quote(std::string_view text);

/// The message of `errno`'s value.
std::string systemMessage(int code);

} // namespace quern::runtime
#endif
