// Takes: what the process was doing when it crashed. Gives: a folder with the input and, for a crash in a pass, the
// module before that pass; on stderr the commands that replay and shrink it. How: nothing is written while all goes
// well. The handler has its words ready, copies the input, and has the module made by a second process that runs the
// same passes up to the one that crashed: the compiler is deterministic, so it comes to the same point. Why not MLIR's
// own reproducers: they hold names of passes for `quern-opt`, but ours take rules (of packing, of what is left out)
// that such a name cannot say, and the frontend and the code generator crash too.
#include "tools/crash/CrashReport.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <execinfo.h>
#include <fcntl.h>
#include <random>
#include <set>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace quern::tools;

namespace {

/// A command: as words, as execv takes them, and as text for a shell.
struct Command {
  Arguments words;
  std::vector<char *> argv;
  std::string text;

  void set(Arguments now) {
    words = std::move(now);
    argv.clear();
    text.clear();
    for (std::string &word : words) {
      argv.push_back(word.data());
      bool plain =
          !word.empty() && llvm::all_of(word, [](char c) { return llvm::isAlnum(c) || strchr("_-./=,:@%+", c); });
      text += text.empty() ? "" : " ";
      text += plain ? word : "'" + llvm::join(llvm::split(word, "'"), "'\\''") + "'";
    }
    argv.push_back(nullptr);
  }
};

/// All that the handler needs, made before: in a handler no memory may be allocated.
struct State {
  bool installed = false, isModule = false;
  std::string program, folder;
  Arguments words, options, settings;
  std::string inputPath, inputText, inputCopy, configText, configCopy, backtraceFile, replayFile;
  std::string last; ///< the pass that runs; empty: none has begun
  std::string where = "before it had read its input";
  Command original;   ///< what was typed, on the copies
  Command before;     ///< makes the module before the pass that runs; no words: there is no such module
  std::string module; ///< the file that `before` makes
  Command replay;     ///< from that module
};
State state;

void say(const char *text) {
  if (write(STDERR_FILENO, text, strlen(text)) < 0)
    return; // nobody listens
}
void say(const std::string &text) {
  say(text.c_str());
}

bool put(const std::string &path, const std::string &text) {
  int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0)
    return false;
  size_t done = 0;
  while (done < text.size()) {
    ssize_t count = write(file, text.data() + done, text.size() - done);
    if (count <= 0)
      break;
    done += static_cast<size_t>(count);
  }
  return close(file) == 0 && done == text.size();
}

/// Runs `command` silently, without a report of its own, for a minute at most. True if it ended well.
bool runSilently(const Command &command) {
  pid_t child = _Fork(); // the one that takes no locks
  if (child == 0) {
    static char off[] = "QUERN_CRASH_REPORT=0";
    putenv(off);
    int null = open("/dev/null", O_RDWR);
    dup2(null, STDIN_FILENO), dup2(null, STDOUT_FILENO), dup2(null, STDERR_FILENO);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_UNBLOCK, &all, nullptr); // the signal that is being handled, too
    alarm(60);
    execv(state.program.c_str(), command.argv.data());
    _exit(127);
  }
  int status = 1;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Safe in a handler.
void report(const char *what, bool signalled) {
  say("quern: "), say(what), say(" "), say(state.where), say(": a fault of the compiler, not of its input\n");
  bool kept = mkdir(state.folder.c_str(), 0700) == 0;
  if (!kept) {
    say("  replay: "), say(state.original.text), say("\n");
    return;
  }
  bool input = !state.inputCopy.empty() && put(state.inputCopy, state.inputText);
  if (!state.configCopy.empty())
    put(state.configCopy, state.configText);
  int trace = open(state.backtraceFile.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  void *frames[64];
  if (trace >= 0)
    backtrace_symbols_fd(frames, backtrace(frames, 64), trace), close(trace);
  bool reproduced = !state.before.words.empty() && runSilently(state.before);
  const Command &replay = reproduced ? state.replay : state.original;
  put(state.replayFile, replay.text);
  say("  kept:   "), say(state.folder), say("\n  replay: "), say(replay.text), say("\n");
  const std::string &file = reproduced ? state.module : state.inputCopy;
  if (!reproduced && !input)
    return;
  say("  shrink: "), say(state.program), say("-reduce "), say(file), say(" --test '");
  // The same command on the candidate.
  const char *rest = replay.text.c_str();
  if (const char *at = strstr(rest, file.c_str())) {
    for (const char *c = rest; c != at; ++c)
      (void)!write(STDERR_FILENO, c, 1);
    say("{}"), rest = at + file.size();
  }
  say(rest), say("; test $? "), say(signalled ? "-ge 128" : reproduced ? "-ne 0" : "-eq 3"), say("'\n");
}

const char *nameOf(int signal) {
  switch (signal) {
  case SIGSEGV:
    return "crashed (segmentation fault, or the stack is used up)";
  case SIGABRT:
    return "crashed (aborted)";
  case SIGFPE:
    return "crashed (arithmetic)";
  case SIGILL:
    return "crashed (illegal instruction)";
  default:
    return "crashed (bus error)";
  }
}

void onSignal(int signal) {
  static std::atomic<pid_t> reporter;
  pid_t none = 0, self = gettid();
  if (reporter.compare_exchange_strong(none, self))
    report(nameOf(signal), true);
  else
    while (reporter != self) // the report itself crashed, else:
      pause();               // another thread reports it, and ends the process
  ::signal(signal, SIG_DFL);
  raise(signal);
}

/// What was typed, with the copies in place of the files.
void describeOriginal() {
  Arguments words = {state.program};
  for (const std::string &word : state.words)
    words.push_back(word == state.inputPath && !state.inputCopy.empty() ? state.inputCopy : word);
  for (size_t i = 1; i < words.size() && !state.configCopy.empty(); ++i)
    if (words[i - 1] == "--config")
      words[i] = state.configCopy;
  state.original.set(words);
}

Arguments onInput(const std::string &to, const std::string &output) {
  Arguments words = {state.program, "compile", state.inputCopy};
  if (!state.configCopy.empty())
    words.insert(words.end(), {"--config", state.configCopy});
  words.insert(words.end(), state.settings.begin(), state.settings.end());
  words.insert(words.end(), state.options.begin(), state.options.end());
  words.insert(words.end(), {"--compile-to", to, "--locations", "-o", output});
  return words;
}

} // namespace

