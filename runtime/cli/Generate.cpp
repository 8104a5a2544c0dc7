// `generate`: takes a prompt (text or token numbers). Gives: its continuation, as it is written, or one line of JSON.
#include "runtime/cli/Commands.h"
#include "runtime/Error.h"
#include "runtime/cli/GenerateOptions.h"
#include "runtime/engine/Generator.h"
#include "runtime/sampling/Sampler.h"
#include "runtime/cli/Terminal.h"
#include "runtime/machine/ThreadPool.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <unistd.h>

namespace quern::runtime {

namespace {

const std::vector<Options::Known> known = {
    {"--weights", "PATH", "a .safetensors file, an index of shards, or a folder with one"},
    {"--tokenizer", "FILE", "tokenizer.json; else the one beside the weights"},
    {"-p", "TEXT", "the prompt; several: continued together, each as if it were alone"},
    {"-f", "FILE", "the prompt from a file (neither: from standard input)"},
    {"--tokens", "1,2,3", "the prompt as token numbers; exactly n new ones follow"},
    {"-n", "N", "new tokens at most (128)"},
    {"--temp", "X", "temperature; 0: always the likeliest (0, or 1 with another of these)"},
    {"--top-k", "K", "only among the K likeliest"},
    {"--top-p", "P", "only among the least set that reaches probability P"},
    {"--min-p", "P", "only among those of P times the likeliest's probability"},
    {"--seed", "N", "of the choices (0)"},
    {"--eos", "stop|ignore", "at the end-of-text token (stop; ignore with --tokens)"},
    {"--no-cache", nullptr, "recompute everything for each token"},
    {"--no-echo", nullptr, "do not repeat the prompt"},
    {"--context", "N", "allow texts up to N tokens where the config's length is only a recommendation"},
    {"--threads", "N", "threads (all that this process may use)"},
    {"--json", nullptr, "one line: {\"tokens\": [new ones], \"text\": \"...\"}"},
    {"--help", nullptr, "this"}};

struct Prompt {
  std::string text;
  std::vector<int> tokens;
  bool isText;
};

Prompt readPrompt(const Options &options, const std::optional<Tokenizer> &tokenizer, const Command &command) {
  if (int(options.has("-p")) + int(options.has("-f")) + int(options.has("--tokens")) > 1)
    throw UserError("give one of -p, -f and --tokens");
  if (options.has("--tokens"))
    return {"", parseTokens(options.text("--tokens")), false};
  Prompt prompt{"", {}, true};
  if (options.has("-p"))
    prompt.text = options.text("-p");
  else if (options.has("-f"))
    prompt.text = readFile(options.text("-f"));
  else if (::isatty(STDIN_FILENO))
    throw UserError("no prompt: give -p TEXT, -f FILE, --tokens LIST, or text on standard input");
  else
    prompt.text = readStandardInput();
  if (!tokenizer)
    command.needTokenizer(options); // throws
  prompt.tokens = tokenizer->encode(prompt.text, true);
  return prompt;
}

} // namespace

int generateCommand(const Command &command) {
  Options options("generate", known);
  options.parse(command.arguments);
  if (options.has("--help")) {
    writeOutput(options.usage("PROGRAM"));
    return 0;
  }
  const Description &d = command.program.description;
  Generator::requireSteps(d); // before gigabytes of weights are touched
  ThreadPool::configure(int(options.integer("--threads", 0, 1, 1024)));
  if (options.all("-p").size() > 1 || options.all("--tokens").size() > 1)
    return generateMany(command, options);
  int64_t most = options.integer("-n", 128, 0, INT32_MAX);
  bool json = options.has("--json");
  SamplerOptions sampling = samplerOptions(options);
  Sampler sampler(sampling);
  std::string atEnd = options.text("--eos", options.has("--tokens") ? "ignore" : "stop");
  if (atEnd != "stop" && atEnd != "ignore")
    throw UserError("--eos needs stop or ignore, not " + quote(atEnd));
  std::set<int> ends = atEnd == "stop" ? idsOf(d.fileConfig, "eos_token_id") : std::set<int>();

  std::optional<Tokenizer> tokenizer = command.openTokenizer(options);
  Prompt prompt = readPrompt(options, tokenizer, command);

  std::unique_ptr<Weights> weights = command.openWeights(options);
  Session session(command.program, *weights);
  Generator::Options how;
  how.cache = !options.has("--no-cache");
  how.room = int64_t(prompt.tokens.size()) + std::min<int64_t>(most, 4096) + 1;
  Generator generator(session, how);

  std::vector<int> text = prompt.tokens;
  int64_t stated = options.integer("--context", statedContext(d.fileConfig), 1, INT32_MAX);
  auto checkLength = [&](size_t length, int64_t longest) {
    if (longest != INT64_MAX && int64_t(length) > longest)
      throw UserError(format("the prompt has %zu tokens, but the model has only %lld positions", length,
                             static_cast<long long>(longest)));
    if (stated > 0 && int64_t(length) > stated)
      throw UserError(format("the prompt has %zu tokens, but the model's context is %lld; --context N allows more",
                             length, static_cast<long long>(stated)));
  };
  if (generator.hasSource()) {
    if (prompt.tokens.empty())
      throw UserError("the prompt is empty");
    checkTokens(prompt.tokens, generator.sourceBound());
    checkLength(prompt.tokens.size(), generator.longestSource());
    generator.setSource(prompt.tokens);
    std::set<int> begin = idsOf(d.fileConfig, "decoder_start_token_id");
    if (begin.empty())
      begin = idsOf(d.fileConfig, "bos_token_id");
    if (begin.empty())
      throw UserError("the config has no decoder_start_token_id to begin with");
    text = {*begin.begin()};
  } else if (text.empty()) {
    std::set<int> begin = idsOf(d.fileConfig, "bos_token_id");
    if (begin.empty())
      throw UserError("the prompt is empty, and the config has no bos_token_id to begin with");
    text = {*begin.begin()};
  }
  checkTokens(text, generator.tokenBound());
  checkLength(text.size(), generator.longest());

  std::optional<TextStream> stream;
  if (tokenizer) {
    stream.emplace(*tokenizer);
    if (!generator.hasSource())
      stream->start(text);
  }
  std::string written;
  auto show = [&](const std::string &piece) {
    written += piece;
    if (!json && !piece.empty())
      writeOutput(piece);
  };
  if (!json && !generator.hasSource() && !options.has("--no-echo"))
    writeOutput(prompt.isText ? prompt.text : tokenizer ? tokenizer->decode(text, true) : "");

  std::vector<int> made;
  double begin = now(), firstDone = begin;
  bool warned = false;
  while (int64_t(made.size()) < most) {
    if (int64_t(text.size()) > generator.longest()) {
      printNote(format("stopped after %zu new tokens: the model has no more than %lld positions", made.size(),
                       static_cast<long long>(generator.longest())));
      break;
    }
    if (stated > 0 && int64_t(text.size()) == stated + 1 && !std::exchange(warned, true))
      printWarning(format("the text grows beyond the model's context of %lld tokens", static_cast<long long>(stated)));
    std::span<const float> logits = generator.next(text);
    int token = sampler.next(logits.data(), int64_t(logits.size()));
    if (made.empty())
      firstDone = now();
    made.push_back(token);
    text.push_back(token);
    if (ends.count(token))
      break;
    if (stream)
      show(stream->push(token));
    else if (!json)
      writeOutput((made.size() > 1 ? "," : "") + std::to_string(token));
    if (token >= generator.tokenBound()) // a padded vocabulary: rows of logits without a word
      throw UserError(format("the model chose token %d, for which it has no embedding", token));
  }
  if (stream)
    show(stream->finish());
  if (json)
    writeOutput("{\"tokens\": " + jsonList(made) + ", \"text\": " + jsonString(written) + "}\n");
  else
    writeOutput("\n");
  if (errorIsTerminal() && made.size() > 1)
    printNote(format("%zu tokens, %.1f a second; the first after %.0f ms", made.size(),
                     double(made.size() - 1) / (now() - firstDone), 1000 * (firstDone - begin)));
  return 0;
}

} // namespace quern::runtime
