// Takes: the command line. Gives: the exit status. The only file of a program that knows the symbol `quern_program`, so
// that tests can bring tables of their own.
#include "runtime/abi/Abi.h"
#include "runtime/cli/Commands.h"
#include "runtime/machine/LibcParts.h"

int main(int count, char **arguments) {
  quern::runtime::useOwnLibcParts();
  return quern::runtime::runProgram(quern_program, count, arguments);
}
