// quern quantize: a checkpoint in fewer bits, as a folder that programs and the compiler read, and what that costs.
#include "codegen/Compiler.h"
#include "support/Error.h"
#include "support/Files.h"
#include "support/OutputFile.h"
#include "tools/cli/Commands.h"
#include "tools/cli/CompileFlags.h"
#include "tools/crash/CrashReport.h"
#include "tools/quantize/Importance.h"
#include "tools/quantize/QuantizedFolder.h"
#include "tools/quantize/Report.h"

#include <iostream>
#include <unistd.h>

namespace po = boost::program_options;
namespace runtime = quern::runtime;
using namespace quern::tools;
using quern::support::format;
using quern::support::formatBytes;
using quern::support::UserError;

namespace {

struct QuantizeFlags {
  CompileFlags compile;
  std::string output, text, report, tokenizer, perplexity, size, important;
  int64_t tokens = 4096, length = 512, importantTokens = 256;
  int rounds = 3;
};

/// One command: the model, and the programs that are made of it.
class Quantizing {
public:
  explicit Quantizing(QuantizeFlags flags) : flags(std::move(flags)), compile(this->flags.compile) {}
  int run();

private:
  QuantizeFlags flags;
  CompileFlags &compile;
  CheckpointPlaces places;
  std::unique_ptr<runtime::TensorSource> source;
  std::optional<quern::support::TemporaryFolder> work;
  std::optional<TextMeasure> text;
  Importance importance;
  int64_t longest = 0;

  bool hasGoal() const { return !flags.perplexity.empty() || !flags.size.empty(); }
  void checkFlags() const;
  void takeModel();
  void openText();
  runtime::Description describe(const std::string &quantize) const;
  std::vector<StoredForm> forms(const std::string &quantize) const { return storedForms(describe(quantize), *source); }
  std::string program(const std::string &quantize, const std::string &name) const;
  ChosenMix choose();
  void measureImportance();
  std::vector<StoredForm> weightedForms() const;
  MeasuredModel measured(const std::string &program, const std::string &weights);
  void progress(const std::string &line) const;
};

} // namespace

void Quantizing::progress(const std::string &line) const {
  if (compile.quiet)
    return;
  if (isatty(STDERR_FILENO))
    std::cerr << "\r\033[K" << line << std::flush;
  else if (!line.empty())
    std::cerr << line << "\n";
}

void Quantizing::checkFlags() const {
  if (flags.text.empty() && hasGoal())
    throw UserError("--target-perplexity and --size choose formats by what a text loses: --text FILE is missing");
  if (flags.text.empty() && !flags.report.empty())
    throw UserError("--report shows what a text loses: --text FILE is missing");
  if (flags.tokens < 2 || flags.importantTokens < 2 || flags.length < 2 || flags.rounds < 1)
    throw UserError("--tokens, --importance-tokens and --length are at least 2, --rounds at least 1");
  checkTarget(flags.output);
}

/// As quern compile takes its MODEL, and --weights where that is a spec.
void Quantizing::takeModel() {
  const quern::frontend::Architecture *architecture = compile.takeCheckpoint();
  if (!compile.adapter.empty())
    throw UserError(compile.adapter + " is an adapter; quantise its base model, and give the program --adapter " +
                    compile.adapter);
  if (compile.weights.empty())
    throw UserError(compile.spec.spec + " is a spec: --weights CHECKPOINT is missing");
  takeConfig(compile.spec, compile.weights);
  compile.spec.kvCache = "f32"; // what is measured is what weights lose
  places = {compile.weights, compile.spec.config, {}};
  if (architecture)
    for (const auto &[file, fields] : architecture->settings)
      places.beside.push_back(file);
  if (quern::support::isFolder(places.weights))
    for (const quern::support::SentenceModule &module : quern::support::sentenceModules(places.weights))
      if (!module.path.empty()) // what it is; its weights go with the model's
        places.beside.push_back(module.path + "/config.json");
  source = runtime::TensorSource::open(places.weights);
}

