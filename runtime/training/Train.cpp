// `train`: takes texts (or token numbers, or tensors) and settings. Gives: checkpoints of a model that fits them
// better, a log in JSON lines, a report.
//
// Everything that a step depends on is in the checkpoint or follows from the step's number: a run that was killed and
// resumed gives the numbers of one that was not, bit for bit.
#include "runtime/Error.h"
#include "runtime/cli/ProfileReport.h"
#include "runtime/engine/Sequence.h"
#include "runtime/machine/Probe.h"
#include "runtime/machine/Terminal.h"
#include "runtime/machine/ThreadPool.h"
#include "runtime/sampling/Sampler.h"
#include "runtime/tokenizer/text/Unicode.h"
#include "runtime/training/Corpus.h"
#include "runtime/training/Data.h"
#include "runtime/training/Report.h"
#include "runtime/training/RunFolder.h"
#include "runtime/training/Settings.h"
#include "runtime/weights/Adapter.h"
#include "runtime/weights/AdapterBase.h"
#include "support/CheckpointFiles.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>

namespace quern::runtime {

namespace {

using Json = nlohmann::json;

volatile std::sig_atomic_t interrupted = 0;

/// The first Ctrl-C asks for an orderly end, the second one is the system's.
void onInterrupt(int signal) {
  interrupted = signal;
  std::signal(signal, SIG_DFL);
}

class Run {
public:
  Run(const Command &command, const Options &options, const std::vector<std::string> &arguments, TrainSettings settings)
      : command(command), d(command.program.description), s(std::move(settings)), arguments(arguments),
        folder(s.output, s.resume), trainer(command.program, s.optimizer, s.seed) {
    loadParameters(options);
    openData(options);
  }
  int train();

private:
  int takeSteps();
  const Command &command;
  const Description &d;
  TrainSettings s;
  std::vector<std::string> arguments;
  RunFolder folder;
  Trainer trainer;
  TrainTokenizer tokenizer;
  std::string base; // what the adapters are beside, as a hash
  std::unique_ptr<Data> data, valid;
  std::vector<int> prompt;
  std::unique_ptr<RunLog> log;
  TrainProgress progress;
  double peak = 0, bestLoss = INFINITY;
  uint64_t bestStep = 0;

