// `generate`: takes prompts (text or token numbers). Gives: the continuation of each, as if it were alone. One prompt's is
// written as it is made; those of several are made together where the program can, and written in their order.
#include "runtime/Error.h"
#include "runtime/cli/Commands.h"
#include "runtime/cli/GenerateOptions.h"
#include "runtime/cli/GivenInputs.h"
#include "runtime/cli/JsonWriter.h"
#include "runtime/cli/ProfileReport.h"
#include "runtime/engine/Batch.h"
#include "runtime/machine/Terminal.h"
#include "runtime/machine/ThreadPool.h"

#include <algorithm>
#include <unistd.h>

namespace quern::runtime {

namespace {

struct Prompt {
  std::string text;
  std::vector<int> tokens;
};

/// A prompt and what is made of it.
struct Row {
  Prompt prompt;
  int result = 0;         // of the prompt, counted from 0
  int64_t given = 0;      // which row of what --input gives
  std::vector<int> begin; // what the text begins with: the prompt, or where a decoder starts
  std::unique_ptr<Sequence> sequence;
  std::unique_ptr<StopCheck> check;
  std::vector<int> made;
  std::vector<double> scores;
  std::optional<double> score; // of a beam
  std::string text;            // of the new tokens
};

class Generation {
public:
  Generation(const Command &command, const Options &options);
  int run();

private:
  const Command &command;
  const Options &options;
  bool isText;
  GenerateSettings settings;
  std::optional<Tokenizer> tokenizer;
  TextFunctions functions;
  GivenInputs given;
  bool sourceGiven = false; // by --input: prompts begin the text that is written
  std::vector<Row> rows;
  std::optional<Engine> engine;
  bool warned = false;

