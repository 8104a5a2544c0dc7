// quern: the compiler's command line. Finds the subcommand; each has a file of its own.
#include "passes/Phases.h"
#include "tools/cli/Commands.h"
#include "tools/crash/CrashReport.h"

#include <boost/program_options/errors.hpp>

#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <stdexcept>

using namespace quern::tools;

namespace {
struct Command {
  const char *name, *meaning;
  int (*run)(const Arguments &);
};

constexpr Command commands[] = {
    {"compile", "compile a spec to an executable (or --emit obj, llvm, asm, mlir)", compileCommand},
    {"run", "compile into a cache, then run: quern run SPEC [options] -- generate -p ...", runCommand},
    {"check", "report all mistakes of a spec", checkCommand},
    {"fmt", "format specs", fmtCommand},
    {"init", "find the example spec for a Hugging Face model", initCommand},
    {"dump", "print the IR after a pass or a phase, or an HTML page about all of them", dumpCommand},
    {"bisect", "find the first pass, kernel or weight whose numbers differ, with layer, operation and line",
     bisectCommand},
    {"interpret", "evaluate a spec in double precision, without compiling", interpretCommand},
    {"gradcheck", "check every parameter's gradient against differences of the loss", gradcheckCommand},
    {"doctor", "run a checklist on a spec that does not learn: shapes, masks, gradients, loss, overfitting",
     doctorCommand},
    {"tensors", "print files of tensors, or make one from numbers written as JSON", tensorsCommand},
    {"tokenizer", "make a tokenizer from texts: quern tokenizer train", tokenizerCommand},
};

void usage(std::ostream &out) {
  out << "quern: a compiler for Transformers\n\nusage: quern COMMAND [options]; quern COMMAND --help\n\n";
  for (const Command &command : commands)
    out << "  " << command.name << std::string(12 - std::string(command.name).size(), ' ') << command.meaning << "\n";
}
} // namespace

int main(int argc, char **argv) {
  Arguments words(argv + 1, argv + argc);
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    usage(words.empty() ? std::cerr : std::cout);
    return words.empty() ? 1 : 0;
  }
  installCrashReport(words);
  for (const Command &command : commands)
    if (words[0] == command.name) {
      try {
        return command.run(Arguments(words.begin() + 1, words.end()));
      } catch (const std::bad_alloc &) {
        std::cerr << "quern " << command.name << ": there is not enough memory\n";
        return 2;
      } catch (const boost::program_options::error &error) { // a logic_error, but the words' fault
        std::cerr << "quern " << command.name << ": " << error.what() << "; see quern " << command.name << " --help\n";
        return 1;
      } catch (const std::logic_error &error) { // no input may lead to one
        return reportFault("failed (" + std::string(error.what()) + ")");
      } catch (const std::exception &error) {
        std::cerr << "quern " << command.name << ": " << error.what() << "\n";
        return 1;
      }
    }
  std::vector<std::string> names;
  for (const Command &command : commands)
    names.push_back(command.name);
  std::cerr << "quern: unknown command '" << words[0] << "'; " << quern::passes::didYouMean(words[0], names)
            << "these are known:\n\n";
  usage(std::cerr);
  return 1;
}
