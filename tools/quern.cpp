// quern: the compiler's command line. Finds the subcommand; each has a file of its own.
#include "runtime/files/MappingFaults.h"
#include "support/Error.h"
#include "support/Nearest.h"
#include "tools/cli/Commands.h"
#include "tools/crash/CrashReport.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/Support/ErrorHandling.h"

#include <boost/program_options/errors.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>

using namespace quern::tools;

namespace {
struct Command {
  const char *name, *meaning;
  int (*run)(const Arguments &);
};

constexpr Command commands[] = {
    {"compile", "compile a spec to an executable (or --emit obj, llvm, asm, mlir)", compileCommand},
    {"run", "run a model, compiled into a cache first: quern run MODEL -p ...", runCommand},
    {"tune", "measure other plans of a program's kernels; quern compile uses those that are faster", tuneCommand},
    {"quantize", "write a checkpoint in fewer bits, measure what that costs, choose formats for a size or a loss",
     quantizeCommand},
    {"list", "list the architectures whose checkpoints run and compile take", listCommand},
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

/// Neither LLVM nor MLIR lets exceptions through, so there is nowhere to go back to. Safe without memory.
[[noreturn]] static void outOfMemory() {
  static constexpr char text[] = "quern: there is not enough memory\n";
  (void)!write(STDERR_FILENO, text, sizeof text - 1);
  _exit(2);
}

/// The libraries ask for memory before main, too, where jemalloc crashes if it has not even room for its own tables.
__attribute__((section(".preinit_array"), used)) static void (*const beforeLibraries)() = [] {
  std::set_new_handler(outOfMemory);
  constexpr size_t room = 16 << 20;
  void *block = mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED)
    outOfMemory();
  munmap(block, room);
};

/// What a command wrote may still be on its way, and the device may be full.
static int afterOutput(int status) {
  errno = 0;
  std::cout.flush();
  if (std::cout && std::fflush(stdout) == 0)
    return status;
  std::cerr << "quern: cannot write to standard output" << (errno ? ": " + quern::support::systemMessage(errno) : "")
            << "\n";
  return std::max(status, 1);
}

static int run(const Command &command, const Arguments &words) {
  try {
    return command.run(words);
  } catch (const std::bad_alloc &) { // a size that no memory has
    outOfMemory();
  } catch (const quern::support::MachineError &error) {
    std::cerr << "quern " << command.name << ": " << error.what() << "\n";
    return 2;
  } catch (const boost::program_options::error &error) { // a logic_error, but the words' fault
    std::cerr << "quern " << command.name << ": " << error.what() << "; see quern " << command.name << " --help\n";
    return 1;
  } catch (const std::logic_error &error) { // no input may lead to one
    return reportFault("failed (" + std::string(error.what()) + ")");
  } catch (const std::exception &error) {
    std::cerr << "quern " << command.name << ": " << quern::support::printableLines(error.what()) << "\n";
    return 1;
  }
}

int main(int argc, char **argv) {
  std::signal(SIGXFSZ, SIG_IGN); // a file that grows too long is an error of write, with a message
  llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { outOfMemory(); });
  Arguments words(argv + 1, argv + argc);
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    usage(words.empty() ? std::cerr : std::cout);
    return words.empty() ? 1 : afterOutput(0);
  }
  if (words[0] == "--version") {
    std::cout << "quern " QUERN_VERSION " (LLVM " LLVM_VERSION_STRING ")\n";
    return afterOutput(0);
  }
  installCrashReport(words);
  quern::runtime::reportMappingFaults(); // of weights; other bus errors are still crashes
  for (const Command &command : commands)
    if (words[0] == command.name)
      return afterOutput(run(command, Arguments(words.begin() + 1, words.end())));
  std::vector<std::string> names;
  for (const Command &command : commands)
    names.push_back(command.name);
  std::string meant = quern::support::didYouMean(words[0], names);
  std::cerr << "quern: unknown command '" << words[0] << "'" << meant
            << (meant.empty() ? "; these are known:\n\n" : " These are known:\n\n");
  usage(std::cerr);
  return 1;
}
