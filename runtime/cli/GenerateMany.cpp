// Takes: several prompts. Gives: the continuation of each, as if it were alone, in their order: made together where the
// program has a function for rows of different lengths, else one after the other.
#include "runtime/engine/BatchGenerator.h"
#include "runtime/Error.h"
#include "runtime/cli/GenerateOptions.h"
#include "runtime/engine/Generator.h"
#include "runtime/cli/Terminal.h"

#include <algorithm>

namespace quern::runtime {

namespace {

/// A prompt and what was made of it so far.
struct Row {
  std::string prompt;
  std::vector<int> text;
  size_t begin; // tokens of the prompt
  Sampler sampler;
  bool done = false;
};

} // namespace

int generateMany(const Command &command, const Options &options) {
  const Description &d = command.program.description;
  std::optional<Tokenizer> tokenizer = command.openTokenizer(options);
  bool isText = options.has("-p");
  if (isText == options.has("--tokens") || options.has("-f"))
    throw UserError("several prompts: give each with -p, or each with --tokens");
  if (isText && !tokenizer)
    command.needTokenizer(options); // throws
  int64_t most = options.integer("-n", 128, 0, INT32_MAX);
  std::string atEnd = options.text("--eos", isText ? "stop" : "ignore");
  if (atEnd != "stop" && atEnd != "ignore")
    throw UserError("--eos needs stop or ignore, not " + quote(atEnd));
  std::set<int> ends = atEnd == "stop" ? idsOf(d.fileConfig, "eos_token_id") : std::set<int>();
  std::set<int> begin = idsOf(d.fileConfig, "bos_token_id");

  std::vector<Row> rows;
  for (const std::string &given : options.all(isText ? "-p" : "--tokens")) {
    std::vector<int> tokens = isText ? tokenizer->encode(given, true) : parseTokens(given);
    if (tokens.empty() && !begin.empty())
      tokens = {*begin.begin()};
    if (tokens.empty())
      throw UserError("a prompt is empty, and the config has no bos_token_id to begin with");
    rows.push_back({isText ? given : "", tokens, tokens.size(), Sampler(samplerOptions(options))});
  }

  std::unique_ptr<Weights> weights = command.openWeights(options);
  Session session(command.program, *weights);
  Generator alone(session, {!options.has("--no-cache"), 0, 512});
  if (alone.hasSource())
    throw UserError("several prompts at once need a model without an encoder; give one prompt a call");
  int64_t stated = options.integer("--context", statedContext(d.fileConfig), 1, INT32_MAX);
  size_t longest = 0;
  for (const Row &row : rows) {
    checkTokens(row.text, alone.tokenBound());
    longest = std::max(longest, row.text.size());
    if (int64_t(row.text.size()) > alone.longest() || (stated > 0 && int64_t(row.text.size()) > stated))
      throw UserError(format("a prompt has %zu tokens, but the model's context is %lld", row.text.size(),
                             static_cast<long long>(stated > 0 ? std::min(stated, alone.longest()) : alone.longest())));
  }
  // A row goes on until it has its tokens, meets an end, or the model has no more positions.
  auto take = [&](Row &row, const float *logits) {
    int token = row.sampler.next(logits, alone.vocabulary());
    row.text.push_back(token);
    if (token >= alone.tokenBound()) // a padded vocabulary: rows of logits without a word
      throw UserError(format("the model chose token %d, for which it has no embedding", token));
    row.done = ends.count(token) || int64_t(row.text.size() - row.begin) >= most;
  };
  auto open = [&](const Row &row) { return !row.done && most > 0 && int64_t(row.text.size()) <= alone.longest(); };
  if (BatchGenerator::serves(d) && !options.has("--no-cache")) {
    BatchGenerator together(session,
                            std::min<int64_t>(alone.longest(), int64_t(longest) + std::min<int64_t>(most, 4096) + 1));
    std::vector<size_t> active;
    for (size_t i = 0; i < rows.size(); ++i)
      if (open(rows[i]))
        active.push_back(i);
    // A row that is done stays in the batch, fed with anything, while there is room: to leave is to read all texts
    // again.
    std::vector<std::vector<int>> texts;
    for (size_t i : active)
      texts.push_back(rows[i].text);
    auto anyOpen = [&] { return std::any_of(active.begin(), active.end(), [&](size_t i) { return open(rows[i]); }); };
    while (anyOpen()) {
      auto fits = [&](const std::vector<int> &text) { return int64_t(text.size()) <= alone.longest(); };
      if (!std::all_of(texts.begin(), texts.end(), fits)) { // a long text is done, a short one is not: without the done
        std::erase_if(active, [&](size_t i) { return !open(rows[i]); });
        texts.clear();
        for (size_t i : active)
          texts.push_back(rows[i].text);
      }
      std::span<const float> logits = together.next(texts);
      for (size_t b = 0; b < active.size(); ++b) {
        Row &row = rows[active[b]];
        bool goesOn = open(row);
        if (goesOn)
          take(row, logits.data() + int64_t(b) * alone.vocabulary());
        texts[b].push_back(goesOn ? row.text.back() : 0);
      }
    }
  } else {
    for (Row &row : rows) {
      alone.forget();
      while (open(row))
        take(row, alone.next(row.text).data());
    }
  }

  for (const Row &row : rows) {
    std::vector<int> made(row.text.begin() + int64_t(row.begin), row.text.end());
    std::string text;
    if (tokenizer) {
      TextStream stream(*tokenizer);
      stream.start(std::vector<int>(row.text.begin(), row.text.begin() + int64_t(row.begin)));
      for (int token : made)
        if (!ends.count(token))
          text += stream.push(token);
      text += stream.finish();
    }
    if (options.has("--json"))
      writeOutput("{\"tokens\": " + jsonList(made) + ", \"text\": " + jsonString(text) + "}\n");
    else if (tokenizer)
      writeOutput((options.has("--no-echo") ? "" : row.prompt) + text + "\n");
    else
      writeOutput(jsonList(made) + "\n");
  }
  return 0;
}

} // namespace quern::runtime
