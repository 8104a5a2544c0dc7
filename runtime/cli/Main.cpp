// Takes: the command line. Gives: the exit status. The only file that knows the symbol `quern_program`, so that tests
// can bring tables of their own.
#include "runtime/abi/Abi.h"
#include "runtime/cli/Commands.h"

int main(int count, char **arguments) {
  return quern::runtime::runProgram(quern_program, count, arguments);
}
