// `bench`: takes a compiled model, with random weights unless told. Gives: how fast it reads and writes text, next to
// what the machine allows.
//
// Both limits are measured right before and right after, as a shared machine drifts by a factor of two; the ratio is to
// the better of them. What counts as work comes from the description: the contractions' operations, the bytes of weights and
// caches that a step must read.
#include "runtime/Error.h"
#include "runtime/cli/Commands.h"
#include "runtime/cli/ProfileReport.h"
#include "runtime/cli/Terminal.h"
#include "runtime/engine/Sequence.h"
#include "runtime/machine/CpuFeatures.h"
#include "runtime/machine/Probe.h"
#include "runtime/machine/ThreadPool.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>

namespace quern::runtime {

namespace {

using Json = nlohmann::json;

const std::vector<Options::Known> known = {{"-p", "N", "tokens of the prefill (512)"},
                                           {"-n", "N", "decode steps (128)"},
                                           {"--chunk", "N", "tokens of one call of the prefill (all)"},
                                           {"--weights", "PATH", "real weights instead of random ones"},
                                           {"--train", nullptr, "a step of training instead (compiled with --train)"},
                                           {"--batch", "N", "rows of -p tokens (64) for --train (4)"},
                                           {"--seed", "N", "of the random weights and tokens (0)"},
                                           {"--threads", "N", "threads (all that this process may use)"},
                                           {"--json", nullptr, "one object"},
                                           {"--help", nullptr, "this"}};

double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

std::vector<int> randomTokens(int64_t count, int64_t bound, uint64_t seed) {
  std::vector<int> tokens;
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull; // any spread of rows will do
    tokens.push_back(int(int64_t(seed >> 33) % bound));
  }
  return tokens;
}

/// A number of lengths, by the description's symbols.
std::vector<int64_t> lengths(const Description &d, int64_t past, int64_t count) {
  std::vector<int64_t> sizes(d.symbols.size(), count);
  for (auto [symbol, value] : {std::pair{d.batch, int64_t(1)}, {d.past, past}, {d.cap, past + count}, {d.time, count}})
    if (symbol >= 0)
      sizes[size_t(symbol)] = value;
  d.completeSizes(sizes, count);
  return sizes;
}

/// One row of all that a function must be given: tokens where it reads a text, else zeros.
Values requestFor(const Description &d, int function, const std::vector<int> &text) {
  std::vector<int64_t> sizes = lengths(d, 0, int64_t(text.size()));
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
      request[input.name] = Value::make(input.kind, shape);
  }
  return request;
}

Json rate(double tokens, double seconds, double work, double before, double after, double scale, const char *unit,
          const std::string &what) {
  double limit = std::max(before, after), achieved = work / seconds;
  Json result = {
      {"tokens", tokens}, {"seconds", seconds}, {"tokens_per_s", tokens / seconds}, {"achieved", achieved / scale}};
  result["limit"] = {
      {"value", limit / scale}, {"unit", unit}, {"what", what}, {"before", before / scale}, {"after", after / scale}};
  result["ratio"] = achieved / limit;
  return result;
}

/// Seconds of `once`, the median of runs that take about two seconds together; one that takes long is not repeated.
double timeIt(const std::function<void()> &once) {
  double first = now();
  once();
  if (double seconds = now() - first; seconds > 5)
    return seconds;
  std::vector<double> samples;
  for (double begin = now(); samples.size() < 3 || (now() - begin < 2 && samples.size() < 50);) {
    double start = now();
    once();
    samples.push_back(now() - start);
  }
  return median(samples);
}

void print(const Json &result) {
  std::string text = format("%s on %s, %d threads\n", result["model"].get<std::string>().c_str(),
                            result["cpu"].get<std::string>().c_str(), result["threads"].get<int>());
  for (const char *part : {"prefill", "decode"}) {
    const Json &one = result[part];
    if (one.is_object())
      text += format("%-8s %8.1f tokens/s  %7.1f of %.1f %s (%.0f%%)\n", part, one["tokens_per_s"].get<double>(),
                     one["achieved"].get<double>(), one["limit"]["value"].get<double>(),
                     one["limit"]["unit"].get<std::string>().c_str(), 100 * one["ratio"].get<double>());
  }
  const Json &memory = result["memory"];
  text += "memory   " + formatBytes(memory["planned_bytes"].get<double>()) + " planned, " +
          formatBytes(memory["used_bytes"].get<double>()) + " used, of it " +
          formatBytes(memory["scratch_bytes"].get<double>()) + " scratch of kernels, beside the weights\n";
  writeOutput(text);
}

} // namespace

