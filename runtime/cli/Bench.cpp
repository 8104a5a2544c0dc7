// `bench`: takes a compiled model, with random weights unless options say otherwise. Gives: how fast prefill and decode are, next to
// what the machine allows.
//
// Both limits are measured around the figure, as a shared machine drifts by a factor of two: arithmetic right before and
// right after, the bandwidth between groups of steps, too, as it drifts within a second. The limit is at least what was
// done. What counts as work comes from the description: the contractions' operations, the bytes of weights and caches
// that a step must read. Of a device all of it is the device's: times between marks by its clock, limits by kernels that
// read its memory, and multiply and add.
#include "runtime/Error.h"
#include "runtime/cli/Commands.h"
#include "runtime/cli/ProfileReport.h"
#include "runtime/cli/Workload.h"
#include "runtime/machine/CpuFeatures.h"
#include "runtime/machine/Probe.h"
#include "runtime/machine/Terminal.h"
#include "runtime/machine/ThreadPool.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <optional>

namespace quern::runtime {

namespace {

using Json = nlohmann::json;

const std::vector<Options::Known> known = {{"-p", "N", "tokens of the prefill (512)"},
                                           {"-n", "N", "decode steps (128)"},
                                           {"-r", "N",
                                            "runs of each figure: their median, the slowest and the fastest (prefill: "
                                            "as many as take two seconds; decode: 1)"},
                                           {"--chunk", "N", "tokens of one call of the prefill (all)"},
                                           {"--weights", "PATH", "real weights instead of random ones"},
                                           {"--train", nullptr, "a step of training instead (compiled with --train)"},
                                           {"--batch", "N", "rows of -p tokens (64) for --train (4)"},
                                           {"--seed", "N", "of the random weights and tokens (0)"},
                                           {"--threads", "N", "threads (all that this process may use)"},
                                           {"--json", nullptr, "one object"},
                                           {"--help", nullptr, "this"}};

/// Of runs that read or write `tokens` each and do `work`, beside a limit with the least and the most of its measurements.
Json rate(double tokens, const Samples &runs, double work, double limit, std::pair<double, double> measured,
          double scale, const char *unit, const std::string &what) {
  double seconds = runs.median(), achieved = work / seconds;
  Json result = {{"tokens", tokens},
                 {"seconds", seconds},
                 {"tokens_per_s", tokens / seconds},
                 {"achieved", achieved / scale},
                 {"runs", runs.count()},
                 {"fastest_s", runs.least()},
                 {"slowest_s", runs.most()}};
  limit = std::max(limit, achieved);
  result["limit"] = {{"value", limit / scale},
                     {"unit", unit},
                     {"what", what},
                     {"least", measured.first / scale},
                     {"most", measured.second / scale}};
  result["ratio"] = achieved / limit;
  return result;
}

/// Steps of decode beside what reading their bytes alone would have taken, at the rates measured around each group of
/// them.
class DecodeRuns {
public:
  explicit DecodeRuns(TextWorkload &text) : text(text), device(text.session().device()) {}
  void run(const FunctionInfo &step);
  Samples seconds;
  Samples alone;     ///< of a run: seconds that reading its bytes would take, of the seconds that it took
  double bytes = 0;  ///< of the last run
  Samples bandwidth; ///< bytes a second
  Json asked;        ///< of the device, in the last run

private:
  static constexpr double groupSeconds = 0.1; // a measurement takes a tenth of that

