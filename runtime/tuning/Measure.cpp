// `measure`: what `quern tune` asks of the programs that it makes. Takes: trials, each two versions of a kernel. Gives: a
// line of JSON for each, as soon as it is known, so that whoever reads them loses nothing when this process ends.
//
//   {"device": "OpenCL GPU ..."}    --device
//   {"shares": {"prefill": {"calls": 1, "ns": 310e6, "kernels": {"contract_3": {"ns": 12e6, "title": ..., "at": ...}}}, ...}}    --shares
//   {"begin": 0}   then   {"trial": 0, "outcome": "faster", "difference": 1e-7, "ratio": 0.93, "error": 0.01, "pairs": 60, "parts": [...]}
//   {"whole": [{"name": "prefill", "ratio": 0.97, "error": 0.004, "pairs": 9, "before": ns, "after": ns}]}    --whole
#include "runtime/abi/Versions.h"
#include "runtime/cli/Workload.h"
#include "runtime/machine/Terminal.h"
#include "runtime/tuning/Compare.h"
#include "runtime/tuning/Race.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace quern::runtime {

namespace {

using Json = nlohmann::json;

const std::vector<Options::Known> known = {
    {"-p", "N", "tokens of the prefill (512); of a training step's rows (64)"},
    {"-n", "N", "decode steps that follow (128)"},
    {"--weights", "PATH", "real weights instead of random ones"},
    {"--train", nullptr, "steps of training instead (compiled with --train)"},
    {"--batch", "N", "rows of -p tokens for --train (4)"},
    {"--seed", "N", "of the random weights and tokens (0)"},
    {"--threads", "N", "threads (all that this process may use)"},
    {"--use", "KERNEL:VERSION", "what launches call that no trial is about; more than once"},
    {"--device", nullptr, "the name of the device that computes (cpu: the processor)"},
    {"--shares", nullptr, "what each kernel takes"},
    {"--trial", "KERNEL:FIRST:SECOND", "compare two versions of a kernel; more than once"},
    {"--tolerance", "X", "a version whose results differ by more is not timed (1e-4)"},
    {"--seconds", "S", "for a trial at most (3)"},
    {"--whole", nullptr, "compare the program of first versions and that of --use"},
    {"--help", nullptr, "this"}};

/// Calls of a part in a round: several of those that are short.
constexpr int roundCalls = 4;

class Measurement {
public:
  Measurement(const Description &description, Workload &workload, double seconds)
      : description(description), device(workload.device()), parts(workload.parts()), race(description),
        seconds(seconds) {}

  void use(int kernel, int version) {
    used[kernel] = version;
    race.use(kernel, version);
  }
  Json shares();
  Json trial(int kernel, int first, int second, double tolerance);
  Json whole();

private:
  const Description &description;
  Device &device;
  std::vector<Workload::Part> parts;
  Race race;
  double seconds;
  std::map<int, int> used;

  void run(size_t part, bool recorded = true) {
    parts[part].prepare();
    race.enter(recorded ? int(part) : -1);
    parts[part].once();
    race.enter(-1);
  }
  /// Nanoseconds by the device's clock.
  double timed(const std::function<void()> &once) { return device.timed(once) * 1e9; }
  /// The part's calls in a round: prefill is one call, decode steps are short.
  int callsOf(size_t part) const { return parts[part].count > 1 ? roundCalls : 1; }
};

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json("infinite");
}

Json Measurement::shares() {
  Json result = Json::object();
  for (size_t p = 0; p < parts.size(); ++p) {
    run(p, false); // touches memory
    race.stop();
    int calls = parts[p].count > 1 ? 2 * roundCalls : 2;
    double all = timed([&] {
      for (int i = 0; i < calls; ++i)
        run(p);
    });
    Json kernels = Json::object();
    if (race.times().size() > p)
      for (auto [kernel, nanoseconds] : race.times()[p])
        if (kernel >= 0) {
          std::string name = quern_versions.kernels[kernel].kernel;
          auto launch = std::find_if(description.launches.begin(), description.launches.end(),
                                     [&](const LaunchInfo &info) { return info.kernel == name; });
          kernels[name] = {{"ns", nanoseconds / calls}, {"title", launch->title}, {"at", launch->at}};
        }
    result[parts[p].name] = {{"calls", parts[p].count}, {"ns", all / calls}, {"kernels", kernels}};
  }
  return result;
}

/// Faster beyond doubt, and nowhere slower.
bool isFaster(const Json &result) {
  double ratio = result["ratio"], error = result["error"];
  bool faster = result["pairs"] > 0 && ratio < 0.99 && ratio + 2 * error < 1;
  for (const Json &part : result["parts"])
    faster = faster && part["ratio"].get<double>() - 2 * part["error"].get<double>() < 1.02;
  return faster;
}