/// What the program with these formats says about itself; nothing is compiled.
runtime::Description Quantizing::describe(const std::string &quantize) const {
  SpecOptions spec = compile.spec;
  spec.quantize = quantize;
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module = readModule(context, spec);
  if (!module)
    throw UserError(spec.spec + " has mistakes");
  if (mlir::failed(quern::passes::runPhases(*module, passOptions(compile.target), "resolved", "")))
    std::exit(reportFailedPasses());
  quern::codegen::CompileOptions options;
  options.spec = spec.spec;
  options.target = quern::codegen::cpuTarget(compile.target);
  return runtime::Description::parse(quern::codegen::describeProgram(*module, options));
}

/// Compiles the program with these formats.
std::string Quantizing::program(const std::string &quantize, const std::string &name) const {
  CompileFlags own = compile;
  own.spec.quantize = quantize;
  own.output = work->path() + "/" + name;
  own.quiet = true;
  if (::compile(own))
    throw UserError(own.spec.spec + " with --quantize " + quantize + " does not compile");
  return own.output;
}

void Quantizing::openText() {
  runtime::Description description = describe("f32");
  longest = longestRow(description, compile.spec.spec);
  const runtime::FunctionInfo &forward = description.functions[size_t(description.findFunction("forward"))];
  int64_t vocabulary = forward.outputs[0].dims[2].evaluate(std::vector<int64_t>(description.symbols.size()));
  work.emplace();
  text.emplace(readRows(flags.text, places.weights, flags.tokenizer, std::min(flags.length, longest), flags.tokens),
               vocabulary);
}

/// A growth such as "0.5%", as a share.
static double shareOf(const std::string &given) {
  char *end = nullptr;
  double number = std::strtod(given.c_str(), &end);
  if (end == given.c_str() || std::string(end) != "%" || !(number >= 0) || number > 1e6)
    throw UserError("--target-perplexity " + given + ": a growth such as 0.5% is needed");
  return number / 100;
}

ChosenMix Quantizing::choose() {
  MixGoal goal;
  if (!flags.size.empty())
    goal.bytes = uint64_t(parseBytes("--size", flags.size, 1000));
  if (!flags.perplexity.empty())
    goal.perplexity = shareOf(flags.perplexity);
  MixQuestions ask;
  ask.forms = [&](const std::string &quantize) { return forms(quantize); };
  ask.loss = [&](const std::string &quantize) { return text->measure(program(quantize, "trial"), places.weights); };
  ask.progress = [&](const std::string &line) { progress(line); };
  return chooseMix(ask, goal, ladderTo(compile.spec.quantize.empty() ? "int4" : compile.spec.quantize));
}

/// What the text of --importance says.
void Quantizing::measureImportance() {
  TextRows rows =
      readRows(flags.important, places.weights, flags.tokenizer,
               std::min(flags.length, longestRow(describe("f32"), compile.spec.spec)), flags.importantTokens);
  progress("reading " + std::to_string(rows.predicted()) + " tokens of " + flags.important + " in double precision");
  SpecOptions spec = compile.spec;
  spec.quantize = "f32";
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module = readModule(context, spec);
  if (!module)
    throw UserError(spec.spec + " has mistakes");
  importance = importanceOf(*module, places.weights, rows);
}

/// Of the formats that were given or chosen, with the importance of each tensor.
std::vector<StoredForm> Quantizing::weightedForms() const {
  std::vector<StoredForm> result = forms(compile.spec.quantize);
  for (StoredForm &form : result)
    if (auto found = importance.find(form.name); found != importance.end())
      form.importance = &found->second;
  return result;
}

MeasuredModel Quantizing::measured(const std::string &program, const std::string &weights) {
  progress("measuring " + weights);
  return {0, text->measure(program, weights), {}};
}