  void loadParameters(const Options &options);
  void openData(const Options &options);
  std::vector<int32_t> readTokens(const std::string &path, const std::string &text) const;
  Json describeRun() const;
  std::string describePlan() const;
  double step(uint64_t number);
  double validationLoss(uint64_t batches);
  void evaluate(bool last);
  void sample();
  void save(bool last);
  void report();
  [[noreturn]] void stopBroken(uint64_t number, const Values &inputs, const std::string &what);
};

void Run::loadParameters(const Options &options) {
  std::string checkpoint = s.resume ? folder.newest() : "";
  bool whole = s.resume && !trainer.trainsAdapters();
  if (std::string path = whole ? checkpoint : options.text("--weights"); !path.empty()) {
    std::unique_ptr<TensorSource> source = TensorSource::open(path);
    if (trainer.trainsAdapters())
      base = fingerprintOf(*source);
    std::string adapter = whole ? "" : s.resume ? checkpoint : options.text("--adapter");
    trainer.load(adapter.empty() ? std::move(source) : withAdapter(std::move(source), adapter, d));
  }
  if (!s.resume)
    return;
  verifyCheckpoint(checkpoint);
  std::string state = checkpoint + "/optimizer.safetensors";
  trainer.restore(readSafetensors(MappedFile::open(state)), state);
}

std::vector<int32_t> Run::readTokens(const std::string &path, const std::string &text) const {
  std::vector<int32_t> tokens = isTokenFile(path) ? readTokenFile(path) : encodeText(tokenizer, text, path);
  const FunctionInfo &function = d.functions[size_t(trainer.training().function)];
  std::string hint =
      isTokenFile(path) || !tokenizer.tokenizer
          ? ""
          : format("; the tokenizer %s makes %d: compile the model for as many, or give another --tokenizer",
                   tokenizer.name.c_str(), tokenizer.tokenizer->size());
  if (function.inputs.at(0).below)
    checkBound(tokens, *function.inputs[0].below, path, hint);
  return tokens;
}

/// The file with the tokenizer beside the weights; empty if there is none.
static std::string vocabularyBeside(const Command &command, const Options &options) {
  std::string path = command.findBeside(options, "tokenizer.json");
  for (const char *name : vocabulariesBesideWeights)
    if (path.empty())
      path = command.findBeside(options, name);
  return path;
}

void Run::openData(const Options &options) {
  const FunctionInfo &function = d.functions[size_t(trainer.training().function)];
  bool next = trainer.training().nextToken;
  auto isTensors = [](const std::string &path) { return path.ends_with(".safetensors"); };
  std::string file = !s.tokenizer.empty()       ? s.tokenizer
                     : options.has("--weights") ? vocabularyBeside(command, options)
                                                : "";
  if (s.resume && fileExists(folder.newest() + "/tokenizer.json"))
    file = folder.newest() + "/tokenizer.json";
  if (!s.valid.empty() && isTensors(s.valid) != isTensors(s.data))
    throw UserError("--data and --valid must both be .safetensors or both not");
  if (isTensors(s.data)) {
    data = makeExamples(s.data, d, function, next, s.seed);
    if (!s.valid.empty())
      valid = makeExamples(s.valid, d, function, next, std::nullopt);
    if (!s.tokenizer.empty())
      tokenizer = makeTokenizer(file, "");
    return;
  }
  if (!next)
    throw UserError("this model's loss takes " + describeInputs(d, function) +
                    ", which a text alone does not give: --data needs a .safetensors file with them");
  bool isText = !isTokenFile(s.data);
  std::string text = isText ? readText(s.data) : "";
  if (isText || !file.empty())
    tokenizer = makeTokenizer(file.empty() ? "chars" : file, text);
  std::vector<int32_t> tokens = readTokens(s.data, text), validTokens;
  if (!s.valid.empty()) {
    validTokens = readTokens(s.valid, isTokenFile(s.valid) ? "" : readText(s.valid));
  } else if (s.split > 0) {
    size_t from = size_t(double(tokens.size()) * (1 - s.split));
    validTokens.assign(tokens.begin() + std::ptrdiff_t(from), tokens.end());
    tokens.resize(from);
  }
  auto stream = [&](std::vector<int32_t> part, const std::string &name, std::optional<uint64_t> seed) {
    if (int64_t(part.size()) <= s.length)
      throw UserError(
          format("%s has %zu tokens, but a row takes %lld and the one after it: more text, or a smaller --length",
                 name.c_str(), part.size(), static_cast<long long>(s.length)));
    return makeStream(std::move(part), function.inputs.at(0).name, s.length, seed);
  };
  if (tokenizer.tokenizer && !s.prompt.empty())
    prompt = tokenizer.tokenizer->encode(s.prompt, false);
  if (prompt.empty() && !tokens.empty())
    prompt = {validTokens.empty() ? tokens[0] : validTokens[0]};
  data = stream(std::move(tokens), s.data, s.seed);
  if (!s.valid.empty() || !validTokens.empty())
    valid =
        stream(std::move(validTokens), s.valid.empty() ? "the validation part of " + s.data : s.valid, std::nullopt);
}

Json Run::describeRun() const {
  return {{"run",
           {{"model", d.model},
            {"parameters", trainer.parameterCount()},
            {"trained", trainer.trainedCount()},
            {"data", s.data},
            {"holds", data->describe()},
            {"passes", double(s.steps * s.accumulate) / data->batches(s.batch)},
            {"validation", valid ? valid->describe() : "none"},
            {"steps", s.steps},
            {"batch", s.batch},
            {"length", s.length},
            {"accumulate", s.accumulate},
            {"optimizer", s.optimizer.kind},
            {"rate", s.rate},
            {"schedule", s.schedule},
            {"warmup", s.warmup},
            {"decay", s.optimizer.decay},
            {"clip", s.optimizer.clip},
            {"seed", s.seed},
            {"threads", ThreadPool::instance().threads()},
            {"peak_flops", peak}}}};
}

/// What is needed to look into it stays in the folder.
void Run::stopBroken(uint64_t number, const Values &inputs, const std::string &what) {
  std::string place = folder.path() + "/broken-" + std::to_string(number);
  std::vector<OutputTensor> stored;
  for (const auto &[name, value] : inputs)
    stored.push_back({name,
                      value.storage == Storage::F32   ? Dtype::F32
                      : value.storage == Storage::I32 ? Dtype::I32
                                                      : Dtype::BOOL,
                      value.shape, value.data.data()});
  writeSafetensors(place + ".inputs.safetensors", stored);
  std::string file = place + (trainer.trainsAdapters() ? ".adapter.safetensors" : ".model.safetensors");
  writeSafetensors(file, trainer.tensors());
  log->write(Json{{"step", number}, {"broken", what}}.dump());
  throw UserError(format("step %llu: ", static_cast<unsigned long long>(number)) + what +
                  "; parameters and inputs of the step are in " + place + ".*, the last checkpoint is " +
                  (folder.newest().empty() ? "not there yet" : folder.newest()) +
                  "\nfor the operation: quern interpret SPEC --train --first-broken --weights " +
                  (trainer.trainsAdapters() ? s.weights + " --lora RANK --adapter " : "") + file + " --input " + place +
                  ".inputs.safetensors --output /dev/null");
}

/// One update; its mean loss.
double Run::step(uint64_t number) {
  double begin = now(), loss = 0, labels = 0, rate = s.rateAt(number);
  Values inputs;
  for (int64_t i = 0; i < s.accumulate; ++i) {
    inputs = data->batch((number - 1) * uint64_t(s.accumulate) + uint64_t(i), s.batch);
    double part = trainer.accumulate(inputs), count = countLabels(inputs);
    if (!std::isfinite(part))
      stopBroken(number, inputs, format("the loss is %f%s", part, trainer.brokenParameter().c_str()));
    loss += part * count;
    labels += count;
  }
  loss /= std::max(labels, 1.0);
  Trainer::Step done = trainer.update(rate);
  if (!done.broken.empty())
    stopBroken(number, inputs, "the loss is finite, but the " + done.broken);
  double seconds = now() - begin, speed = labels / seconds;
  peak = std::max(peak, trainer.operations() * speed);
  log->write(Json{{"step", number},
                  {"loss", loss},
                  {"grad_norm", done.norm},
                  {"rate", rate},
                  {"labels", labels},
                  {"seconds", seconds},
                  {"utilisation", trainer.operations() * speed / peak}}
                 .dump());
  return loss;
}

double Run::validationLoss(uint64_t batches) {
  double sum = 0, labels = 0;
  for (uint64_t i = 0; i < batches && !interrupted; ++i) {
    Values inputs = valid->batch(i, s.batch);
    double count = countLabels(inputs);
    sum += trainer.loss(inputs) * count;
    labels += count;
  }
  return sum / std::max(labels, 1.0);
}

void Run::evaluate(bool last) {
  if (!valid)
    return;
  uint64_t all = std::max<uint64_t>(1, uint64_t(valid->batches(s.batch)));
  uint64_t batches = last ? all : std::min(all, uint64_t(s.evalBatches));
  double loss = validationLoss(batches);
  if (interrupted)
    return;
  log->write(Json{{"step", trainer.steps()}, {"valid_loss", loss}, {"perplexity", std::exp(loss)}, {"batches", batches}}
                 .dump());
  if (!s.quiet)
    progress.say(format("step %llu: validation loss %.4f, perplexity %.2f%s",
                        static_cast<unsigned long long>(trainer.steps()), loss, std::exp(loss),
                        last ? " (all of it)" : ""));
  if (loss < bestLoss) {
    bestLoss = loss;
    bestStep = trainer.steps();
  }
}

void Run::sample() {
  if (prompt.empty() || !tokenizer.tokenizer || d.findRole("step", "forward") < 0)
    return;
  Engine engine(trainer.session());
  Sequence::Options how;
  how.room = int64_t(prompt.size()) + s.sampleTokens;
  Sequence text(engine, how);
  text.append(prompt);
  Sampler sampler({{{"temp", 0.8}}, s.seed + trainer.steps()});
  size_t words =
      size_t(std::min(engine.vocabulary(), engine.tokenBound())); // a padded vocabulary has rows without a word
  for (int64_t i = 0; i < s.sampleTokens && int64_t(text.tokens().size()) < engine.longest(); ++i)
    text.append(sampler.next(text.tokens(), text.logits().first(words)));
  std::string written = tokenizer.tokenizer->decode(text.tokens(), true);
  log->write(Json{{"step", trainer.steps()}, {"sample", written}}.dump(-1, ' ', false, Json::error_handler_t::replace));
  if (!s.quiet)
    progress.say("--- sample\n" + written + "\n---");
}

void Run::save(bool last) {
  std::map<std::string, std::string> files = {{"config.json", d.fileConfig.dump(1) + "\n"},
                                              {"train.json", Json{{"arguments", arguments}}.dump(1) + "\n"}};
  if (!tokenizer.json.empty())
    files["tokenizer.json"] = tokenizer.json;
  if (trainer.trainsAdapters()) {
    std::vector<std::string> names;
    for (const OutputTensor &tensor : trainer.tensors())
      names.push_back(tensor.name);
    files["adapter_config.json"] = adapterConfig(d, names, s.weights);
    if (!base.empty())
      files[adapterBaseFile] = adapterBase(s.weights, base);
  }
  try {
    folder.save(trainer, files, size_t(s.keep), bestStep);
  } catch (const UserError &error) { // a full disk may have room again at the next one
    if (last)
      throw;
    progress.say(std::string("warning: no checkpoint: ") + error.what());
  }
}

void Run::report() {
  writeReport(folder.path() + "/report.html", d.model, log->lines());
}

/// What a reader wants to know before waiting.
std::string Run::describePlan() const {
  std::string text = d.model + format(": %lld parameters", static_cast<long long>(trainer.parameterCount()));
  if (trainer.trainedCount() != trainer.parameterCount())
    text += format(", %lld trained", static_cast<long long>(trainer.trainedCount()));
  text += "; " + data->describe() + " to learn from, " + (valid ? valid->describe() : "none") + " to validate on; ";
  text += format("%lld steps", static_cast<long long>(s.steps));
  if (data->hasRows())
    text += format(" of %lld rows", static_cast<long long>(s.batch) * s.accumulate);
  if (!s.data.ends_with(".safetensors"))
    text += format(" of %lld tokens", static_cast<long long>(s.length));
  return text + format(" are %.3g passes", double(s.steps * s.accumulate) / data->batches(s.batch));
}

/// A machine that cannot go on (a device that is lost takes all that it holds with it) ends the run at its last checkpoint.
int Run::train() {
  try {
    return takeSteps();
  } catch (const MachineError &error) {
    progress.end();
    std::string newest = folder.newest();
    throw MachineError(error.what() +
                       format("; %llu of %lld steps were done, ", static_cast<unsigned long long>(trainer.steps()),
                              static_cast<long long>(s.steps)) +
                       (newest.empty() ? "and there was no checkpoint yet (--save-every): begin again"
                                       : "and the last checkpoint is " + newest + ": train --resume --output " +
                                             folder.path() + " continues from there"));
  }
}

int Run::takeSteps() {
  log = std::make_unique<RunLog>(folder.path() + "/train.jsonl", trainer.steps());
  peak = measureFlops();
  double measured = now();
  for (const std::string &line : log->lines())
    if (Json entry = Json::parse(line); entry.contains("valid_loss") && entry["valid_loss"].is_number() &&
                                        entry["valid_loss"].get<double>() < bestLoss) {
      bestLoss = entry["valid_loss"];
      bestStep = entry["step"];
    }
  log->write(describeRun().dump());
  if (!s.quiet)
    progress.say(describePlan());
  if (trainer.steps() >= uint64_t(s.steps))
    printNote(format("the run has done its %llu steps; --steps N with a larger N continues it",
                     static_cast<unsigned long long>(trainer.steps())));
  progress.begin(uint64_t(s.steps), trainer.steps(), s.quiet);
  std::signal(SIGINT, onInterrupt);
  std::signal(SIGTERM, onInterrupt);
  if (std::signal(SIGHUP, onInterrupt) == SIG_IGN) // nohup
    std::signal(SIGHUP, SIG_IGN);
  bool saved = false;
  while (trainer.steps() < uint64_t(s.steps) && !interrupted) {
    uint64_t number = trainer.steps() + 1;
    double loss = step(number);
    progress.step(number, loss, log->lines().back());
    auto due = [&](int64_t every) { return every > 0 && number % uint64_t(every) == 0; };
    bool last = number == uint64_t(s.steps);
    double pause = now();
    if (due(s.evalEvery) || last) {
      if (now() - measured > 10) { // a quarter of a second, which small runs need not pay at each validation
        peak = std::max(peak, measureFlops()); // other work on the machine only ever lowers it
        measured = now();
      }
      evaluate(last);
    }
    if (due(s.sampleEvery) || (last && s.sampleEvery))
      sample();
    saved = due(s.saveEvery) || last;
    if (saved)
      save(last);
    if (due(s.evalEvery) || last)
      report();
    progress.paused(now() - pause);
  }
  if (interrupted && !saved) {
    save(true);
    report();
  }
  std::string newest = folder.newest();
  progress.end();
  if (!s.quiet)
    progress.say("curves: " + folder.path() + "/report.html");
  if (interrupted)
    printNote(format("stopped after step %llu; --resume continues from %s",
                     static_cast<unsigned long long>(trainer.steps()), newest.c_str()));
  else
    writeOutput(newest + "\n");
  return interrupted ? 128 + interrupted : 0;
}

} // namespace

/// What was an option of `train` once.
static void refuseLora(const std::vector<std::string> &arguments) {
  for (const std::string &word : arguments)
    if (word.starts_with("--lora"))
      throw UserError(word +
                      ": a program has its adapters from the compiler, and trains these alone then: quern compile "
                      "--train --lora RANK [--lora-scale X]");
}

int trainCommand(const Command &command) {
  std::vector<std::string> arguments = command.arguments;
  refuseLora(arguments);
  Options options("train", withProfileOptions(trainOptions()));
  options.parse(arguments);
  if (options.has("--help")) {
    writeOutput(options.usage("PROGRAM"));
    return 0;
  }
  if (options.has("--resume") && !options.has("--output"))
    throw UserError("--resume needs --output DIR, the folder of the run to continue");
  if (options.has("--resume")) { // the run's own options, then those of now
    std::vector<std::string> stored = storedArguments(options.text("--output"));
    refuseLora(stored);
    stored.insert(stored.end(), arguments.begin(), arguments.end());
    arguments = std::move(stored);
    options = Options("train", withProfileOptions(trainOptions()));
    options.parse(arguments);
  }
  configureThreads(options);
  arguments.erase(std::remove(arguments.begin(), arguments.end(), "--resume"), arguments.end());
  ProfileReport report(options, command.program.description);
  return report.finish(Run(command, options, arguments, readSettings(options, command.program)).train());
}

} // namespace quern::runtime