Json Measurement::trial(int kernel, int first, int second, double tolerance) {
  // Whether it is right; and which parts have the kernel.
  std::vector<size_t> having;
  Json result;
  {
    Comparison comparison(device, 0, second);
    race.check(kernel);
    for (size_t p = 0; p < parts.size(); ++p) {
      parts[p].prepare(); // an earlier part may be in it
      comparison.launches = 0;
      parts[p].once();
      if (comparison.launches)
        having.push_back(p);
    }
    race.use(kernel, used[kernel]);
    result["difference"] = number(comparison.difference);
    result["outcome"] = "wrong";
    if (!(comparison.difference <= tolerance))
      return result;
  }
  double value = 1, error = 0;
  size_t pairs = 0;
  Json reported;
  race.begin(kernel, first, second);
  std::vector<double> calls(parts.size(), 0);
  for (double begin = now(); !having.empty();) {
    for (size_t p : having)
      for (int i = 0; i < callsOf(p); ++i, ++calls[p])
        run(p);
    // The kernel's time in one use of the program: of its launches, as often as each occurs.
    double weight = 0, sum = 0, variance = 0;
    bool whole = true;
    reported = Json::array();
    pairs = 0;
    for (size_t p : having) {
      double own = 0, ownSum = 0, ownVariance = 0;
      for (const Race::Site &site : race.sites(int(p), calls[p])) {
        double w = site.ratio.first * site.launches * parts[p].count;
        own += w;
        ownSum += w * site.ratio.value;
        ownVariance += std::pow(w * site.ratio.error, 2);
        pairs += site.ratio.pairs;
        whole = whole && site.ratio.pairs >= 4;
      }
      whole = whole && own > 0;
      weight += own;
      sum += ownSum;
      variance += ownVariance;
      reported.push_back({{"name", parts[p].name},
                          {"ratio", own > 0 ? ownSum / own : 1},
                          {"error", own > 0 ? std::sqrt(ownVariance) / own : 0},
                          {"ns", own / parts[p].count}});
    }
    value = weight > 0 ? sum / weight : 1;
    error = weight > 0 ? std::sqrt(variance) / weight : 0;
    double spent = now() - begin;
    bool loses = value - 2 * error > 1, wins = value + 2 * error < 0.99;
    if (whole && (value > 1.3 || loses || wins || (error < 0.005 && spent > seconds / 4)))
      break;
    if (spent > seconds && (whole || spent > 10 * seconds))
      break;
  }
  race.stop();
  race.use(kernel, used[kernel]);
  result["ratio"] = value;
  result["error"] = error;
  result["pairs"] = pairs;
  result["parts"] = reported;
  result["outcome"] = isFaster(result) ? "faster" : "slower";
  return result;
}

Json Measurement::whole() {
  Json result = Json::array();
  auto choose = [&](bool after) {
    for (auto [kernel, version] : used)
      race.use(kernel, after ? version : 0);
  };
  for (size_t p = 0; p < parts.size(); ++p) {
    std::vector<std::pair<double, double>> pairs;
    std::vector<double> afters;
    double begin = now();
    for (int i = 0; i < 200 && (i < 8 || now() - begin < seconds); ++i) {
      double time[2];
      for (int half = 0; half < 2; ++half) {
        bool after = half != i % 2;
        choose(after);
        run(p, false); // caches and pages are as this version leaves them
        parts[p].prepare();
        time[after] = timed(parts[p].once);
      }
      if (i) // the first touches memory
        pairs.push_back({time[0], time[1]});
    }
    Ratio ratio = Ratio::of(pairs);
    result.push_back({{"name", parts[p].name},
                      {"calls", parts[p].count},
                      {"ratio", ratio.value},
                      {"error", ratio.error},
                      {"pairs", ratio.pairs},
                      {"before", ratio.first},
                      {"after", ratio.first * ratio.value}});
  }
  choose(true);
  return result;
}

/// "1:0:2", so many numbers of kernels and of their versions.
std::vector<int> numbersOf(const std::string &option, const std::string &text, size_t count) {
  std::vector<int> numbers;
  size_t at = 0;
  while (at <= text.size()) {
    size_t colon = std::min(text.find(':', at), text.size());
    std::string digits = text.substr(at, colon - at);
    if (digits.empty() || digits.size() > 6 || digits.find_first_not_of("0123456789") != std::string::npos)
      break;
    numbers.push_back(std::stoi(digits));
    at = colon + 1;
  }
  bool right = numbers.size() == count && at == text.size() + 1 && numbers[0] < quern_versions.count;
  for (size_t i = 1; right && i < count; ++i)
    right = numbers[i] < quern_versions.kernels[numbers[0]].count;
  if (!right)
    throw UserError(option + " " + quote(text) + " names no kernel and versions of this program");
  return numbers;
}

void report(const Json &line) {
  writeOutput(line.dump() + "\n");
}

int measureCommand(const Command &command) {
  Options options("measure", known);
  options.parse(command.arguments);
  if (options.has("--help")) {
    writeOutput(options.usage("PROGRAM"));
    return 0;
  }
  configureThreads(options);
  if (options.has("--device")) { // before memory is taken
    report({{"device", command.program.device().name()}});
    return 0;
  }
  bool trains = options.has("--train");
  if (trains && !&quern_training_commands)
    throw UserError("measure --train needs a program compiled with --train");
  std::unique_ptr<Workload> workload =
      trains ? quern_training_commands.workload(command, options) : std::make_unique<TextWorkload>(command, options);
  Measurement measurement(command.program.description, *workload, options.number("--seconds", 3, 0, 3600));
  for (const std::string &text : options.all("--use")) {
    std::vector<int> numbers = numbersOf("--use", text, 2);
    measurement.use(numbers[0], numbers[1]);
  }
  if (options.has("--shares"))
    report({{"shares", measurement.shares()}});
  double tolerance = options.number("--tolerance", 1e-4, 0, 1e9);
  int count = 0;
  for (const std::string &text : options.all("--trial")) {
    std::vector<int> numbers = numbersOf("--trial", text, 3);
    report({{"begin", count}});
    Json result = measurement.trial(numbers[0], numbers[1], numbers[2], tolerance);
    result["trial"] = count++;
    report(result);
  }
  if (options.has("--whole"))
    report({{"whole", measurement.whole()}});
  return 0;
}

} // namespace

} // namespace quern::runtime

extern "C" const quern::runtime::TuningCommands quern_tuning_commands = {quern::runtime::measureCommand,
                                                                         quern::runtime::tuneCommand};
