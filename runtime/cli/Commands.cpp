// Takes: a program's table and its arguments. Gives: an exit status, after running the subcommand.
#include "runtime/cli/Commands.h"

#include "runtime/Error.h"
#include "runtime/files/MappingFaults.h"
#include "runtime/machine/CpuFeatures.h"
#include "runtime/machine/Terminal.h"
#include "runtime/machine/ThreadPool.h"
#include "runtime/tokenizer/files/VocabularyFiles.h"
#include "runtime/tokenizer/text/Unicode.h"
#include "runtime/weights/Adapter.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <unistd.h>

namespace quern::runtime {

namespace {

struct Row {
  const char *name;
  int (*run)(const Command &);
  const char *help;
};
constexpr Row commands[] = {{"generate", generateCommand, "continue a text"},
                            {"chat", chatCommand, "talk with a chat model"},
                            {"eval", evalCommand, "run a function on tensors from a file"},
                            {"embed", embedCommand, "turn texts into vectors"},
                            {"bench", benchCommand, "measure speed next to the machine's limits"},
                            {"pack", packCommand, "write the weights in this program's layout, for a fast start"},
                            {"info", infoCommand, "print what this program is"}};

/// All that this program has.
std::vector<Row> rows() {
  std::vector<Row> all(std::begin(commands), std::end(commands));
  if (&quern_training_commands) {
    all.push_back({"train", quern_training_commands.train, "fit the parameters to texts"});
    all.push_back({"grad", quern_training_commands.grad, "the loss and the gradient of every parameter"});
  }
  if (&quern_tuning_commands)
    all.push_back({"measure", quern_tuning_commands.measure, "compare versions of kernels, for quern tune"});
  if (&quern_tuning_commands && &quern_bundle)
    all.push_back({"tune", quern_tuning_commands.tune, "find the fastest versions of kernels on this machine"});
  return all;
}

std::string usage(const std::string &name, const Description *description) {
  std::string text = description ? name + ": the model " + description->model + ", compiled by Quern\n" : "";
  text += "usage: " + name + " COMMAND [options]\n";
  for (const Row &row : rows())
    text += format("  %-10s %s\n", row.name, row.help);
  return text + "'" + name + " COMMAND --help' lists a command's options\n";
}

int dispatch(const quern_program_table &table, const std::vector<std::string> &arguments) {
  std::string name = arguments.empty() ? "program" : arguments[0];
  name = name.substr(name.rfind('/') + 1);
  Program program(table);
  if (arguments.size() < 2)
    throw UserError("no command given\n" + usage(name, nullptr));
  if (arguments[1] == "--help" || arguments[1] == "-h" || arguments[1] == "help") {
    writeOutput(usage(name, &program.description));
    return 0;
  }
  if (arguments[1] == "--version") {
    writeOutput(program.description.model + ", compiled by Quern " QUERN_VERSION "\n");
    return 0;
  }
  for (const Row &row : rows()) {
    if (arguments[1] != row.name)
      continue;
    // These may be asked on any machine; all else runs kernels.
    if (row.run != infoCommand && row.run != packCommand)
      requireCpuFeatures(program.description.cpu);
    char path[4096];
    ssize_t length = ::readlink("/proc/self/exe", path, sizeof(path));
    Command command{program,
                    length > 0 ? std::string(path, size_t(length)) : arguments[0],
                    {arguments.begin() + 2, arguments.end()}};
    return row.run(command);
  }
  std::vector<std::string> names;
  for (const Row &row : rows())
    names.push_back(row.name);
  if (arguments[1] == "train" || arguments[1] == "grad")
    throw UserError("this program cannot train: quern compile --train makes one that can");
  throw UserError("there is no command " + quote(arguments[1]) + didYouMean(arguments[1], names) + "\n" +
                  usage(name, nullptr));
}

} // namespace

/// Memory may end in any thread, below frames that no exception crosses. Safe without memory.
[[noreturn]] static void outOfMemory() {
  static constexpr char text[] = "error: not enough memory\n";
  (void)!::write(STDERR_FILENO, text, sizeof text - 1);
  ::_exit(2);
}

int runProgram(const quern_program_table &table, int argumentCount, char **arguments) {
  flushDenormals();              // before there are other threads
  std::signal(SIGXFSZ, SIG_IGN); // a file that grows too long is an error of write, with a message
  reportMappingFaults();
  std::set_new_handler(outOfMemory);
  try {
    return dispatch(table, {arguments, arguments + argumentCount});
  } catch (const UserError &error) {
    printError(error.what());
    return 1;
  } catch (const MachineError &error) {
    printError(error.what());
    return 2;
  } catch (const std::bad_alloc &) {
    printError("not enough memory");
    return 2;
  } catch (const std::exception &error) {
    printError(std::string("unexpected: ") + error.what());
    return 2;
  }
}

namespace {

/// Files that the program carries or that are beside it, as one rule for weights and tokenizers.
std::string besideProgram(const std::string &executable, const std::vector<std::string> &names) {
  for (const std::string &name : names)
    if (std::string path = folderOf(executable) + "/" + name; fileExists(path))
      return path;
  return "";
}

std::string baseName(const std::string &path) {
  return path.substr(path.rfind('/') + 1);
}

std::vector<std::string> storedNames(const std::string &executable) {
  std::string name = baseName(executable);
  return {name + ".safetensors", "model.safetensors", "model.safetensors.index.json", name + ".gguf", "model.gguf"};
}

bool holdsWeights(const std::map<std::string, std::shared_ptr<const MappedFile>> &tail) {
  return tail.count("model.safetensors") || tail.count("model.safetensors.index.json") || tail.count("model.gguf");
}

} // namespace

std::unique_ptr<TensorSource> Command::openTensors(const Options &options) const {
  if (options.has("--weights"))
    return TensorSource::open(options.text("--weights"));
  auto tail = readTail(executable);
  if (holdsWeights(tail))
    return TensorSource::open(executable, tail);
  std::string path = besideProgram(executable, storedNames(executable));
  if (path.empty())
    throw UserError("no weights: give --weights FILE or DIR (none are in this program, and there is no "
                    "model.safetensors beside it)");
  return TensorSource::open(path);
}

std::unique_ptr<Weights> Command::openWeights(const Options &options) const {
  std::unique_ptr<TensorSource> source = openTensors(options);
  for (const std::string &folder : options.all("--adapter"))
    source = withAdapter(std::move(source), folder, program.description);
  return Weights::load(program.description, std::move(source));
}

std::string Command::findBeside(const Options &options, const std::string &name) const {
  std::vector<std::string> folders;
  if (options.has("--tokenizer")) {
    std::string given = options.text("--tokenizer");
    folders.push_back(isFolder(given) ? given : folderOf(given));
  }
  if (options.has("--weights")) {
    std::string weights = options.text("--weights");
    folders.push_back(isFolder(weights) ? weights : folderOf(weights));
  } else {
    folders.push_back(folderOf(executable));
  }
  for (const std::string &folder : folders)
    if (fileExists(folder + "/" + name))
      return folder + "/" + name;
  return "";
}

std::optional<std::string> Command::readBeside(const Options &options, const std::string &name) const {
  std::optional<std::string> inside;
  if (options.has("--weights")) {
    inside = textInside(options.text("--weights"), name);
  } else {
    auto tail = readTail(executable);
    if (auto found = tail.find(name); found != tail.end())
      return std::string(found->second->text());
    if (tail.count("model.gguf"))
      inside = textInside(tail, name);
    else if (std::string path = besideProgram(executable, storedNames(executable));
             !path.empty() && !holdsWeights(tail)) // else it is another model's
      inside = textInside(path, name);
  }
  if (inside)
    return inside;
  std::string path = findBeside(options, name);
  return path.empty() ? std::nullopt : std::optional(readFile(path));
}

std::optional<Tokenizer> Command::openTokenizer(const Options &options) const {
  if (std::string weights = options.text("--weights"); !weights.empty() && !isFolder(weights) && !fileExists(weights))
    throw UserError("cannot open " + weights + ": " + systemMessage(ENOENT));
  if (options.has("--tokenizer")) {
    const auto [json, path] = tokenizerAt(options.text("--tokenizer"));
    return Tokenizer::parse(json, path);
  }
  const std::optional<TokenizerText> text =
      findTokenizer([&](const std::string &name) { return readBeside(options, name); });
  if (!text)
    return std::nullopt;
  std::string path = findBeside(options, text->file);
  return Tokenizer::parse(text->json, path.empty() ? text->file + " of the weights" : path);
}

Tokenizer Command::needTokenizer(const Options &options) const {
  if (std::optional<Tokenizer> tokenizer = openTokenizer(options))
    return std::move(*tokenizer);
  if (!options.has("--tokenizer"))
    openTensors(options); // where there are no weights either, that is the mistake
  throw UserError("text needs a tokenizer: give --tokenizer FILE (there is no tokenizer.json, tokenizer.model or the "
                  "like beside the weights), or "
                  "token numbers by --tokens");
}

void configureThreads(const Options &options) {
  ThreadPool::configure(int(options.integer("--threads", 0, 1, 1024)));
  ThreadPool &pool = ThreadPool::instance();
  if (pool.threads() < pool.wanted())
    printWarning(format("the system starts only %d of %d threads", pool.threads(), pool.wanted()));
}

std::vector<int> parseTokens(const std::string &text) {
  std::vector<int> tokens;
  for (size_t at = 0; at <= text.size();) {
    size_t comma = std::min(text.find(',', at), text.size());
    std::string word = text.substr(at, comma - at);
    char *end = nullptr;
    errno = 0;
    long number = std::strtol(word.c_str(), &end, 10);
    if (word.empty() || *end || errno || number < 0 || number > INT32_MAX)
      throw UserError("--tokens needs numbers separated by commas; " + quote(word) + " is no token number");
    tokens.push_back(int(number));
    at = comma + 1;
  }
  return tokens;
}

std::string readStandardInput() {
  std::string text;
  char buffer[1 << 16];
  while (true) {
    ssize_t count = ::read(STDIN_FILENO, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      throw UserError("cannot read standard input: " + systemMessage(errno));
    if (count == 0)
      return text;
    text.append(buffer, size_t(count));
    if (text.size() > size_t(1) << 30)
      throw UserError("standard input is longer than 1 GB");
  }
}

} // namespace quern::runtime

// libstdc++'s own handler prints the exception's type, and for that carries 50 KB of demangler into every program. What
// gets here is a bug; the message and a core are enough.
namespace __gnu_cxx {
void __verbose_terminate_handler();
void __verbose_terminate_handler() {
  std::fputs("error: an exception was not caught\n", stderr);
  std::abort();
}
} // namespace __gnu_cxx