void quern::tools::installCrashReport(const Arguments &words) {
  const char *off = std::getenv("QUERN_CRASH_REPORT");
  state.words = words;
  llvm::SmallString<256> program;
  if (llvm::sys::fs::real_path("/proc/self/exe", program))
    program = "quern";
  llvm::StringRef ours = program.str();
  ours.consume_back("-compiler"); // what starts it (tools/start) is what people call
  state.program = ours.str();
  const char *temporary = std::getenv("TMPDIR");
  state.folder = std::string(temporary && *temporary ? temporary : "/tmp") + "/quern-crash-" +
                 std::to_string(getpid()) + "-" + llvm::utohexstr(std::random_device()(), true);
  state.backtraceFile = state.folder + "/backtrace";
  state.replayFile = state.folder + "/replay.sh";
  state.installed = true;
  describeOriginal();
  if (off && std::string(off) == "0")
    return;
  void *frame[1];
  backtrace(frame, 1); // loads what it needs now, not in the handler
  // A stack of its own, since the usual one may be what ran out.
  static char room[64 * 1024];
  stack_t stack{};
  stack.ss_sp = room, stack.ss_size = sizeof room;
  sigaltstack(&stack, nullptr);
  for (int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) {
    struct sigaction action{};
    action.sa_handler = onSignal;
    action.sa_flags = SA_ONSTACK;
    sigaction(signal, &action, nullptr);
  }
}

void quern::tools::keepInput(const std::string &path, const std::string &text, const std::string &config,
                             const Arguments &settings) {
  state.inputPath = path, state.inputText = text, state.configText = config, state.settings = settings;
  state.isModule = llvm::StringRef(path).ends_with(".mlir");
  state.inputCopy = state.folder + "/" + llvm::sys::path::filename(path).str();
  state.configCopy = config.empty() ? "" : state.folder + "/config.json";
  state.where = "in the frontend";
  describeOriginal();
}

void quern::tools::keepOptions(const Arguments &words) {
  state.options = words;
}

void quern::tools::enterPass(const std::string &pass) {
  if (!state.installed)
    return;
  // Before the first pass of a spec there is the frontend's result; the first pass on a module works on the file
  // itself.
  std::string before = !state.last.empty() ? state.last : state.isModule ? "" : "resolved";
  state.where = "in the pass '" + pass + "'";
  state.last = pass;
  state.module = state.folder + "/before-" + pass + ".mlir";
  state.before.set(before.empty() ? Arguments{} : onInput(before, state.module));
  Arguments words = {state.program, "compile", state.module};
  words.insert(words.end(), state.options.begin(), state.options.end());
  words.insert(words.end(), {"--compile-to", pass, "-o", "/dev/null"});
  state.replay.set(words);
}

void quern::tools::enterCodegen() {
  if (!state.installed)
    return;
  state.where = "in the code generator";
  state.module = state.folder + "/planned.mlir";
  state.before.set(onInput("planned", state.module));
  Arguments words = {state.program, "compile", state.module};
  words.insert(words.end(), state.options.begin(), state.options.end());
  words.insert(words.end(), {"--emit", "obj", "-o", state.folder + "/objects", "--cache-dir", state.folder + "/cache",
                             "--jobs", "1"});
  state.replay.set(words);
}

int quern::tools::reportFault(const std::string &what) {
  if (const char *off = std::getenv("QUERN_CRASH_REPORT"); !off || std::string(off) != "0")
    report(what.c_str(), false);
  return 3;
}

int quern::tools::reportFailedPasses() {
  // Passes that say what is wrong with options.
  static const std::set<std::string> sayWhatIsWrong = {"choose-plans", "add-adapters", "narrow-storage"};
  return sayWhatIsWrong.count(state.last) ? 1 : reportFault("failed");
}
