// Takes: a command. Gives: its lines, one by one, or that none came in time.
#include "runtime/tuning/Child.h"

#include "support/Error.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace quern::runtime {

Child::Child(const std::vector<std::string> &command, const std::string &errors) {
  std::vector<char *> words;
  for (const std::string &word : command)
    words.push_back(const_cast<char *>(word.c_str()));
  words.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) < 0)
    throw std::runtime_error("cannot make a pipe: " + support::systemMessage(errno));
  int log = open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  pid_t parent = getpid();
  process = log < 0 ? -1 : fork();
  if (process == 0) {
    // Nothing but calls of the system: other threads' locks may be held here for ever.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
      _exit(127);
    dup2(ends[1], STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execv(words[0], words.data());
    _exit(127);
  }
  int code = errno;
  close(ends[1]);
  if (log >= 0)
    close(log);
  output = ends[0];
  if (process < 0) {
    close(output);
    throw std::runtime_error("cannot start " + command[0] + ": " + support::systemMessage(code));
  }
}

Child::~Child() {
  finish();
}

std::optional<std::string> Child::line(double seconds) {
  using Clock = std::chrono::steady_clock;
  auto deadline = Clock::now() + std::chrono::duration<double>(std::min(seconds, 1e6));
  late = false;
  for (;;) {
    if (size_t end = buffer.find('\n'); end != std::string::npos) {
      std::string line = buffer.substr(0, end);
      buffer.erase(0, end + 1);
      return line;
    }
    double left = std::chrono::duration<double>(deadline - Clock::now()).count();
    if (left <= 0) {
      late = true;
      return std::nullopt;
    }
    pollfd wait{output, POLLIN, 0};
    int ready = poll(&wait, 1, int(std::min(left, 1000.0) * 1000) + 1);
    if (ready <= 0)
      continue;
    char bytes[4096];
    ssize_t count = read(output, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return std::nullopt;
    buffer.append(bytes, size_t(count));
  }
}

Ending Child::finish() {
  if (process < 0)
    return {};
  close(output);
  if (late) // it hangs, or is not wanted any more
    kill(process, SIGKILL);
  int status = 0;
  bool ended = false;
  for (int i = 0; i < 100 && !ended; ++i) { // who closed its output is about to end
    ended = waitpid(process, &status, WNOHANG) != 0;
    if (!ended)
      usleep(10000);
  }
  if (!ended) {
    kill(process, SIGKILL);
    waitpid(process, &status, 0);
  }
  process = -1;
  if (WIFSIGNALED(status))
    return {-1, "signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ")"};
  int own = WEXITSTATUS(status);
  return {own, own ? "status " + std::to_string(own) : ""};
}

} // namespace quern::runtime