  void readGiven();
  void readPrompts();
  void pairRows();
  void begin(Row &row);
  void repeatPrompts();
  void checkLength(size_t length, int64_t longest) const;
  bool open(const Row &row);
  std::string choose(Row &row);
  std::unique_ptr<Sequence> makeSequence(const Row &row);
  void setRequest(const Row &row, Sequence &sequence);
  void runOne(Row &row);
  void runTogether();
  void runBeams(size_t first);
  std::string resultOf(const Row &row) const;
};

Generation::Generation(const Command &command, const Options &options)
    : command(command), options(options), isText(!options.has("--tokens")),
      settings(readSettings(command, options, isText)) {}

/// What the model takes beside the text, and whether all of it is there.
void Generation::readGiven() {
  const Description &d = command.program.description;
  functions = TextFunctions::find(d, settings.cache);
  const FunctionInfo &writer = d.functions[size_t(functions.main())];
  const std::string &text = writer.inputs[size_t(functions.textInput)].name;
  std::string path = options.text("--input", "");
  if (!path.empty())
    given = GivenInputs(path, d, {functions.encoder, functions.main()}, text);
  if (functions.hasSource()) {
    int tokens = findText(d, functions.encoder);
    const FunctionInfo &encoder = d.functions[size_t(functions.encoder)];
    sourceGiven = tokens < 0 || given.has(encoder.inputs[size_t(tokens)].name);
  }
  for (int number : {functions.encoder, functions.hasSource() ? -1 : functions.main()}) {
    if (number < 0)
      continue;
    const FunctionInfo &function = d.functions[size_t(number)];
    for (const TensorInfo &input : function.inputs)
      if (!input.optional && !given.has(input.name) && &input - function.inputs.data() != findText(d, number))
        throw UserError(quote(function.name) + " takes " + describeInputs(d, function) +
                        "; --input FILE gives what is no text, as safetensors");
  }
}

void Generation::readPrompts() {
  std::vector<std::string> texts = options.all("-p"), numbers = options.all("--tokens");
  if (texts.size() > 1 || numbers.size() > 1) {
    if ((!texts.empty() && !numbers.empty()) || options.has("-f"))
      throw UserError("several prompts: give each with -p, or each with --tokens");
  } else if (int(options.has("-p")) + int(options.has("-f")) + int(options.has("--tokens")) > 1) {
    throw UserError("give one of -p, -f and --tokens");
  }
  for (const std::string &list : numbers)
    rows.emplace_back().prompt.tokens = parseTokens(list);
  if (!isText)
    return;
  if (sourceGiven && texts.empty() && !options.has("-f")) { // each row's text is the model's own from the start
    rows.resize(size_t(given.rows()));
    return;
  }
  if (options.has("-f"))
    texts = {readFile(options.text("-f"))};
  else if (texts.empty() && ::isatty(STDIN_FILENO))
    throw UserError("no prompt: give -p TEXT, -f FILE, --tokens LIST, or text on standard input");
  else if (texts.empty())
    texts = {readStandardInput()};
  if (!tokenizer)
    command.needTokenizer(options); // throws
  for (const std::string &text : texts)
    rows.emplace_back().prompt = {text, tokenizer->encode(text, !sourceGiven)};
}

/// A row of --input for each prompt; one of the two may be one for all.
void Generation::pairRows() {
  size_t count = size_t(given.rows());
  if (count == 0)
    return;
  if (rows.size() == 1)
    while (rows.size() < count) {
      Prompt prompt = rows[0].prompt;
      rows.emplace_back().prompt = std::move(prompt);
    }
  if (count != 1 && rows.size() != count)
    throw UserError(format("%zu prompts for the %zu rows of %s", rows.size(), count, options.text("--input").c_str()));
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i].given = count == 1 ? 0 : int64_t(i);
}

/// A row for each result.
void Generation::repeatPrompts() {
  std::vector<Row> all;
  for (Row &row : rows)
    for (int result = 0; result < settings.results; ++result) {
      all.emplace_back().prompt = row.prompt;
      all.back().result = result;
      all.back().given = row.given;
    }
  rows = std::move(all);
}

void Generation::checkLength(size_t length, int64_t longest) const {
  if (longest != INT64_MAX && int64_t(length) > longest)
    throw UserError(format("the prompt has %zu tokens, but the model has only %lld positions", length,
                           static_cast<long long>(longest)));
  if (settings.context > 0 && int64_t(length) > settings.context)
    throw UserError(format("the prompt has %zu tokens, but the model's context is %lld; --context N allows more",
                           length, static_cast<long long>(settings.context)));
}

/// What the text begins with, checked.
void Generation::begin(Row &row) {
  const Description &d = engine->description();
  row.begin = row.prompt.tokens;
  if (functions.hasSource()) {
    if (!sourceGiven && row.prompt.tokens.empty())
      throw UserError("the prompt is empty");
    if (settings.begin.empty())
      throw UserError("the config has no decoder_start_token_id to begin with; --start-token N says it");
    row.begin = settings.begin;
    if (sourceGiven) {
      row.begin.insert(row.begin.end(), row.prompt.tokens.begin(), row.prompt.tokens.end());
    } else {
      checkTokens(row.prompt.tokens, functions.sourceBound(d));
      checkLength(row.prompt.tokens.size(), functions.longestSource(d));
    }
  } else if (row.begin.empty()) {
    if (settings.begin.empty())
      throw UserError("the prompt is empty, and the config has no bos_token_id to begin with; --start-token N says it");
    row.begin = settings.begin;
  }
  checkTokens(row.begin, engine->tokenBound());
  checkLength(row.begin.size(), engine->longest());
  row.check = std::make_unique<StopCheck>(settings.stop, tokenizer ? &*tokenizer : nullptr,
                                          functions.hasSource() ? std::vector<int>() : row.begin);
}

/// Whether the text goes on: it has not ended, and the model has a position for one more.
bool Generation::open(const Row &row) {
  if (row.check->done())
    return false;
  if (row.sequence->hasRoom())
    return true;
  printNote(format("stopped after %zu new tokens: the model has no more than %lld positions", row.made.size(),
                   static_cast<long long>(engine->longest())));
  return false;
}

/// The next token of a row: what can be shown of it.
std::string Generation::choose(Row &row) {
  if (settings.context > 0 && int64_t(row.sequence->tokens().size()) == settings.context + 1 &&
      !std::exchange(warned, true))
    printWarning(
        format("the text grows beyond the model's context of %lld tokens", static_cast<long long>(settings.context)));
  if (settings.scores) {
    Chosen chosen = row.sequence->chooseScored();
    row.made.push_back(chosen.token);
    row.scores.push_back(chosen.logProbability);
  } else {
    row.made.push_back(row.sequence->choose());
  }
  std::string piece = row.check->push(row.made.back());
  row.text += piece;
  return piece;
}

std::string Generation::resultOf(const Row &row) const {
  if (!settings.json && tokenizer)
    return (settings.echo ? row.prompt.text : "") + row.text + "\n";
  JsonWriter json;
  if (!settings.json)
    return json.wholes(row.made).take();
  json.object().key("tokens").wholes(row.made).key("text").text(row.text);
  if (settings.scores) {
    json.key("logprobs").list();
    for (double score : row.scores)
      json.real(score);
    json.end();
  }
  if (row.score)
    json.key("score").real(*row.score);
  return json.end().take();
}

/// With room for what will be made, and not yet with its text.
std::unique_ptr<Sequence> Generation::makeSequence(const Row &row) {
  Sequence::Options how;
  how.sampling = settings.sampling;
  how.sampling.seed += uint64_t(row.result);
  how.room = int64_t(row.begin.size()) + std::min<int64_t>(settings.stop.most, 4096) + 1;
  return std::make_unique<Sequence>(*engine, how);
}

/// What belongs to a row beside its text.
void Generation::setRequest(const Row &row, Sequence &sequence) {
  Values request;
  if (given.rows() > 0)
    request = given.row(row.given);
  if (functions.hasSource() && !sourceGiven)
    request["tokens"] = Value::ints({1, int64_t(row.prompt.tokens.size())}, row.prompt.tokens);
  if (!request.empty())
    sequence.setRequest(std::move(request));
}

/// One text, shown as it is made.
void Generation::runOne(Row &row) {
  bool shows = !settings.json && rows.size() == 1;
  auto show = [&](const std::string &piece) {
    if (shows && !piece.empty())
      writeOutput(piece);
  };
  if (!functions.hasSource() && settings.echo)
    show(isText ? row.prompt.text : tokenizer ? tokenizer->decode(row.begin, true) : "");
  double begin = now(), firstDone = begin;
  row.sequence = makeSequence(row);
  setRequest(row, *row.sequence);
  row.sequence->append(row.begin);
  while (open(row)) {
    std::string piece = choose(row);
    if (row.made.size() == 1)
      firstDone = now();
    if (tokenizer)
      show(piece);
    else
      show((row.made.size() > 1 ? "," : "") + std::to_string(row.made.back()));
  }
  std::string rest = row.check->finish();
  row.text += rest;
  show(rest);
  show("\n");
  row.sequence.reset();
  if (rows.size() == 1 && errorIsTerminal() && row.made.size() > 1)
    printNote(format("%zu tokens, %.1f a second; the first after %.0f ms", row.made.size(),
                     double(row.made.size() - 1) / (now() - firstDone), 1000 * (firstDone - begin)));
}

void Generation::runTogether() {
  Batch batch(*engine);
  auto endDone = [&](Row &row) {
    if (!row.sequence || open(row))
      return;
    row.text += row.check->finish();
    row.sequence.reset(); // leaves the batch
  };
  for (Row &row : rows) {
    row.sequence = makeSequence(row);
    if (row.result > 0) { // its prompt has been read
      row.sequence->become(*rows[size_t(&row - rows.data() - row.result)].sequence);
      continue;
    }
    row.sequence->append(row.begin);
    if (settings.results > 1 && settings.stop.most > 0)
      row.sequence->logits();
  }
  for (Row &row : rows) {
    batch.add(*row.sequence);
    endDone(row);
  }
  while (batch.size() > 0) {
    batch.step();
    for (Row &row : rows)
      if (row.sequence) {
        choose(row);
        endDone(row);
      }
  }
}

/// Rows from `first` on become the best texts of its prompt.
void Generation::runBeams(size_t first) {
  Row &row = rows[first];
  std::unique_ptr<Sequence> begin = makeSequence(row);
  setRequest(row, *begin);
  begin->append(row.begin);
  std::vector<Beam> beams = searchBeams(*engine, std::move(begin), [&] { return makeSequence(row); }, *settings.beams);
  for (size_t i = 0; i < std::min(beams.size(), size_t(settings.results)); ++i) {
    Row &result = rows[first + i];
    result.made = std::move(beams[i].made);
    result.scores = std::move(beams[i].logProbabilities);
    result.score = beams[i].score;
    for (int token : result.made)
      result.text += result.check->push(token);
    result.text += result.check->finish();
  }
}

int Generation::run() {
  readGiven(); // before gigabytes of weights are touched
  tokenizer = command.openTokenizer(options);
  if (!settings.stop.strings.empty() && !tokenizer)
    command.needTokenizer(options); // throws
  readPrompts();
  pairRows();
  std::unique_ptr<Weights> weights = command.openWeights(options);
  engine.emplace(command.program, *weights, Engine::Options{settings.cache});
  repeatPrompts();
  for (Row &row : rows)
    begin(row);
  if (settings.beams)
    for (size_t first = 0; first < rows.size(); first += size_t(settings.results))
      runBeams(first);
  else if (rows.size() > 1 && settings.cache && functions.batches())
    runTogether();
  else
    for (Row &row : rows)
      runOne(row);
  if (rows.size() > 1 || settings.json || settings.beams)
    for (const Row &row : rows)
      writeOutput(resultOf(row));
  rows.clear();
  engine.reset();
  return 0;
}

} // namespace

int generateCommand(const Command &command) {
  Options options("generate", withProfileOptions(generateOptions()));
  options.parse(command.arguments);
  if (options.has("--help")) {
    writeOutput(options.usage("PROGRAM"));
    return 0;
  }
  configureThreads(options);
  ProfileReport report(options, command.program.description);
  return report.finish(Generation(command, options).run());
}

} // namespace quern::runtime
