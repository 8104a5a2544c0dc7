// Takes: messages, results, progress of long work. Gives: output that fits where it goes, a terminal or a pipe.
#include "runtime/machine/Terminal.h"

#include "runtime/Error.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <unistd.h>

namespace quern::runtime {

bool errorIsTerminal() {
  return ::isatty(STDERR_FILENO);
}
bool outputIsTerminal() {
  return ::isatty(STDOUT_FILENO);
}

namespace {

void print(const char *colour, const char *word, std::string_view message) {
  const char *plain = std::getenv("NO_COLOR");
  bool coloured = errorIsTerminal() && !(plain && *plain);
  std::fprintf(stderr, "%s%s:%s %.*s\n", coloured ? colour : "", word, coloured ? "\033[0m" : "", int(message.size()),
               message.data());
}

} // namespace

void printError(std::string_view message) {
  print("\033[1;31m", "error", message);
}
void printWarning(std::string_view message) {
  print("\033[1;33m", "warning", message);
}
void printNote(std::string_view message) {
  print("\033[1;36m", "note", message);
}

void writeOutput(std::string_view text) {
  while (!text.empty()) {
    ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR)
        continue;
      throw UserError("cannot write to standard output: " + systemMessage(errno));
    }
    text.remove_prefix(size_t(written));
  }
}

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

Progress::Progress(std::string what, double total, const char *unit)
    : what(std::move(what)), unit(unit), total(total), begin(now()), nextShow(begin + 1) {}

Progress::~Progress() {
  if (shown)
    std::fputs("\r\033[K", stderr);
}

void Progress::add(double amount) {
  double sum = double(done += uint64_t(amount)), time = now(), due = nextShow.load();
  if (time < due || !errorIsTerminal() || !nextShow.compare_exchange_strong(due, time + 0.2))
    return;
  double rate = sum / (time - begin);
  shown = true;
  std::fprintf(stderr, "\r%s: %.0f%%, %s/s, %.0f s left\033[K", what.c_str(), 100 * sum / total,
               (unit ? format("%.0f %s", rate, unit) : formatBytes(rate)).c_str(), (total - sum) / rate);
}

} // namespace quern::runtime
