// What goes to the user: results to standard output, everything else to standard error.
#ifndef QUERN_RUNTIME_MACHINE_TERMINAL_H
#define QUERN_RUNTIME_MACHINE_TERMINAL_H

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace quern::runtime {

bool errorIsTerminal();
bool outputIsTerminal();

/// "error: ...", "warning: ...", "note: ..." on standard error; the word in colour on a terminal unless NO_COLOR is
/// set.
void printError(std::string_view message);
void printWarning(std::string_view message);
void printNote(std::string_view message);

/// Writes results at once. Throws UserError where they cannot be written (a full disk).
void writeOutput(std::string_view text);

/// Seconds from some fixed moment.
double now();

/// A line about long work, on a terminal and after a second only: percent, rate, time left. Any thread may add.
class Progress {
public:
  /// `total` and what is added are bytes, or what `unit` says ("tokens").
  Progress(std::string what, double total, const char *unit = nullptr);
  ~Progress();
  void add(double amount);

private:
  std::string what;
  const char *unit;
  double total, begin;
  std::atomic<uint64_t> done{0};
  std::atomic<double> nextShow;
  std::atomic<bool> shown{false};
};

} // namespace quern::runtime
#endif