  TextWorkload &text;
  Device &device;
  std::optional<BandwidthProbe> probe; ///< of as much memory as a step reads
};

void DecodeRuns::run(const FunctionInfo &step) {
  auto bytesOfStep = [&] { return step.bytes ? double(step.bytes->evaluate(text.stepSizes())) : 0; };
  if (!probe)
    probe.emplace(bytesOfStep() > 0 ? uint64_t(bytesOfStep()) : BandwidthProbe::largest);
  auto measure = [&] {
    double rate = device.isHost() ? probe->measureBriefly() : device.measureLimits().bytes;
    bandwidth.add(rate);
    return rate;
  };
  double before = measure(), all = 0, reading = 0;
  bytes = 0;
  DeviceCounts first = device.counts();
  for (int64_t i = 0; i < text.writes;) {
    double ofGroup = 0, start = now();
    double taken = device.timed([&] {
      for (double sofar = 0; i < text.writes && (sofar < groupSeconds || !device.isHost());
           ++i, sofar = now() - start) {
        ofGroup += bytesOfStep();
        text.step();
      }
    });
    if (!device.isHost()) // all steps are one group, so that they alone are counted
      asked = countsSince(device, first);
    double after = measure();
    bytes += ofGroup;
    all += taken;
    reading += ofGroup / ((before + after) / 2);
    before = after;
  }
  seconds.add(all);
  alone.add(std::min(1.0, reading / all)); // what is in caches is read faster
}

/// Runs of `once` after a first that touches all memory: -r of them, or what takes about two seconds together; then one
/// that takes long is not repeated.
Samples timeIt(Device &device, const Options &options, const std::function<void()> &once) {
  Samples first, samples;
  first.add(device.timed(once));
  if (first.median() > 5 && !options.has("-r"))
    return first;
  forgetCalls();
  while (samples.wantsMore(options, 2))
    samples.add(device.timed(once));
  return samples;
}

/// "1602 to 1671 in 5 runs", of tokens a second.
std::string spreadText(const Json &one) {
  if (one["runs"] == 1)
    return "";
  double tokens = one["tokens"];
  return format("  %.1f to %.1f in %llu runs", tokens / one["slowest_s"].get<double>(),
                tokens / one["fastest_s"].get<double>(), one["runs"].get<unsigned long long>());
}

void print(const Json &result) {
  std::string text = result.contains("device")
                         ? format("%s on %s\n", result["model"].get<std::string>().c_str(),
                                  result["device"]["name"].get<std::string>().c_str())
                         : format("%s on %s, %d threads\n", result["model"].get<std::string>().c_str(),
                                  result["cpu"].get<std::string>().c_str(), result["threads"].get<int>());
  for (const char *part : {"prefill", "decode"}) {
    const Json &one = result[part];
    if (!one.is_object())
      continue;
    const double achieved = one["achieved"];
    std::string beside;
    if (auto other = one.find("multiply_adds"); other != one.end())
      beside = format("; %.0f%% of %.1f by multiply-adds", 100 * achieved / other->get<double>(), other->get<double>());
    text += format("%-8s %8.1f tokens/s  %7.1f of %.1f %s (%.0f%%%s)%s\n", part, one["tokens_per_s"].get<double>(),
                   achieved, one["limit"]["value"].get<double>(), one["limit"]["unit"].get<std::string>().c_str(),
                   100 * one["ratio"].get<double>(), beside.c_str(), spreadText(one).c_str());
  }
  if (result.contains("device"))
    text += format("device   %llu launches (%llu graphs), %llu bytes to it and %llu from it in all steps\n",
                   static_cast<unsigned long long>(result["device"]["launches"].get<uint64_t>()),
                   static_cast<unsigned long long>(result["device"]["graphs"].get<uint64_t>()),
                   static_cast<unsigned long long>(result["device"]["sent_bytes"].get<uint64_t>()),
                   static_cast<unsigned long long>(result["device"]["fetched_bytes"].get<uint64_t>()));
  const Json &memory = result["memory"];
  text += "memory   " + formatBytes(memory["planned_bytes"].get<double>()) + " planned, " +
          formatBytes(memory["used_bytes"].get<double>()) + " used, of it " +
          formatBytes(memory["scratch_bytes"].get<double>()) + " scratch of kernels, beside the weights\n";
  writeOutput(text);
}

} // namespace

Json countsSince(const Device &device, const DeviceCounts &before) {
  const DeviceCounts &now = device.counts();
  return {{"name", device.name()},
          {"launches", now.launches - before.launches},
          {"graphs", now.graphs - before.graphs},
          {"allocations", now.allocations - before.allocations},
          {"sent", now.sent - before.sent},
          {"sent_bytes", now.sentBytes - before.sentBytes},
          {"fetched", now.fetched - before.fetched},
          {"fetched_bytes", now.fetchedBytes - before.fetchedBytes},
          {"moved", now.moved - before.moved}};
}

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
  double begin = now();
  TextWorkload text(command, options);
  double loaded = now() - begin;
  Session &session = text.session();
  Json result = {{"model", d.model},
                 {"cpu", cpuName()},
                 {"vectors", vectorName()},
                 {"threads", ThreadPool::instance().threads()},
                 {"weights_bytes", text.weights->totalBytes()},
                 {"load_s", loaded}};
  Device &device = session.device();
  std::string bytesWhat = device.isHost() ? "reading memory" : "reading the device's memory";
  int64_t reads = text.reads, writes = text.writes;