int benchCommand(const Command &command) {
  Options options("bench", withProfileOptions(known));
  options.parse(command.arguments);
  if (options.has("--help")) {
    writeOutput(options.usage("PROGRAM"));
    return 0;
  }
  configureThreads(options);
  ProfileReport report(options, command.program.description);
  if (options.has("--train")) {
    if (!&quern_training_commands)
      throw UserError("bench --train needs a program compiled with --train");
    return report.finish(quern_training_commands.bench(command, options));
  }
  const Description &d = command.program.description;
  uint64_t seed = uint64_t(options.integer("--seed", 0, INT64_MIN, INT64_MAX));
  int64_t reads = options.integer("-p", 512, 1, INT32_MAX), writes = options.integer("-n", 128, 1, INT32_MAX);

  double begin = now();
  std::unique_ptr<Weights> weights = options.has("--weights") ? command.openWeights(options) : Weights::random(d, seed);
  double loaded = now() - begin;
  Json result = {{"model", d.model},
                 {"cpu", cpuName()},
                 {"vectors", vectorName()},
                 {"threads", ThreadPool::instance().threads()},
                 {"weights_bytes", weights->totalBytes()},
                 {"load_s", loaded}};
  std::string flopsWhat = "f32 multiply-adds in registers", bytesWhat = "reading memory";

  bool generates = d.findRole("step", d.findFunction("encode") >= 0 ? "decode" : "forward") >= 0;
  std::optional<Engine> engine;
  std::optional<Session> alone;
  if (generates)
    engine.emplace(command.program, *weights);
  else
    alone.emplace(command.program, *weights);
  Session &session = generates ? engine->session() : *alone;
  bool hasSource = generates && engine->functions().hasSource();
  std::optional<Sequence> sequence;
  int reader = d.findFunction("forward");
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
  const FunctionInfo &readFunction = d.functions[size_t(reader)];
  if (!generates)
    reads = std::min(reads, session.longestText(reader));

  // Reading.
  int64_t bound = generates ? std::min(engine->tokenBound(), hasSource ? engine->functions().sourceBound(d) : INT64_MAX)
                            : readFunction.inputs.at(0).below.value_or(2);
  std::vector<int> text = randomTokens(reads, bound, seed);
  double before = measureFlops();
  double seconds = timeIt([&] {
    if (generates && !hasSource) {
      sequence->truncate(0);
      sequence->append(text);
      sequence->logits();
    } else if (generates) {
      sequence->setRequest(requestFor(d, reader, text));
    } else {
      session.evaluate(reader, requestFor(d, reader, text));
    }
  });
  double after = measureFlops();
  double flops = readFunction.flops ? double(readFunction.flops->evaluate(lengths(d, 0, reads))) : 0;
  result["prefill"] = rate(double(reads), seconds, flops, before, after, 1e9, "GFLOP/s", flopsWhat);

  // Writing.
  if (generates) {
    const FunctionInfo &step = d.functions[size_t(engine->functions().functionFor(d, 1))];
    if (hasSource) {
      text = {0};
      sequence->append(text);
    }
    sequence->logits();
    BandwidthProbe probe;
    before = probe.measure();
    double bytes = 0;
    begin = now();
    for (int64_t i = 0; i < writes; ++i) {
      text.push_back(int((text.back() * 31 + i) % bound));
      std::vector<int64_t> sizes = lengths(d, int64_t(text.size()) - 1, 1);
      if (hasSource)
        for (size_t s = 0; s < sizes.size(); ++s) // the source's length
          if (int(s) != d.batch && int(s) != d.past && int(s) != d.cap && int(s) != d.time)
            sizes[s] = reads;
      bytes += step.bytes ? double(step.bytes->evaluate(sizes)) : 0;
      sequence->append(text.back());
      sequence->logits();
    }
    seconds = now() - begin;
    after = probe.measure();
    result["decode"] = rate(double(writes), seconds, bytes, before, after, 1e9, "GB/s", bytesWhat);
  } else {
    result["decode"] = nullptr;
  }
  // The plan of the call that takes most, and the pages that were written.
  std::vector<int64_t> largest = lengths(d, 0, reads);
  if (generates && d.cap >= 0)
    largest[size_t(d.cap)] = reads + writes;
  d.completeSizes(largest, reads);
  uint64_t scratch = session.plannedScratch(reader, largest), planned = session.plannedBytes(reader, largest) - scratch;
  if (generates) // steps at the end may need more of that
    scratch = std::max(
        scratch, session.plannedScratch(engine->functions().functionFor(d, 1), lengths(d, reads + writes - 1, 1)));
  result["memory"] = {
      {"planned_bytes", planned + scratch},
      {"planned_scratch_bytes", scratch},
      {"used_bytes", session.touchedBytes() + (sequence ? sequence->touchedBytes() : 0) + session.scratchPeakBytes()},
      {"scratch_bytes", session.scratchPeakBytes()}};
  if (sequence) // of the text that was read and written
    result["memory"]["kept_bytes"] = sequence->touchedBytes();
  if (options.has("--json"))
    writeOutput(result.dump() + "\n");
  else
    print(result);
  return report.finish();
}

} // namespace quern::runtime
