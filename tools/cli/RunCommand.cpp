// quern run: a spec or a checkpoint, compiled once, and on to its first words.
#include "codegen/Compiler.h"
#include "codegen/link/Link.h"
#include "support/Files.h"
#include "tools/cli/Commands.h"
#include "tools/cli/CompileFlags.h"
#include "tools/cli/PackedWeights.h"
#include "tools/cli/ProgramCache.h"
#include "tools/start/RememberedStart.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <sstream>
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
      target.resolved,
      flags.schedules.empty() ? "" : support::readFile(flags.schedules),
      (spec.train ? "train " : "") + spec.precision + " " + spec.quantize + " " + spec.activations + " " +
          spec.kvCache + (flags.symbols ? " symbols" : ""),
      spec.lora.empty() ? "" : llvm::formatv("lora {0} {1}", spec.lora, spec.loraScale).str(),
      llvm::formatv("{0} {1} {2}", flags.memory.memory, flags.memory.rows, flags.memory.length).str(),
      llvm::formatv("{0} {1} {2}", target.machine.threads, target.machine.caches[0], target.machine.caches[1]).str(),
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

static std::string cacheOf(const CompileFlags &flags) {
  return flags.cache.empty() ? support::defaultCacheFolder() : flags.cache;
}

/// Compiles the program, unless it was compiled before; its path is left in `flags.output`. Returns the exit status.
static int compileOnce(CompileFlags &flags, bool report) {
  frontend::Diagnostics diagnostics;
  frontend::SpecInput input;
  if (!readInput(flags.spec, input, diagnostics)) {
    diagnostics.print(std::cerr, useColour());
    return 1;
  }
  ProgramCache cache(cacheOf(flags) + "/programs");
  flags.output = cache.path(fs::path(flags.spec.spec).stem().string(), contentsOf(flags, input));
  bool again = flags.embed || flags.remarks; // what these write is no part of the key
  if (!again && cache.has(flags.output))
    return 0;
  if (report)
    std::cerr << "compiling " << flags.spec.spec << " for " << flags.target
              << " (the next run of this model starts at once)\n";
  bool quiet = flags.quiet;
  flags.quiet = !report;
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

/// Where the checkpoint is packed for the program; empty: it is read as it is. An adapter is added to a checkpoint's numbers, and
/// a device has its own copy of them in any case.
static std::string packedWeights(const CompileFlags &flags, const std::vector<std::string> &words) {
  auto adapts = [](const std::string &word) { return word.starts_with("--adapter"); };
  if (words[1] == "pack" || !flags.adapter.empty() || flags.spec.train ||
      std::any_of(words.begin(), words.end(), adapts) || !codegen::cpuTarget(flags.target).device.empty())
    return "";
  return PackedWeights(cacheOf(flags) + "/packed").get(flags.output, flags.weights, !flags.quiet);
}

/// What it says on stderr, which also goes there.
static std::vector<std::string> linesOf(const std::function<void()> &work) {
  std::ostringstream text;
  struct Redirection {
    explicit Redirection(std::streambuf *to) : from(std::cerr.rdbuf(to)) {}
    ~Redirection() { std::cerr.rdbuf(from); }
    std::streambuf *from;
  };
  {
    Redirection redirection(text.rdbuf());
    work();
  }
  std::cerr << text.str();
  std::istringstream in(text.str());
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    lines.push_back(line);
  return lines;
}

/// The files whose contents `quern run` looks at, and the folders that they are found in.
static std::vector<std::string> decidedBy(const CompileFlags &flags, const std::string &asked,
                                          const std::string &packed) {
  std::vector<std::string> files = {fs::read_symlink("/proc/self/exe").string()};
  for (const std::string &file : codegen::runtimeFiles(flags.spec.train))
    files.push_back(file);
  const std::string database = flags.database.empty() ? defaultDatabase(flags.cache) : flags.database;
  files.insert(files.end(), {database, database + "-wal"}); // until it is written back
  for (const std::string &file :
       {asked, flags.spec.spec, flags.spec.config, flags.schedules, flags.plans, flags.from, flags.weights})
    if (!file.empty())
      for (const std::string &part : support::ggufParts(file))
        files.push_back(part);
  for (const std::string &file : {flags.weights, flags.adapter}) { // tokenizer, config: what is beside a checkpoint
    if (file.empty() || !fs::exists(file))
      continue;
    const std::string folder = support::isFolder(file) ? file : support::folderOf(file);
    files.push_back(folder);
    for (const std::string &name : support::namesIn(folder)) {
      const std::string one = folder + "/" + name;
      files.push_back(one);
      if (support::isFolder(one)) // 1_Pooling
        for (const std::string &inside : support::namesIn(one))
          files.push_back(one + "/" + inside);
    }
  }
  if (!packed.empty())
    files.push_back(packed + "/model.safetensors");
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

static void remember(const Arguments &arguments, RememberedStart start, const std::string &packed) {
  if (!packed.empty())
    start.used.push_back(packed + "/packed.txt");
  Arguments asked = {"run"};
  asked.insert(asked.end(), arguments.begin(), arguments.end());
  rememberStart(startFile(asked), asked, start);
}

int quern::tools::runCommand(const Arguments &arguments) {
  CompileFlags flags;
  po::options_description options("options");
  flags.add(options);
  bool unpacked = false;
  options.add_options()(
      "no-pack", po::bool_switch(&unpacked),
      "read a checkpoint in its own form; else the first run writes its weights into the cache as the "
      "program's kernels read them ($QUERN_PACKED_SIZE MiB at most, 16384), and later ones map them");
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
  const std::string asked = flags.spec.spec;
  const frontend::Architecture *architecture = nullptr;
  std::vector<std::string> said = linesOf([&] {
    architecture = flags.takeCheckpoint();
    takeConfig(flags.spec, flags.weights);
    if (architecture && keepsStored(flags, values))
      flags.spec.precision = "stored";
    flags.takeStored();
  });
  if (int status = compileOnce(flags, architecture && !flags.quiet))
    return status;
  if (end != arguments.end() && *end == "--")
    ++end;
  std::vector<std::string> words = {flags.output};
  if (architecture && (end == arguments.end() || end->front() == '-'))
    words.push_back(architecture->command);
  words.insert(words.end(), end, arguments.end());
  std::string packed;
  // The checkpoint named to the compiler is the program's, too.
  bool reads = words.size() > 1 && words[1] != "info" && words[1] != "train" && words[1].front() != '-';
  if (reads && !flags.weights.empty() && !flags.embed &&
      std::none_of(words.begin(), words.end(), [](const std::string &word) { return word.starts_with("--weights"); })) {
    packed = architecture && !unpacked ? packedWeights(flags, words) : "";
    words.insert(words.end(), {"--weights", packed.empty() ? flags.weights : packed});
  }
  if (reads && !flags.adapter.empty())
    words.insert(words.end(), {"--adapter", flags.adapter});
  // A name of Hugging Face may lead elsewhere next time; what writes beside the program is asked for anew.
  if (!flags.embed && !flags.remarks && fs::exists(asked))
    remember(arguments, {words, decidedBy(flags, asked, packed), {flags.output}, said}, packed);
  std::vector<char *> argv;
  for (std::string &word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  throw std::runtime_error("cannot start " + flags.output);
}
