// Takes: options of `generate` and the model's configs. Gives: how tokens are chosen, and when a text ends.
#include "runtime/cli/GenerateOptions.h"

#include "runtime/Error.h"
#include "runtime/cli/Commands.h"
#include "runtime/cli/SamplingOptions.h"

namespace quern::runtime {

namespace {

const std::vector<Options::Known> before = {
    weightsOption,
    adapterOption,
    {"--tokenizer", "FILE",
     "tokenizer.json, a .model or .tiktoken file, or a folder with one; else the one in or beside the weights"},
    {"-p", "TEXT", "the prompt (may be repeated: prompts run together, each as if alone)"},
    {"-f", "FILE", "the prompt from a file (neither: from standard input)"},
    {"--tokens", "1,2,3", "the prompt as token numbers; exactly n new ones follow"},
    {"--input", "FILE",
     "safetensors with what the model takes beside tokens (features, pixels): a row of each for a text"},
    {"-n", "N", "new tokens at most (128)"}};

const std::vector<Options::Known> after = {
    {"--results", "N", "continuations of each prompt: with consecutive seeds, or the N best beams (1)"},
    {"--beams", "N", "beam search: keep the N likeliest texts instead of one"},
    {"--length-penalty", "X", "of beams: the score is the log probability divided by length^X (1)"},
    {"--early-stopping", "WHEN",
     "of beams: true, when N texts have ended; false, when no better one is likely; never, if one is possible (false)"},
    {"--eos", "stop|ignore", "what to do at the end-of-text token (stop; with --tokens: ignore)"},
    {"--end-token", "N", "end at this token instead of the config's (may be repeated)"},
    {"--stop", "TEXT", "end before this text (may be repeated)"},
    {"--start-token", "N", "what a text without a prompt, or a decoder's text, begins with (the config's)"},
    {"--no-cache", nullptr, "recompute everything for each token"},
    {"--no-echo", nullptr, "do not repeat the prompt"},
    {"--context", "N", "allow texts up to N tokens where the config's length is only a recommendation"},
    {"--threads", "N", "threads (all that this process may use)"},
    {"--json", nullptr, "one line: {\"tokens\": [new ones], \"text\": \"...\"}"},
    {"--logprobs", nullptr, "with --json: each token's log probability, before any sampling rule"},
    {"--help", nullptr, "this"}};

std::optional<BeamOptions> beamOptions(const Options &options, const GenerateSettings &settings) {
  if (!options.has("--beams")) {
    for (const char *name : {"--length-penalty", "--early-stopping"})
      if (options.has(name))
        throw UserError(std::string(name) + " needs --beams");
    return std::nullopt;
  }
  BeamOptions result;
  result.beams = int(options.integer("--beams", 0, 1, 1024));
  result.lengthPenalty = options.number("--length-penalty", 1, -100, 100);
  std::string early = options.text("--early-stopping", "false");
  if (early != "true" && early != "false" && early != "never")
    throw UserError("--early-stopping needs true, false or never, not " + quote(early));
  result.early = early == "true" ? EarlyStop::Full : early == "false" ? EarlyStop::Unlikely : EarlyStop::Impossible;
  if (settings.sampling.temperature() != 0)
    throw UserError(
        "--beams looks for the likeliest texts: it does not go with --temp and rules that choose at random");
  if (!settings.stop.strings.empty())
    throw UserError("--beams does not go with --stop");
  result.sampling = settings.sampling;
  result.ends = settings.stop.ends;
  result.most = settings.stop.most;
  return result;
}

} // namespace

std::vector<Options::Known> generateOptions() {
  std::vector<Options::Known> all = before;
  addSamplingOptions(all);
  all.insert(all.end(), after.begin(), after.end());
  return all;
}

void checkTokens(const std::vector<int> &tokens, int64_t bound) {
  for (int token : tokens)
    if (token < 0 || token >= bound)
      throw UserError(format("the token %d is unknown: the model's vocabulary has %lld, from 0 to %lld", token,
                             static_cast<long long>(bound), static_cast<long long>(bound - 1)));
}

GenerateSettings readSettings(const Command &command, const Options &options, bool isText) {
  const nlohmann::json &config = command.program.description.fileConfig;
  GenerateSettings result;
  result.sampling = samplerOptions(options);
  result.stop.most = options.integer("-n", 128, 0, INT32_MAX);
  result.stop.strings = options.all("--stop");
  for (const std::string &string : result.stop.strings)
    if (string.empty())
      throw UserError("--stop needs a text that is not empty");
  bool named = options.has("--end-token");
  std::string atEnd = options.text("--eos", isText || named ? "stop" : "ignore");
  if (atEnd != "stop" && atEnd != "ignore")
    throw UserError("--eos needs stop or ignore, not " + quote(atEnd));
  nlohmann::json generation = readGenerationConfig(command, options);
  if (named && atEnd == "ignore")
    throw UserError("--end-token does not go with --eos ignore");
  for (const std::string &token : options.all("--end-token"))
    for (int one : parseTokens(token))
      result.stop.ends.insert(one);
  if (atEnd == "stop" && !named) {
    result.stop.ends = idsOf(config, "eos_token_id");
    result.stop.ends.merge(idsOf(generation, "eos_token_id"));
  }
  if (options.has("--start-token"))
    result.begin = {int(options.integer("--start-token", 0, 0, INT32_MAX))};
  bool isPair = command.program.description.findFunction("encode") >= 0;
  for (const char *name : {"decoder_start_token_id", "bos_token_id"})
    for (const nlohmann::json *from : {static_cast<const nlohmann::json *>(&generation), &config})
      if (std::set<int> ids = idsOf(*from, name);
          result.begin.empty() && !ids.empty() && (isPair || std::string_view(name) == "bos_token_id"))
        result.begin = {*ids.begin()};
  result.context = options.integer("--context", statedContext(config), 1, INT32_MAX);
  result.json = options.has("--json");
  result.scores = options.has("--logprobs");
  if (result.scores && !result.json)
    throw UserError("--logprobs needs --json");
  result.beams = beamOptions(options, result);
  result.results = int(options.integer("--results", 1, 1, 1024));
  if (result.beams && result.results > result.beams->beams)
    throw UserError(format("--results %d needs as many --beams, not %d", result.results, result.beams->beams));
  if (!result.beams && result.results > 1 && result.sampling.temperature() == 0)
    throw UserError("--results needs --temp or --beams: the likeliest tokens give one text");
  result.echo = !options.has("--no-echo");
  result.cache = !options.has("--no-cache");
  return result;
}

} // namespace quern::runtime
