// quern-reduce: a failing spec or module, made small.
//
//   quern-reduce FILE.quern|FILE.mlir --test 'COMMAND' -o OUT
//
// COMMAND is run by the shell with the candidate's file in place of {} (or as its last word); status 0 means that the
// candidate still shows what is looked for.
#include "tools/reduce/Reduce.h"

#include "support/Files.h"
#include "support/OutputFile.h"
#include "support/TemporaryFolder.h"

#include <algorithm>
#include <boost/program_options.hpp>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <stdexcept>

namespace po = boost::program_options;
using namespace quern::tools;

static int run(int count, char **words) {
  std::string input, test, output;
  po::options_description options("options");
  options.add_options()("input", po::value(&input)->required(), "FILE.quern or FILE.mlir")(
      "test", po::value(&test)->required(), "shell command; {} is the candidate; status 0: it still has the fault")(
      "output,o", po::value(&output),
      "the smaller file (default: beside the input, with .reduced before its ending)")("help,h", "this text");
  po::positional_options_description positions;
  positions.add("input", 1);
  po::variables_map values;
  po::store(po::command_line_parser(count, words).options(options).positional(positions).run(), values);
  if (values.count("help")) {
    std::cout << "usage: quern-reduce FILE.quern|FILE.mlir --test 'COMMAND' [-o OUT]\n\n" << options;
    return 0;
  }
  po::notify(values);
  size_t dot = input.rfind('.');
  std::string ending = dot == std::string::npos ? "" : input.substr(dot);
  if (ending != ".quern" && ending != ".mlir")
    throw std::runtime_error(input + ": a .quern or .mlir file is needed");
  if (output.empty())
    output = input.substr(0, dot) + ".reduced" + ending;
  std::string text = quern::support::readFile(input);

  quern::support::TemporaryFolder folder;
  std::string command = test, place = folder.path() + "/candidate" + ending;
  if (command.find("{}") == std::string::npos)
    command += " {}";
  for (size_t at; (at = command.find("{}")) != std::string::npos;)
    command.replace(at, 2, place);
  setenv("QUERN_CRASH_REPORT", "0", 1);               // hundreds of the same crash need no report each
  auto kind = std::filesystem::status(output).type(); // a pipe has one reader, who gets the result
  bool keepsLast = kind == std::filesystem::file_type::not_found || kind == std::filesystem::file_type::regular;
  long tried = 0;
  Interesting interesting = [&](const std::string &now) {
    quern::support::writeFile(place, now);
    bool yes = std::system(("{ " + command + "\n} >/dev/null 2>&1").c_str()) == 0;
    if (++tried && yes && tried > 1) {
      if (keepsLast)
        quern::support::writeFile(output, now); // what is found so far, should somebody grow impatient
      std::cerr << tried << " tried, " << std::count(now.begin(), now.end(), '\n') << " lines\n";
    }
    return yes;
  };
  bool shows = interesting(text);
  std::string reduced;
  if (shows)
    reduced = ending == ".quern" ? reduceSpec(text, interesting) : reduceModule(text, interesting);
  if (!shows)
    throw std::runtime_error("the command does not succeed on " + input + " itself: " + test);
  quern::support::writeFile(output, reduced);
  std::cerr << output << ": " << std::count(reduced.begin(), reduced.end(), '\n') << " lines of "
            << std::count(text.begin(), text.end(), '\n') << ", after " << tried << " tries\n";
  return 0;
}

int main(int count, char **words) {
  std::signal(SIGXFSZ, SIG_IGN); // a file that grows too long is an error of write, with a message
  try {
    int status = run(count, words);
    if (!std::cout.flush())
      throw std::runtime_error("cannot write to standard output");
    return status;
  } catch (const std::exception &error) {
    std::cerr << "quern-reduce: " << error.what() << "\n";
    return 1;
  }
}
