// Takes: a program and the lengths asked for. Gives: the calls that are measured, on weights and tokens that are made up
// unless options say otherwise.
#include "runtime/cli/Workload.h"

#include "runtime/Error.h"
#include "runtime/machine/Probe.h"
#include "runtime/machine/Profile.h"

#include <algorithm>
#include <numeric>

namespace quern::runtime {

void Samples::add(double seconds) {
  sorted.insert(std::upper_bound(sorted.begin(), sorted.end(), seconds), seconds);
}

double Samples::median() const {
  size_t middle = sorted.size() / 2;
  return sorted.size() % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

double Samples::total() const {
  return std::accumulate(sorted.begin(), sorted.end(), 0.0);
}

bool Samples::wantsMore(const Options &options, double seconds) const {
  if (int64_t wished = repetitionsOf(options, 0))
    return int64_t(count()) < wished;
  return count() < 3 || (total() < seconds && count() < 50);
}

void forgetCalls() {
  if (CallRecorder *recorder = CallRecorder::active())
    recorder->forget();
}

ArithmeticLimit measureArithmetic(Device &device, const Description &d) {
  if (device.isHost()) {
    const int terms = d.multipliesBytes || !d.multipliesTiles ? 1 : d.multipliesTiles;
    const std::string numbers = d.multipliesBytes ? "bytes" : d.multipliesTiles || d.multipliesBF16 ? "bf16" : "f32";
    return {measureFlops({d.multipliesBytes, d.multipliesTiles > 0, d.multipliesBF16}) / terms,
            (numbers == "f32" ? numbers + " multiply-adds" : "multiply-adds of " + numbers) + " in " +
                (d.multipliesTiles ? "AMX's registers" : "registers") +
                (terms > 1 ? ", " + std::to_string(terms) + " for each of f32" : ""),
            0, terms > 1};
  }
  DeviceLimits limits = device.measureLimits();
  if (d.multipliesBF16 && limits.products > 0)
    return {limits.products, "bf16 products by tensor cores", limits.bytes};
  return {limits.flops, "f32 multiply-adds in registers", limits.bytes};
}

int64_t repetitionsOf(const Options &options, int64_t otherwise) {
  return options.integer("-r", otherwise, 1, 100'000);
}

std::vector<int> randomTokens(int64_t count, int64_t bound, uint64_t seed) {
  std::vector<int> tokens;
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull; // any spread of rows will do
    tokens.push_back(int(int64_t(seed >> 33) % bound));
  }
  return tokens;
}

std::vector<int64_t> textSizes(const Description &d, int64_t past, int64_t count) {
  std::vector<int64_t> sizes(d.symbols.size(), count);
  for (auto [symbol, value] : {std::pair{d.batch, int64_t(1)}, {d.past, past}, {d.cap, past + count}, {d.time, count}})
    if (symbol >= 0)
      sizes[size_t(symbol)] = value;
  d.completeSizes(sizes, count);
  return sizes;
}

/// One row of all that a function must be given: tokens where it reads a text, else zeros.
static Values requestFor(const Description &d, int function, const std::vector<int> &text) {
  std::vector<int64_t> sizes = textSizes(d, 0, int64_t(text.size()));
  int tokens = findText(d, function);
  const FunctionInfo &info = d.functions[size_t(function)];
  Values request;
  for (const TensorInfo &input : info.inputs) {
    std::vector<int64_t> shape;
    for (const SizeExpr &dim : input.dims)
      shape.push_back(dim.evaluate(sizes));
    if (&input - info.inputs.data() == tokens)
      request[input.name] = Value::ints({1, int64_t(text.size())}, text);
    else if (!input.optional)
      request[input.name] = Value::make(input.storage, shape);
  }
  return request;
}

TextWorkload::TextWorkload(const Command &command, const Options &options)
    : reads(options.integer("-p", 512, 1, INT32_MAX)), writes(options.integer("-n", 128, 1, INT32_MAX)),
      d(command.program.description) {
  uint64_t seed = uint64_t(options.integer("--seed", 0, INT64_MIN, INT64_MAX));
  weights = options.has("--weights") ? command.openWeights(options) : Weights::random(d, seed);
  generates = d.findRole("step", d.findFunction("encode") >= 0 ? "decode" : "forward") >= 0;
  if (generates)
    engine.emplace(command.program, *weights);
  else
    alone.emplace(command.program, *weights);
  hasSource = generates && engine->functions().hasSource();
  reader = d.findFunction("forward");
  if (generates) {
    int64_t longest = hasSource ? engine->functions().longestSource(d) : engine->longest();
    auto fit = [&](int64_t &count, const char *name, int64_t most) {
      if (count > most && options.has(name))
        throw UserError(format("%s %lld is too much: the model has only %lld positions", name,
                               static_cast<long long>(count), static_cast<long long>(most)));
      count = std::max<int64_t>(1, std::min(count, most));
    };
    if (hasSource) {
      fit(reads, "-p", longest);
      fit(writes, "-n", engine->longest() - 1);
    } else {
      fit(reads, "-p", longest - 1);
      fit(writes, "-n", longest - reads);
    }
    reader = hasSource ? engine->functions().encoder : engine->functions().step;
    Sequence::Options how;
    how.room = reads + writes;
    how.chunk = options.integer("--chunk", reads, 1, INT32_MAX);
    sequence.emplace(*engine, how);
  }
  if (reader < 0)
    throw UserError("this model has no function to measure");
  if (!generates)
    reads = std::min(reads, session().longestText(reader));
  bound = generates ? std::min(engine->tokenBound(), hasSource ? engine->functions().sourceBound(d) : INT64_MAX)
                    : d.functions[size_t(reader)].inputs.at(0).below.value_or(2);
  text = randomTokens(reads, bound, seed);
}

/// The logits stay with a device that chooses by itself.
void TextWorkload::read() {
  if (session().device().chooser())
    sequence->advance();
  else
    sequence->logits();
}

void TextWorkload::prefill() {
  steps = 0;
  if (generates && !hasSource) {
    sequence->truncate(0);
    sequence->append(text);
    read();
  } else if (generates) {
    sequence->setRequest(requestFor(d, reader, text));
  } else {
    session().evaluate(reader, requestFor(d, reader, text));
  }
}

void TextWorkload::beginDecode() {
  if (!hasSource && sequence->tokens().size() < size_t(reads))
    prefill();
  if (hasSource && sequence->tokens().empty())
    prefill();
  sequence->truncate(hasSource ? 0 : size_t(reads));
  if (hasSource)
    sequence->append(0);
  read();
  if (session().device().chooser()) { // memory for choosing is taken when it is first done
    size_t length = sequence->tokens().size();
    sequence->choose();
    sequence->truncate(length);
    sequence->advance();
  }
  steps = 0;
}

std::vector<int64_t> TextWorkload::stepSizes() const {
  std::vector<int64_t> sizes = textSizes(d, int64_t(sequence->tokens().size()), 1);
  if (hasSource)
    for (size_t s = 0; s < sizes.size(); ++s) // the source's length
      if (int(s) != d.batch && int(s) != d.past && int(s) != d.cap && int(s) != d.time)
        sizes[s] = reads;
  return sizes;
}

void TextWorkload::step() {
  if (session().device().chooser()) { // where the device chooses, that is of a step
    sequence->choose();
    sequence->advance();
    ++steps;
    return;
  }
  sequence->append(int((sequence->tokens().back() * 31 + steps++) % bound));
  sequence->logits();
}

std::vector<Workload::Part> TextWorkload::parts() {
  std::vector<Part> parts = {{"prefill", 1, [this] { prefill(); }}};
  if (generates)
    parts.push_back({"decode", double(writes), [this] { step(); },
                     [this] {
                       if (steps == 0 || steps >= writes)
                         beginDecode();
                     }});
  return parts;
}

} // namespace quern::runtime