int Quantizing::run() {
  checkFlags();
  takeModel();
  QuantizeReport report;
  if (!flags.text.empty())
    openText();
  if (hasGoal()) {
    report.mix = choose();
    compile.spec.quantize = report.mix->quantize;
  }
  if (compile.spec.quantize.empty())
    compile.spec.quantize = "int8";
  std::string exact, rounded; // programs
  if (text) {
    exact = program("f32", "exact");
    report.before = measured(exact, places.weights);
  }
  if (!flags.important.empty())
    measureImportance();
  progress("writing " + flags.output);
  report.tensors = writeQuantizedFolder(flags.output, places, weightedForms(), compile.spec.quantize);
  for (const QuantizedTensor &tensor : report.tensors) {
    report.before.bytes += tensor.form.source->bytes;
    report.after.bytes += tensor.bytes;
  }
  if (text) {
    rounded = program(compile.spec.quantize, "rounded");
    uint64_t bytes = report.after.bytes;
    report.after = measured(rounded, flags.output);
    report.after.bytes = bytes;
    progress("measuring speeds");
    std::vector<Speed> speeds =
        speedsAlternately({{exact, places.weights}, {rounded, flags.output}}, flags.rounds, longest);
    report.before.speed = speeds[0];
    report.after.speed = speeds[1];
  }
  progress("");
  if (!compile.quiet)
    std::cout << format("%s: %s of weights, %s before; %s\n", flags.output.c_str(),
                        formatBytes(double(report.after.bytes)).c_str(),
                        formatBytes(double(report.before.bytes)).c_str(), compile.spec.quantize.c_str());
  if (!text)
    return 0;
  report.model = compile.weights;
  report.folder = flags.output;
  report.quantize = compile.spec.quantize;
  report.text = flags.text;
  report.predicted = text->text().predicted();
  report.length = int64_t(text->text().rows[0].size());
  std::cout << "\n" << reportTable(report);
  if (!flags.report.empty())
    quern::support::writeFile(flags.report, reportHtml(report));
  return 0;
}

int quern::tools::quantizeCommand(const Arguments &arguments) {
  QuantizeFlags flags;
  po::options_description options("options");
  addSpecOptions(options, flags.compile.spec);
  addQuantize(options, flags.compile.spec);
  options.add_options()("weights", po::value(&flags.compile.weights), "the checkpoint, where MODEL is a spec")(
      "output,o", po::value(&flags.output)->required(),
      "FOLDER to write; it replaces an earlier one of quern quantize when it is complete")(
      "text", po::value(&flags.text),
      "FILE: measure on it what is lost (perplexity, KL divergence), and speed, and print a table")(
      "report", po::value(&flags.report), "FILE: the table as HTML, with the errors of each layer")(
      "target-perplexity", po::value(&flags.perplexity),
      "GROWTH such as 0.5%: choose the smallest mix of formats whose perplexity on --text grows by no more")(
      "size", po::value(&flags.size),
      "SIZE such as 700M: choose the mix that loses least among those whose weights have at most so many bytes (M: a "
      "million); "
      "with both goals, the smaller mix. --quantize is then the smallest format: int4 (default), int8, q4_k, q5_k, "
      "q6_k, "
      "w4a8, w8a8, bf16 or f16")("importance", po::value(&flags.important),
                                 "FILE: round weights so that errors are small where this text has large activations; "
                                 "the codes then differ from those of --quantize at compile time")(
      "importance-tokens", po::value(&flags.importantTokens),
      "tokens of it that the interpreter reads, which takes long for large models (256)")(
      "tokens", po::value(&flags.tokens), "tokens of the text that count (4096)")(
      "length", po::value(&flags.length), "tokens of a row (512, or the model's maximum)")(
      "tokenizer", po::value(&flags.tokenizer), "FILE: of the text, if it is not beside the weights")(
      "rounds", po::value(&flags.rounds), "runs of each program for its speed: the median counts (3)")(
      "cache-dir", po::value(&flags.compile.cache),
      "folder of compiled kernels (default: $QUERN_CACHE, else the user's cache)")(
      "jobs,j", po::value(&flags.compile.jobs), "kernels compiled at the same time (default: all processors)")(
      "quiet,q", po::bool_switch(&flags.compile.quiet), "no progress, and no summary on success");
  po::variables_map values;
  if (!parseOptions(
          arguments,
          "quern quantize CHECKPOINT -o FOLDER [--quantize FORMATS] [options]\n  FORMATS: int8 unless given\n"
          "  CHECKPOINT: a folder or ORG/NAME from Hugging Face, or a GGUF file; or SPEC.quern with --weights",
          options, values))
    return 0;
  return Quantizing(std::move(flags)).run();
}
