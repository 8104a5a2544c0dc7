// `embed`: takes texts. Gives: a vector each, as a table, JSON, or a table of cosines.
#include "runtime/Error.h"
#include "runtime/cli/Commands.h"
#include "runtime/cli/JsonWriter.h"
#include "runtime/cli/ProfileReport.h"
#include "runtime/engine/Embedding.h"
#include "runtime/machine/Terminal.h"

#include "support/Json.h"

#include <algorithm>
#include <cmath>
#include <unistd.h>

namespace quern::runtime {

namespace {

const std::vector<Options::Known> known = {
    weightsOption,
    adapterOption,
    {"--tokenizer", "FILE",
     "tokenizer.json, a .model or .tiktoken file, or a folder with one; else the one in or beside the weights"},
    {"-p", "TEXT", "a text (may be repeated)"},
    {"-f", "FILE", "a text a line (no text at all: from standard input)"},
    {"--prompt", "NAME",
     "put before each text what the model was trained with, by its name in config_sentence_transformers.json (query); "
     "default: what that file says"},
    {"--result", "NAME", "which result [B, D], of a function with several (the first)"},
    {"--similarity", nullptr, "the cosine of each text with each"},
    {"--threads", "N", "threads (all that this process may use)"},
    {"--json", nullptr, "one object: {\"results\": [{\"text\", \"tokens\", \"embedding\"}]}"},
    {"--help", nullptr, "this"}};

struct Result {
  std::string text;
  std::vector<int> tokens;
  std::vector<float> vector;
};

void addLines(std::vector<std::string> &texts, const std::string &content) {
  for (size_t at = 0; at < content.size();) {
    size_t end = std::min(content.find('\n', at), content.size());
    std::string line = content.substr(at, end - at);
    if (!line.empty() && line.back() == '\r')
      line.pop_back();
    texts.push_back(line);
    at = end + 1;
  }
}

std::vector<std::string> readTexts(const Options &options) {
  std::vector<std::string> texts = options.all("-p");
  texts.insert(texts.end(), options.words().begin(), options.words().end());
  for (const std::string &path : options.all("-f"))
    addLines(texts, readFile(path));
  if (texts.empty() && !options.has("-f")) {
    if (::isatty(STDIN_FILENO))
      throw UserError("no text: give words, -p TEXT, -f FILE, or lines on standard input");
    addLines(texts, readStandardInput());
  }
  if (texts.empty())
    throw UserError("there is no text to embed");
  return texts;
}

double cosine(const std::vector<float> &a, const std::vector<float> &b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += double(a[i]) * b[i];
    aa += double(a[i]) * a[i];
    bb += double(b[i]) * b[i];
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

/// The length that the model was trained for: sentence-transformers keeps it beside the tokenizer, whose own may be
/// shorter.
std::optional<size_t> trainedLength(const Command &command, const Options &options) {
  // Parsed by constant pointers, as everywhere: another kind of iterator is another parser in each program.
  const std::optional<std::string> text = command.readBeside(options, "sentence_bert_config.json");
  if (!text)
    return std::nullopt;
  nlohmann::json config = parseJson(*text, "sentence_bert_config.json");
  if (config.is_object() && config.contains("max_seq_length") && config["max_seq_length"].is_number_unsigned())
    return config["max_seq_length"].get<size_t>();
  return std::nullopt;
}

/// The words that belong before a text: sentence-transformers keeps them by names, one of which may be the default.
std::string promptOf(const Command &command, const Options &options) {
  const char *const file = "config_sentence_transformers.json";
  const std::optional<std::string> text = command.readBeside(options, file);
  const nlohmann::json config = text ? parseJson(*text, file) : nlohmann::json();
  nlohmann::json prompts = nlohmann::json::object();
  if (config.is_object() && config.contains("prompts") && config["prompts"].is_object())
    prompts = config["prompts"];
  std::string name, known;
  if (options.has("--prompt"))
    name = options.text("--prompt");
  else if (config.is_object() && config.contains("default_prompt_name") && config["default_prompt_name"].is_string())
    name = config["default_prompt_name"].get<std::string>();
  else
    return "";
  if (prompts.contains(name) && prompts[name].is_string())
    return prompts[name].get<std::string>();
  for (const auto &[other, words] : std::as_const(prompts).items())
    known += (known.empty() ? "" : ", ") + quote(other);
  throw UserError("there is no prompt " + quote(name) + "; " +
                  (known.empty() ? std::string(file) + " beside the weights would name them" : "known are " + known));
}

void printTable(const std::vector<Result> &results) {
  std::string output;
  for (const Result &result : results) {
    for (size_t i = 0; i < result.vector.size(); ++i)
      output += format(i ? " %.6f" : "%.6f", double(result.vector[i]));
    output += "\n";
  }
  writeOutput(output);
}

void printSimilarity(const std::vector<Result> &results) {
  std::string output;
  for (size_t i = 0; i < results.size(); ++i)
    output += format("%8zu", i + 1);
  output += "\n";
  for (size_t i = 0; i < results.size(); ++i) {
    for (const Result &other : results)
      output += format("%8.4f", cosine(results[i].vector, other.vector));
    output += format("  %zu  %s\n", i + 1, results[i].text.c_str());
  }
  writeOutput(output);
}

void printSimilarityJson(const std::vector<Result> &results) {
  JsonWriter json;
  json.object().key("similarity").list();
  for (const Result &one : results) {
    json.list();
    for (const Result &other : results)
      json.real(cosine(one.vector, other.vector));
    json.end();
  }
  writeOutput(json.end().end().take());
}

void printJson(const std::vector<Result> &results) {
  JsonWriter json;
  json.object().key("results").list(JsonWriter::Lines::Elements);
  for (const Result &result : results) {
    json.object().key("text").text(result.text).key("tokens").wholes(result.tokens).key("embedding").list();
    for (float value : result.vector)
      json.real(value);
    json.end().end();
  }
  writeOutput(json.end().end().take());
}

} // namespace

int embedCommand(const Command &command) {
  Options options("embed", withProfileOptions(known), "[TEXT ...]");
  options.parse(command.arguments);
  if (options.has("--help")) {
    writeOutput(options.usage("PROGRAM"));
    return 0;
  }
  configureThreads(options);
  const EmbeddingResult embedding =
      findEmbedding(command.program.description, options.has("--result") ? options.text("--result") : "");
  std::vector<std::string> texts = readTexts(options);
  Tokenizer tokenizer = command.needTokenizer(options);
  std::unique_ptr<Weights> weights = command.openWeights(options);
  ProfileReport report(options, command.program.description);
  Session session(command.program, *weights);

  size_t longest = trainedLength(command, options).value_or(tokenizer.truncation().value_or(SIZE_MAX));
  if (int64_t limit = session.longestText(embedding.function); uint64_t(limit) < longest)
    longest = size_t(limit);
  const std::string prompt = promptOf(command, options);
  std::vector<std::vector<int>> tokens;
  size_t all = 0;
  for (const std::string &text : texts) {
    tokens.push_back(tokenizer.encode(prompt + text, true, longest));
    if (tokens.back().empty())
      throw UserError("the text " + quote(text) + " has no tokens");
    all += tokens.back().size();
  }
  std::vector<std::vector<float>> vectors;
  {
    Progress progress("embedding", double(all), "tokens");
    vectors = embedTokens(session, embedding, tokens, [&](size_t count) { progress.add(double(count)); });
  }
  std::vector<Result> results;
  for (size_t i = 0; i < texts.size(); ++i)
    results.push_back({std::move(texts[i]), std::move(tokens[i]), std::move(vectors[i])});
  bool json = options.has("--json");
  if (options.has("--similarity"))
    json ? printSimilarityJson(results) : printSimilarity(results);
  else
    json ? printJson(results) : printTable(results);
  return report.finish();
}

} // namespace quern::runtime
