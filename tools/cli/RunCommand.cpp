// quern run: a spec or a checkpoint, compiled once, and on to its first words.
#include "codegen/Compiler.h"
#include "codegen/link/Link.h"
#include "support/Files.h"
#include "tools/cli/Commands.h"
#include "tools/cli/CompileFlags.h"
#include "tools/cli/ProgramCache.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <unistd.h>

namespace po = boost::program_options;
namespace fs = std::filesystem;
using namespace quern;
using namespace quern::tools;

/// Where the words of `quern run` end and those of the program begin: at "--", else behind the model's name at the first
/// word that is neither an option of `quern run` nor its value.
static Arguments::const_iterator endOfOwnWords(const Arguments &words, const po::options_description &options) {
  if (auto separator = std::find(words.begin(), words.end(), "--"); separator != words.end())
    return separator;
  bool named = false;
  for (auto word = words.begin(); word != words.end(); ++word) {
    if (word->size() < 2 || word->front() != '-') {
      if (named)
        return word;
      named = true;
      continue;
    }
    bool isLong = word->starts_with("--");
    size_t equals = isLong ? word->find('=') : std::string::npos;
    std::string name = isLong ? word->substr(2, equals == std::string::npos ? equals : equals - 2) : word->substr(0, 2);
    const po::option_description *known = name == "help" || name == "-h" ? nullptr : options.find_nothrow(name, false);
    if (!known && named && name != "help" && name != "-h")
      return word;
    bool apart = isLong ? equals == std::string::npos : word->size() == 2;
    if (known && known->semantic()->max_tokens() > 0 && apart && word + 1 != words.end())
      ++word; // its value
  }
  return words.end();
}

/// All that decides what the compiled program is.
static std::vector<std::string> contentsOf(const CompileFlags &flags, const frontend::SpecInput &input) {
  const SpecOptions &spec = flags.spec;
  codegen::CpuTarget target = codegen::cpuTarget(flags.target);
  std::vector<std::string> contents = {
      input.name,
      input.text,
      input.configText.value_or(""),
      target.halide,
      target.llvmCpu,
      flags.schedules.empty() ? "" : support::readFile(flags.schedules),
      (spec.train ? "train " : "") + spec.precision + " " + spec.quantize + " " + spec.activations + " " +
          spec.kvCache + (flags.symbols ? " symbols" : ""),
      llvm::formatv("{0} {1} {2}", flags.memory.memory, flags.memory.rows, flags.memory.length).str(),
      flags.from};
  for (const TunedPlan &plan : tunedPlans(flags))
    contents.push_back("plan " + plan.kernel + " " + plan.plan);
  for (const std::string &setting : spec.settings)
    contents.push_back("set " + setting);
  for (const std::string &names : flags.without)
    contents.push_back("without " + names);
  contents.push_back(support::readFile("/proc/self/exe")); // the compiler, and what it links
  for (const std::string &file : codegen::runtimeFiles(spec.train))
    contents.push_back(support::readFile(file));
  return contents;
}

/// Compiles the program, unless it was compiled before; its path is left in `flags.output`. Returns the exit status.
static int compileOnce(CompileFlags &flags, bool tell) {
  frontend::Diagnostics diagnostics;
  frontend::SpecInput input;
  if (!readInput(flags.spec, input, diagnostics)) {
    diagnostics.print(std::cerr, useColour());
    return 1;
  }
  ProgramCache cache((flags.cache.empty() ? codegen::defaultCache() : flags.cache) + "/programs");
  flags.output = cache.path(fs::path(flags.spec.spec).stem().string(), contentsOf(flags, input));
  bool again = flags.embed || flags.remarks; // what these write is no part of the key
  if (!again && cache.has(flags.output))
    return 0;
  if (tell)
    std::cerr << "compiling " << flags.spec.spec << " for " << flags.target
              << " (the next run of this model starts at once)\n";
  bool quiet = flags.quiet;
  flags.quiet = !tell;
  if (int status = compile(flags))
    return status;
  flags.quiet = quiet;
  cache.keep(flags.output);
  return 0;
}

/// Whether a checkpoint's program keeps weights as they are stored where nothing else was asked for. An adapter is added to
/// numbers of f32, and a device's kernels are made for these.
static bool keepsStored(const CompileFlags &flags, const po::variables_map &values) {
  return !values.count("precision") && flags.spec.quantize.empty() && !flags.spec.train && flags.adapter.empty() &&
         codegen::cpuTarget(flags.target).device.empty();
}

int quern::tools::runCommand(const Arguments &arguments) {
  CompileFlags flags;
  po::options_description options("options");
  flags.add(options);
  auto end = endOfOwnWords(arguments, options);
  po::variables_map values;
  if (!parseOptions(
          Arguments(arguments.begin(), end),
          "quern run MODEL [options] [--] [COMMAND] [its options]\n"
          "  MODEL: SPEC.quern; or a checkpoint whose spec is known: a folder or ORG/NAME from "
          "Hugging Face, or a GGUF file\n"
          "  COMMAND: generate, chat, eval, embed, bench, info; for a checkpoint generate if it is a decoder, embed "
          "if it is an encoder",
          options, values))
    return 0;
  if (flags.emit != "exe" || !flags.to.empty())
    throw std::runtime_error("--emit and --compile-to stop before there is a program; use quern compile");
  const frontend::Architecture *architecture = flags.takeCheckpoint();
  takeConfig(flags.spec, flags.weights);
  if (architecture && keepsStored(flags, values))
    flags.spec.precision = "stored";
  flags.takeStored();
  if (int status = compileOnce(flags, architecture && !flags.quiet))
    return status;
  if (end != arguments.end() && *end == "--")
    ++end;
  std::vector<std::string> words = {flags.output};
  if (architecture && (end == arguments.end() || end->front() == '-'))
    words.push_back(architecture->command);
  words.insert(words.end(), end, arguments.end());
  // The checkpoint named to the compiler is the program's, too.
  bool reads = words.size() > 1 && words[1] != "info" && words[1] != "train" && words[1].front() != '-';
  if (reads && !flags.weights.empty() && !flags.embed &&
      std::none_of(words.begin(), words.end(), [](const std::string &word) { return word.starts_with("--weights"); }))
    words.insert(words.end(), {"--weights", flags.weights});
  if (reads && !flags.adapter.empty())
    words.insert(words.end(), {"--adapter", flags.adapter});
  std::vector<char *> argv;
  for (std::string &word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  throw std::runtime_error("cannot start " + flags.output);
}