  // Reading.
  ArithmeticLimit arithmetic = measureArithmetic(device, d);
  double before = arithmetic.flops;
  DeviceCounts atFirst = device.counts();
  Samples runs = timeIt(device, options, [&] { text.prefill(); });
  double after = measureArithmetic(device, d).flops;
  const FunctionInfo &readFunction = d.functions[size_t(text.reader)];
  double flops = readFunction.flops ? double(readFunction.flops->evaluate(textSizes(d, 0, reads))) : 0;
  double peak = std::max({before, after, flops / runs.least()});
  result["prefill"] =
      rate(double(reads), runs, flops, peak, std::minmax(before, after), 1e9, "GFLOP/s", arithmetic.what);
  if (arithmetic.inPieces) // what tiles are to exceed
    result["prefill"]["multiply_adds"] = measureFlops() / 1e9;

  // Writing.
  if (text.generates) {
    const FunctionInfo &step = d.functions[size_t(text.engine->functions().functionFor(d, 1))];
    auto rewind = [&] {
      text.beginDecode();
      session.device().synchronise();
    };
    rewind();
    DecodeRuns decoded(text);
    for (int64_t left = repetitionsOf(options, 1); left > 0; --left) {
      decoded.run(step);
      if (!device.isHost())
        result["device"] = decoded.asked;
      if (left > 1)
        rewind();
    }
    double limit = decoded.bytes / decoded.seconds.median() / decoded.alone.median();
    report.setLimits(peak, std::max(limit, decoded.bytes / decoded.seconds.least()));
    result["decode"] = rate(double(writes), decoded.seconds, decoded.bytes, limit,
                            {decoded.bandwidth.least(), decoded.bandwidth.most()}, 1e9, "GB/s", bytesWhat);
  } else {
    result["decode"] = nullptr;
    if (!device.isHost()) // of all calls
      result["device"] = countsSince(device, atFirst);
  }
  // The plan of the call that takes most, and the pages that were written.
  std::vector<int64_t> largest = textSizes(d, 0, reads);
  if (text.generates && d.cap >= 0)
    largest[size_t(d.cap)] = reads + writes;
  d.completeSizes(largest, reads);
  uint64_t scratch = session.plannedScratch(text.reader, largest),
           planned = session.plannedBytes(text.reader, largest) - scratch;
  if (text.generates) // steps at the end may need more of that
    scratch = std::max(scratch, session.plannedScratch(text.engine->functions().functionFor(d, 1),
                                                       textSizes(d, reads + writes - 1, 1)));
  result["memory"] = {{"planned_bytes", planned + scratch},
                      {"planned_scratch_bytes", scratch},
                      {"used_bytes", session.touchedBytes() + (text.sequence ? text.sequence->touchedBytes() : 0) +
                                         session.scratchPeakBytes()},
                      {"scratch_bytes", session.scratchPeakBytes()}};
  if (text.sequence) // of the text that was read and written
    result["memory"]["kept_bytes"] = text.sequence->touchedBytes();
  if (options.has("--json"))
    writeOutput(result.dump() + "\n");
  else
    print(result);
  return report.finish();
}

} // namespace quern::runtime
