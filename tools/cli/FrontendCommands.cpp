// quern check, fmt and init: what is said of a spec before it is compiled.
#include "frontend/Architectures.h"
#include "frontend/Frontend.h"
#include "ir/analysis/SourceLines.h"
#include "passes/time/SlowSums.h"
#include "runtime/gguf/Gguf.h"
#include "support/Error.h"
#include "support/Files.h"
#include "support/OutputFile.h"
#include "tools/cli/Commands.h"
#include "tools/spec/ModelPath.h"
#include "tools/spec/SpecOptions.h"

#include <iostream>

namespace po = boost::program_options;
using namespace quern::tools;
using namespace quern::frontend;

static constexpr uint64_t specLimit = 16'000'000; // as the lexer's

/// The place in a text that a location names: the name that begins there.
static Span spanOf(const Source &source, mlir::FileLineColLoc line) {
  auto isWord = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  std::string_view text = source.getText();
  uint32_t begin = 0;
  for (unsigned i = 1; i < line.getLine() && begin < text.size(); ++i)
    begin = source.lineAround(begin).second + 1;
  while (begin < text.size() && source.place(begin).line == line.getLine() &&
         source.place(begin).column < line.getColumn())
    ++begin;
  uint32_t end = begin;
  while (end < text.size() && isWord(text[end]))
    ++end;
  return {&source, begin, std::max(end, begin + 1)};
}

/// Q044: recurrences that are written as sums over all positions.
static void warnOfSlowSums(const SpecInput &input, Diagnostics &diagnostics) {
  mlir::MLIRContext context;
  Diagnostics again; // has nothing more to say
  mlir::OwningOpRef<mlir::ModuleOp> module = elaborate(context, input, again);
  if (!module)
    return;
  auto source = std::make_shared<Source>(input.name, input.text);
  diagnostics.keep(source);
  for (const quern::passes::SlowSum &sum : quern::passes::slowSums(*module))
    for (mlir::FileLineColLoc line : quern::ir::sourceLines(sum.where))
      if (!quern::ir::isLibrary(line)) {
        diagnostics.warning("Q044",
                            "this sum over " + sum.sum + " meets every " + sum.time + " with every " + sum.sum + ": " +
                                sum.pair + " grows with the square of the text in each layer; a state that `scan " +
                                sum.time + "` carries does not (docs/language.md, section 11)",
                            spanOf(*source, line));
        break;
      }
}

int quern::tools::checkCommand(const Arguments &arguments) {
  SpecOptions spec;
  bool json = false;
  po::options_description options("options");
  addSpecOptions(options, spec);
  options.add_options()("json", po::bool_switch(&json), "mistakes and warnings as JSON on stdout");
  po::variables_map values;
  if (!parseOptions(arguments, "quern check SPEC [--config FILE] [--set NAME=VALUE] [--json]", options, values))
    return 0;
  Diagnostics diagnostics;
  SpecInput input;
  if (readInput(spec, input, diagnostics) && checkSpec(input, diagnostics))
    warnOfSlowSums(input, diagnostics);
  if (json)
    std::cout << diagnostics.toJson() << "\n";
  else
    diagnostics.print(std::cerr, useColour());
  if (!diagnostics.hasErrors() && !json)
    std::cerr << spec.spec << ": no mistakes\n";
  return diagnostics.hasErrors() ? 1 : 0;
}

static int formatFile(const std::string &path, bool check) {
  Diagnostics diagnostics;
  std::string text = quern::support::readFile(path, specLimit);
  std::optional<std::string> formatted = formatSpec(path, text, diagnostics);
  diagnostics.print(std::cerr, useColour());
  if (!formatted)
    return 1;
  if (*formatted == text)
    return 0;
  if (check) {
    std::cerr << path << ": quern fmt would change it\n";
    return 1;
  }
  quern::support::writeFile(path, *formatted);
  return 0;
}

int quern::tools::fmtCommand(const Arguments &arguments) {
  std::vector<std::string> files;
  bool check = false;
  po::options_description options("options");
  options.add_options()("files", po::value(&files)->required(), "specs, rewritten in place; - for stdin to stdout")(
      "check", po::bool_switch(&check), "change nothing; exit status 1 if something would change");
  po::variables_map values;
  if (!parseOptions(arguments, "quern fmt SPEC... [--check]", options, values, "files"))
    return 0;
  int status = 0;
  for (const std::string &file : files) {
    if (file != "-") {
      status = std::max(status, formatFile(file, check));
      continue;
    }
    std::string text = quern::support::readFile("/dev/stdin", specLimit);
    Diagnostics diagnostics;
    std::optional<std::string> formatted = formatSpec("stdin", text, diagnostics);
    diagnostics.print(std::cerr, useColour());
    if (formatted)
      std::cout << *formatted;
    else
      status = 1;
  }
  return status;
}

int quern::tools::initCommand(const Arguments &arguments) {
  std::string folder, output;
  po::options_description options("options");
  options.add_options()("from", po::value(&folder)->required(),
                        "a Hugging Face model's folder, a file in it, or ORG/NAME in its cache; or a GGUF file")(
      "output,o", po::value(&output), "where the spec goes (default: its own name in this folder; - for stdout)");
  po::variables_map values;
  if (!parseOptions(arguments, "quern init --from MODEL [-o SPEC]", options, values, "from"))
    return 0;
  std::filesystem::path config(folder);
  if (!std::filesystem::exists(config))
    config = findModel(folder).path;
  if (std::filesystem::is_directory(config))
    config /= "config.json";
  else if (config.extension() == ".safetensors")
    config.replace_filename("config.json");
  const std::string text =
      config.extension() == ".gguf"
          ? quern::runtime::ggufConfig(quern::runtime::GgufFile(quern::runtime::MappedFile::open(config))).dump()
          : quern::support::readFile(config, specLimit);
  Diagnostics diagnostics;
  std::optional<FoundArchitecture> found =
      findArchitecture(text, config.string(), diagnostics, [&](const std::string &file) {
        return std::filesystem::is_regular_file(config.parent_path() / file);
      });
  diagnostics.print(std::cerr, useColour());
  if (!found)
    return 1;
  if (!found->otherClass.empty())
    std::cerr << "note: the model is a " << quern::support::printable(found->otherClass) << ", the spec is for "
              << found->architecture->classList() << ": change what differs (docs/porting.md)\n";
  if (output == "-") {
    std::cout << found->architecture->text;
    return 0;
  }
  if (output.empty())
    output = found->architecture->spec + ".quern";
  if (std::filesystem::is_regular_file(output))
    throw std::runtime_error(output + " is there already; name another file with -o");
  quern::support::writeFile(output, found->architecture->text);
  std::cerr << "wrote " << output << "; next: quern compile " << output << " --config " << config.string() << "\n";
  return 0;
}
