// The subcommands of `quern`. Each takes the words after its name and returns the exit status: 0 done, 1 the input was
// wrong, 2 the machine can't.
#ifndef QUERN_TOOLS_CLI_COMMANDS_H
#define QUERN_TOOLS_CLI_COMMANDS_H

#include "tools/Arguments.h"

namespace quern::tools {

int checkCommand(const Arguments &arguments);
int fmtCommand(const Arguments &arguments);
int initCommand(const Arguments &arguments);
int dumpCommand(const Arguments &arguments);
int compileCommand(const Arguments &arguments);
int runCommand(const Arguments &arguments);
int listCommand(const Arguments &arguments);
int interpretCommand(const Arguments &arguments);
int gradcheckCommand(const Arguments &arguments);
int bisectCommand(const Arguments &arguments);
int tokenizerCommand(const Arguments &arguments);
int tensorsCommand(const Arguments &arguments);
int doctorCommand(const Arguments &arguments);
int tuneCommand(const Arguments &arguments);
int quantizeCommand(const Arguments &arguments);

} // namespace quern::tools
#endif
