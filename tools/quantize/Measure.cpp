// Takes: programs, weights and a text. Gives: what each program loses, and how fast it is.
// Why programs and not the interpreter: what is measured is what people run, at its speed.
#include "tools/quantize/Measure.h"

#include "runtime/files/Safetensors.h"
#include "runtime/machine/ThreadPool.h"
#include "runtime/tokenizer/Tokenizer.h"
#include "runtime/tokenizer/files/VocabularyFiles.h"
#include "runtime/tuning/Child.h"
#include "runtime/weights/Checkpoint.h"
#include "support/Error.h"
#include "support/Files.h"
#include "support/Json.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace quern::runtime;

namespace quern::tools {
namespace {

constexpr int64_t logitsAtOnce = int64_t(256) << 20; // bytes

/// What a command prints. Throws with what it wrote to standard error where it fails.
std::vector<std::string> run(const std::vector<std::string> &command) {
  support::TemporaryFolder work;
  std::string errors = work.path() + "/errors";
  Child child(command, errors);
  std::vector<std::string> lines;
  while (std::optional<std::string> line = child.line(1e6))
    lines.push_back(*line);
  if (std::string how = child.finish().how; !how.empty())
    throw UserError(support::nameOf(command[0]) + " " + command[1] + " ended with " + how + ": " +
                    support::readFile(errors, 1 << 20));
  return lines;
}

Tokenizer openTokenizer(const std::string &weights, const std::string &given) {
  if (!given.empty() || support::isFolder(weights)) {
    TokenizerText text = tokenizerAt(given.empty() ? weights : given);
    return Tokenizer::parse(text.json, text.file);
  }
  std::optional<TokenizerText> text = findTokenizer([&](const std::string &name) -> std::optional<std::string> {
    if (std::optional<std::string> inside = textInside(weights, name))
      return inside;
    std::string beside = support::folderOf(weights) + "/" + name;
    return support::fileExists(beside) ? std::optional(support::readFile(beside)) : std::nullopt;
  });
  if (!text)
    throw UserError("there is no tokenizer in or beside " + weights + "; name one with --tokenizer FILE");
  return Tokenizer::parse(text->json, text->file);
}

void writeTokens(const std::string &path, const std::vector<std::vector<int>> &rows, size_t first, size_t count) {
  std::vector<int32_t> tokens;
  for (size_t i = first; i < first + count; ++i)
    tokens.insert(tokens.end(), rows[i].begin(), rows[i].end());
  writeSafetensors(path, {{"tokens", Dtype::I32, {int64_t(count), int64_t(rows[0].size())}, tokens.data()}});
}

StoredTensor readLogits(const std::string &path, const std::vector<int64_t> &shape) {
  std::map<std::string, StoredTensor> tensors = readSafetensors(MappedFile::open(path));
  if (tensors.size() != 1 || tensors.begin()->second.dtype != Dtype::F32 || tensors.begin()->second.shape != shape)
    throw UserError("the program's result is no table of logits " + shapeText(shape));
  return tensors.begin()->second;
}

/// Of one position: logarithms of the probabilities.
void logProbabilities(const uint8_t *logits, std::vector<float> &to) {
  std::memcpy(to.data(), logits, to.size() * 4);
  float most = *std::max_element(to.begin(), to.end());
  double sum = 0;
  for (float logit : to)
    sum += std::exp(double(logit) - most);
  double all = most + std::log(sum);
  for (float &logit : to)
    logit = float(logit - all);
}

/// Sums over the positions of some rows.
struct Sums {
  double loss = 0, divergence = 0;
};

Sums sumOf(const std::vector<int> &row, const uint8_t *logits, const uint8_t *base, size_t vocabulary) {
  Sums sums;
  std::vector<float> own(vocabulary), exact(vocabulary);
  for (size_t t = 0; t + 1 < row.size(); ++t) {
    logProbabilities(logits + t * vocabulary * 4, own);
    sums.loss -= own[size_t(row[t + 1])];
    if (base == logits)
      continue;
    logProbabilities(base + t * vocabulary * 4, exact);
    for (size_t v = 0; v < vocabulary; ++v)
      sums.divergence += std::exp(double(exact[v])) * (double(exact[v]) - own[v]);
  }
  return sums;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

} // namespace

int64_t TextRows::predicted() const {
  int64_t count = 0;
  for (const std::vector<int> &row : rows)
    count += int64_t(row.size()) - 1;
  return count;
}

TextRows readRows(const std::string &path, const std::string &weights, const std::string &tokenizerFile, int64_t length,
                  int64_t most) {
  Tokenizer tokenizer = openTokenizer(weights, tokenizerFile);
  std::string text = support::readFile(path);
  text.resize(std::min(text.size(), size_t(most) * 64)); // no tokenizer makes tokens as long as that of a whole text
  std::vector<int> tokens = tokenizer.encode(text, false), head = tokenizer.encode("", true);
  if (head.size() != 1 || tokenizer.encode("a", true).front() != head[0]) // what stands behind a text is not for rows
    head.clear();
  length = std::min(length, int64_t(tokens.size() + head.size()));
  const size_t each = size_t(length) - head.size();
  TextRows result;
  for (size_t at = 0; length > 1 && at + each <= tokens.size() && int64_t(at) < most; at += each) {
    std::vector<int> row = head;
    row.insert(row.end(), tokens.begin() + std::ptrdiff_t(at), tokens.begin() + std::ptrdiff_t(at + each));
    result.rows.push_back(std::move(row));
  }
  if (result.rows.empty())
    throw UserError(path + " has " + std::to_string(tokens.size()) +
                    " tokens; at least 2 are needed, and some thousand for numbers that mean something");
  return result;
}

int64_t longestRow(const Description &description, const std::string &model) {
  int number = description.findFunction("forward");
  const FunctionInfo *forward = number < 0 ? nullptr : &description.functions[size_t(number)];
  if (!forward || !forward->findInput("tokens") || forward->outputs.size() != 1 ||
      forward->outputs[0].dims.size() != 3 || description.refusal)
    throw UserError(model + " does not predict the next token of a text: there is no perplexity; leave out --text");
  int64_t longest = INT64_MAX;
  for (const LimitInfo &limit : description.limits)
    if (limit.functions.empty() || std::count(limit.functions.begin(), limit.functions.end(), number))
      longest = std::min(longest, limit.atMost);
  return longest;
}

TextMeasure::TextMeasure(TextRows given, int64_t vocabulary)
    : rows(std::move(given)), vocabulary(vocabulary),
      perCall(std::max<int64_t>(1, logitsAtOnce / (vocabulary * 4 * int64_t(rows.rows[0].size())))) {
  for (const std::vector<int> &row : rows.rows)
    if (int most = *std::max_element(row.begin(), row.end()); most >= vocabulary)
      throw UserError("the tokenizer makes token " + std::to_string(most) + " of the text, but the model has " +
                      std::to_string(vocabulary) + "; is it another model's? --tokenizer FILE names the right one");
}

TextLoss TextMeasure::measure(const std::string &program, const std::string &weights) {
  Sums all;
  const int64_t length = int64_t(rows.rows[0].size()), count = int64_t(rows.rows.size());
  for (int64_t first = 0; first < count; first += perCall) {
    const int64_t some = std::min(perCall, count - first);
    const std::string input = work.path() + "/tokens", base = work.path() + "/base-" + std::to_string(first),
                      output = hasBase ? work.path() + "/logits" : base;
    writeTokens(input, rows.rows, size_t(first), size_t(some));
    run({program, "eval", "--weights", weights, "--input", input, "--output", output});
    StoredTensor logits = readLogits(output, {some, length, vocabulary}),
                 exact = hasBase ? readLogits(base, logits.shape) : logits;
    std::vector<Sums> sums(static_cast<size_t>(some));
    const int64_t bytes = length * vocabulary * 4;
    ThreadPool::instance().forEach(int(some), [&](int i) {
      sums[size_t(i)] =
          sumOf(rows.rows[size_t(first + i)], logits.data + i * bytes, exact.data + i * bytes, size_t(vocabulary));
    });
    for (const Sums &row : sums) {
      all.loss += row.loss;
      all.divergence += row.divergence;
    }
  }
  hasBase = true;
  const double predicted = double(rows.predicted());
  return {std::exp(all.loss / predicted), std::max(0.0, all.divergence / predicted)};
}

std::vector<Speed> speedsAlternately(const std::vector<ProgramRun> &programs, int rounds, int64_t longest) {
  const int64_t prefill = std::min<int64_t>(128, longest / 2), decode = std::min<int64_t>(64, longest / 2);
  std::vector<std::vector<double>> prefills(programs.size()), decodes(programs.size());
  for (int round = 0; round < rounds; ++round)
    for (size_t i = 0; i < programs.size(); ++i) {
      std::vector<std::string> lines = run({programs[i].program, "bench", "--weights", programs[i].weights, "-p",
                                            std::to_string(prefill), "-n", std::to_string(decode), "--json"});
      nlohmann::json measured = support::parseJson(lines.empty() ? "" : lines[0], "bench");
      prefills[i].push_back(measured.at("prefill").at("tokens_per_s"));
      decodes[i].push_back(measured.at("decode").at("tokens_per_s"));
    }
  std::vector<Speed> result;
  for (size_t i = 0; i < programs.size(); ++i)
    result.push_back({median(prefills[i]), median(decodes[i])});
  return result;
}

} // namespace quern::tools
