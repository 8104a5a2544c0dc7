// Takes: the options of `train`. Gives: settings, checked; defaults that suit a small language model.
#include "runtime/training/Settings.h"
#include "support/Glob.h"

#include "runtime/Error.h"

#include <algorithm>
#include <cmath>

namespace quern::runtime {

const std::vector<Options::Known> &trainOptions() {
  static const std::vector<Options::Known> known = {
      {"--data", "FILE", "a text; or token numbers (.bin: 16 bits each, .u32); or the loss's inputs as .safetensors"},
      {"--valid", "FILE", "the same, to validate on"},
      {"--valid-split", "X", "without --valid: the last part of the data (0.1 of a text or of numbers)"},
      {"--tokenizer", "NAME", "bytes, chars, or as `generate` has it (the one beside --weights, else chars)"},
      {"--output", "DIR", "where checkpoints, train.jsonl and report.html go"},
      {"--weights", "PATH", "begin with this checkpoint instead of random numbers"},
      {"--adapter", "FOLDER", "begin with this LoRA adapter, as PEFT writes it, beside --weights"},
      {"--resume", nullptr, "continue from --output's newest checkpoint, with the run's options unless given again"},
      {"--steps", "N", "updates of the parameters (1000)"},
      {"--batch", "N", "rows of a batch (8)"},
      {"--length", "N", "tokens of a row (256, or as long as the model allows)"},
      {"--accumulate", "N", "batches of one update (1)"},
      {"--optimizer", "NAME", "adamw, adam, sgd, momentum or nesterov (adamw)"},
      {"--rate", "X", "highest learning rate (3e-4; sgd 0.1, momentum and nesterov 0.01)"},
      {"--schedule", "NAME", "cosine, linear or constant after the warmup (cosine)"},
      {"--warmup", "N", "steps of the warmup (a twentieth of the steps, at most 1000; constant: 0)"},
      {"--least-rate", "X", "learning rate at the end, as a part of the highest (0.1)"},
      {"--beta1", "X", "Adam: of the mean (0.9)"},
      {"--beta2", "X", "Adam: of the mean square (0.95)"},
      {"--epsilon", "X", "Adam: added to the root (1e-8)"},
      {"--momentum", "X", "of momentum and nesterov (0.9)"},
      {"--decay", "X", "weight decay (adamw 0.1, others 0)"},
      {"--decay-all", nullptr, "decay vectors, too, not only matrices"},
      {"--clip", "X", "clip the norm of the gradient; 0: never (1)"},
      {"--train-only", "GLOB", "change only parameters of such names (may be given again)"},
      {"--eval-every", "N", "validate every N steps (a twentieth of the steps)"},
      {"--eval-batches", "N", "batches of each validation; the last validation takes all (20)"},
      {"--sample-every", "N", "write a sample every N steps; 0: never (as --eval-every)"},
      {"--sample-tokens", "N", "its length (100)"},
      {"--prompt", "TEXT", "what samples begin with (the first token of the validation text)"},
      {"--save-every", "N", "a checkpoint every N steps (as --eval-every)"},
      {"--keep", "N", "keep the N newest checkpoints, and the best (2)"},
      {"--seed", "N", "of parameters, order of data, samples (0)"},
      {"--threads", "N", "threads (all that this process may use)"},
      {"--quiet", nullptr, "no progress"},
      {"--help", nullptr, "this"}};
  return known;
}

double TrainSettings::rateAt(uint64_t step) const {
  double at = double(step);
  if (at <= double(warmup))
    return rate * at / double(warmup);
  if (schedule == "constant" || steps <= warmup)
    return rate;
  double done = std::min(1.0, (at - double(warmup)) / double(steps - warmup)), least = rate * leastRate;
  double part = schedule == "linear" ? 1 - done : 0.5 * (1 + std::cos(3.14159265358979323846 * done));
  return least + (rate - least) * part;
}

/// A name that fits nothing is a mistake, also beside one that does.
static void checkGlob(const std::string &glob, const Description &d) {
  bool inside = false;
  for (const ParameterInfo &parameter : d.parameters)
    for (const std::string &name : parameter.names) {
      if (matchGlob(glob, name))
        return;
      inside |= name.find(glob) != std::string::npos;
    }
  throw UserError("--train-only " + quote(glob) + " fits no parameter" +
                  (inside ? "; did you mean " + quote("*" + glob + "*") + "?" : "") +
                  "; names are as in the checkpoint, " + d.parameters.front().names.front() +
                  " for one (quern tensors CHECKPOINT --shapes lists them)");
}

TrainSettings readSettings(const Options &options, const Program &program) {
  TrainSettings s;
  constexpr int64_t many = INT32_MAX;
  auto oneOf = [&](const char *name, const char *fallback, const std::vector<std::string> &allowed) {
    std::string word = options.text(name, fallback), list;
    for (const std::string &each : allowed)
      list += (list.empty() ? "" : ", ") + each;
    if (std::find(allowed.begin(), allowed.end(), word) == allowed.end())
      throw UserError(std::string(name) + " needs one of " + list + ", not " + quote(word) + didYouMean(word, allowed));
    return word;
  };
  for (const char *name : {"--data", "--output"})
    if (!options.has(name))
      throw UserError(std::string("train needs ") + name + (name[2] == 'd' ? " FILE" : " DIR"));
  s.data = options.text("--data");
  s.output = options.text("--output");
  s.valid = options.text("--valid");
  s.tokenizer = options.text("--tokenizer");
  s.prompt = options.text("--prompt");
  if (!s.valid.empty() && options.has("--valid-split"))
    throw UserError("give one of --valid and --valid-split");
  s.split = options.number("--valid-split", 0.1, 0, 0.9);
  s.resume = options.has("--resume");
  s.quiet = options.has("--quiet");
  s.steps = options.integer("--steps", 1000, 1, many);
  s.batch = options.integer("--batch", 8, 1, 1 << 20);
  int64_t longest = longestTraining(program.description);
  s.length = options.integer("--length", std::min<int64_t>(256, longest), 1, many);
  if (s.length > longest)
    throw UserError(format("--length %lld is too much: the model has only %lld positions",
                           static_cast<long long>(s.length), static_cast<long long>(longest)));
  s.accumulate = options.integer("--accumulate", 1, 1, 1 << 20);

  OptimizerOptions &o = s.optimizer;
  o.kind = oneOf("--optimizer", "adamw", {"adamw", "adam", "sgd", "momentum", "nesterov"});
  bool adaptive = o.kind.starts_with("adam");
  s.rate = options.number("--rate", adaptive ? 3e-4 : o.kind == "sgd" ? 0.1 : 0.01, 0, 1e6);
  s.schedule = oneOf("--schedule", "cosine", {"cosine", "linear", "constant"});
  s.warmup = options.integer("--warmup", s.schedule == "constant" ? 0 : std::min<int64_t>(s.steps / 20, 1000), 0, many);
  s.leastRate = options.number("--least-rate", 0.1, 0, 1);
  o.beta1 = options.number("--beta1", 0.9, 0, 0.999999999);
  o.beta2 = options.number("--beta2", 0.95, 0, 0.999999999);
  o.epsilon = options.number("--epsilon", 1e-8, 0, 1);
  o.momentum = options.number("--momentum", 0.9, 0, 1);
  o.decay = options.number("--decay", o.kind == "adamw" ? 0.1 : 0, 0, 1e6);
  o.decayAll = options.has("--decay-all");
  o.clip = options.number("--clip", 1, 0, 1e30);
  std::vector<std::string> globs = options.all("--train-only");
  for (const std::string &glob : globs)
    checkGlob(glob, program.description);
  if (!globs.empty())
    o.wanted = [globs](const std::string &name) {
      return std::any_of(globs.begin(), globs.end(), [&](const std::string &glob) { return matchGlob(glob, name); });
    };
  s.weights = options.text("--weights");
  if (s.weights.empty() && (program.description.adapterScale || options.has("--adapter")))
    throw UserError("adapters are beside a model's weights: --weights PATH");

  s.evalEvery = options.integer("--eval-every", std::max<int64_t>(1, s.steps / 20), 1, many);
  s.evalBatches = options.integer("--eval-batches", 20, 1, many);
  s.sampleEvery = options.integer("--sample-every", s.evalEvery, 0, many);
  s.sampleTokens = options.integer("--sample-tokens", 100, 1, many);
  s.saveEvery = options.integer("--save-every", s.evalEvery, 1, many);
  s.keep = options.integer("--keep", 2, 1, many);
  s.seed = uint64_t(options.integer("--seed", 0, INT64_MIN, INT64_MAX));
  return s;
}

} // namespace quern::runtime
