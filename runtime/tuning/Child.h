// A process whose lines are read as they come.
#ifndef QUERN_RUNTIME_TUNING_CHILD_H
#define QUERN_RUNTIME_TUNING_CHILD_H

#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace quern::runtime {

/// How a process ended.
struct Ending {
  int status = 0;  ///< as it said itself; -1 where a signal ended it
  std::string how; ///< "status 3", "signal 11 (Segmentation fault)"; nothing for status 0
};

/// Dies with this process, and with the object.
class Child {
public:
  /// Throws std::runtime_error where it cannot be started. What it writes to standard error goes to `errors`, a file.
  Child(const std::vector<std::string> &command, const std::string &errors);
  ~Child();
  Child(const Child &) = delete;

  /// The next line of its standard output without its end; nothing: it has ended, or `seconds` have passed (timedOut).
  std::optional<std::string> line(double seconds);
  bool timedOut() const { return late; }
  /// Ends it if it runs.
  Ending finish();

private:
  pid_t process = -1;
  int output = -1;
  std::string buffer;
  bool late = false;
};

} // namespace quern::runtime
#endif
