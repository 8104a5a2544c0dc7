// A fault of the compiler leaves what replays it, and says the command.
#ifndef QUERN_TOOLS_CRASH_CRASHREPORT_H
#define QUERN_TOOLS_CRASH_CRASHREPORT_H

#include "tools/Arguments.h"

namespace quern::tools {

/// Once, by `main`, with the words of the command line: from now on a signal of a fault (SIGSEGV, SIGABRT ...) leaves a
/// folder `quern-crash-...` in $TMPDIR, prints how to replay it, and ends the process as it would have ended without.
/// QUERN_CRASH_REPORT=0 switches it off.
void installCrashReport(const Arguments &words);

/// What the compiler works on: the path as given, the texts as they were read (`config` may be empty), and the options
/// that the frontend depends on (`--set`, `--train`), as words of a command line.
void keepInput(const std::string &path, const std::string &text, const std::string &config, const Arguments &settings);
/// The options that passes depend on, as words of a command line.
void keepOptions(const Arguments &words);

/// What runs from now on: a pass of the table, or the code generator.
void enterPass(const std::string &pass);
void enterCodegen();

/// The same report for a fault without a signal: a pass that fails, std::logic_error. Returns the exit status, 3.
int reportFault(const std::string &what);

/// The exit status after passes have failed: the same report, but for kernels that no producer makes for the target. That
/// is the answer to a spec, and was said at its line.
int reportFailedPasses();

} // namespace quern::tools
#endif
