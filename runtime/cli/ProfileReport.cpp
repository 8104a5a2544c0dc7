// Takes: a profile. Gives: a table for people, JSON for programs, trace events for Perfetto.
#include "runtime/cli/ProfileReport.h"

#include "runtime/Error.h"
#include "runtime/cli/Commands.h"
#include "runtime/cli/Workload.h"
#include "runtime/machine/CpuFeatures.h"
#include "runtime/machine/Terminal.h"
#include "support/OutputFile.h"
#include "support/Utf8.h"

#include <algorithm>
#include <map>

namespace quern::runtime {

namespace {

/// Equal kernels with equal weights' names, of all functions and iterations, are one row.
struct Row {
  const LaunchInfo *info;
  Profile::Sum sum;
};

std::vector<Row> rowsOf(const Profile &profile, const Description &description) {
  std::map<std::tuple<int, std::string, std::string, std::string>, Row> merged;
  for (size_t i = 0; i < profile.sums().size(); ++i) {
    const Profile::Sum &sum = profile.sums()[i];
    const LaunchInfo &info = description.launches[i];
    if (!sum.runs)
      continue;
    auto [at, isNew] = merged.try_emplace({info.function, info.kernel, info.title, info.at}, Row{&info, sum});
    if (isNew)
      continue;
    Row &row = at->second;
    row.sum.runs += sum.runs;
    row.sum.nanoseconds += sum.nanoseconds;
    row.sum.flops += sum.flops;
    row.sum.bytes += sum.bytes;
    for (size_t t = 0; t < sum.busy.size(); ++t)
      row.sum.busy[t] += sum.busy[t];
  }
  std::vector<Row> rows;
  for (auto &[key, row] : merged)
    rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row &a, const Row &b) { return a.sum.nanoseconds > b.sum.nanoseconds; });
  return rows;
}

/// How evenly the threads shared the loops: mean by most, 1 where all had as much. 0: no loop was shared.
double balance(const Profile::Sum &sum) {
  uint64_t most = 0, total = 0;
  for (uint64_t busy : sum.busy) {
    most = std::max(most, busy);
    total += busy;
  }
  return most ? double(total) / double(most) / double(sum.busy.size()) : 0;
}

uint64_t callTime(const Profile &profile) {
  uint64_t total = 0;
  for (auto [calls, nanoseconds] : profile.functions())
    total += nanoseconds;
  return total;
}

std::string textOf(uint64_t number) {
  return std::to_string(number);
}

std::string microseconds(uint64_t nanoseconds) {
  return format("%llu.%03u", static_cast<unsigned long long>(nanoseconds / 1000), unsigned(nanoseconds % 1000));
}

/// At most `width` bytes, at the end of a character.
std::string cut(std::string text, size_t width) {
  if (text.size() <= width)
    return text;
  while (width > 0 && support::isUtf8Tail(text[width]))
    --width;
  return text.substr(0, width);
}

} // namespace

std::vector<Options::Known> withProfileOptions(std::vector<Options::Known> known) {
  known.insert(known.end() - 1,
               {{"--profile", "FILE", "write the time of each launch of a kernel as JSON, and print a table"},
                {"--trace", "FILE", "the same as trace events, which ui.perfetto.dev opens"}});
  return known;
}

ProfileReport::ProfileReport(const Options &options, const Description &description)
    : description(description), profilePath(options.text("--profile")), tracePath(options.text("--trace")) {
  if (!profilePath.empty() || !tracePath.empty())
    profile = std::make_unique<Profile>(description);
}

int ProfileReport::finish(int status) {
  if (!profile)
    return status;
  // Where nothing measured them, those of a processor are measured when the page is made; a device's only here.
  if (limits.first <= 0 && !description.device.empty() && !profilePath.empty()) {
    ArithmeticLimit most = measureArithmetic(Device::named(description.device), description);
    limits = {most.flops, most.bytes};
  }
  if (!profilePath.empty())
    support::writeFile(profilePath, profileJson(*profile, description, limits));
  if (!tracePath.empty())
    support::writeFile(tracePath, traceJson(*profile, description));
  std::string table = profileTable(*profile, description);
  profile.reset();
  std::fputs(table.c_str(), stderr);
  return status;
}

/// Calls of each kind, with what their launches took in each iteration.
static std::string kindsJson(const Profile &profile, const Description &description) {
  std::string text;
  for (const Profile::CallKind &kind : profile.kinds()) {
    std::string lengths, launches;
    for (size_t i = 0; i < description.symbols.size(); ++i)
      lengths += (i ? ", " : "") + jsonString(description.symbols[i]) +
                 format(": %.0f", kind.total[i] / double(std::max<int64_t>(1, kind.calls)));
    for (size_t i = 0; i < kind.sums.size(); ++i) {
      const Profile::LaunchSum &sum = kind.sums[i];
      if (!sum.runs)
        continue;
      std::string iterations;
      for (uint64_t one : sum.iterations)
        iterations += (iterations.empty() ? "" : ", ") + textOf(one);
      launches += (launches.empty() ? "" : ",\n    ") + ("{\"launch\": " + std::to_string(i)) +
                  ", \"runs\": " + std::to_string(sum.runs) +
                  format(", \"flops\": %.0f, \"bytes\": %.0f", sum.flops, sum.bytes) + ", \"iterations_ns\": [" +
                  iterations + "]}";
    }
    text += (text.empty() ? "" : ",\n  ") + ("{\"function\": " + std::to_string(kind.function)) +
            ", \"name\": " + jsonString(description.functions[size_t(kind.function)].name) + ", \"lengths\": {" +
            lengths + "}, \"calls\": " + std::to_string(kind.calls) + ", \"ns\": " + textOf(kind.nanoseconds) +
            ", \"launches\": [" + launches + "]}";
  }
  return text;
}

std::string profileJson(const Profile &profile, const Description &description, std::pair<double, double> limits) {
  uint64_t inCalls = callTime(profile), inKernels = 0;
  std::string functions, kernels, launches, work;
  for (size_t i = 0; i < profile.functions().size(); ++i)
    if (auto [calls, nanoseconds] = profile.functions()[i]; calls)
      functions +=
          (functions.empty() ? "" : ",\n  ") +
          ("{\"function\": " + std::to_string(i) + ", \"name\": " + jsonString(description.functions[i].name)) +
          ", \"calls\": " + std::to_string(calls) + ", \"ns\": " + textOf(nanoseconds) + "}";
  for (size_t i = 0; i < profile.sums().size(); ++i) {
    const Profile::Sum &sum = profile.sums()[i];
    const LaunchInfo &info = description.launches[i];
    inKernels += sum.nanoseconds;
    if (!sum.runs)
      continue;
    std::string busy;
    for (uint64_t one : sum.busy)
      busy += (busy.empty() ? "" : ", ") + textOf(one);
    kernels += (kernels.empty() ? "" : ",\n  ") +
               ("{\"launch\": " + std::to_string(i) + ", \"function\": " + std::to_string(info.function)) +
               ", \"kernel\": " + jsonString(info.kernel) + ", \"content\": " + jsonString(info.content) +
               ", \"iterations\": " + std::to_string(info.iterations) + ", \"title\": " + jsonString(info.title) +
               ", \"at\": " + jsonString(info.at) + ", \"runs\": " + std::to_string(sum.runs) +
               ", \"ns\": " + textOf(sum.nanoseconds) +
               format(", \"flops\": %.0f, \"bytes\": %.0f", sum.flops, sum.bytes) + ", \"busy_ns\": [" + busy + "]}";
  }
  for (const Profile::Launch &one : profile.launches())
    launches += (launches.empty() ? "" : ",\n  ") + ("[" + std::to_string(one.launch)) + ", " +
                std::to_string(one.iteration) + ", " + textOf(one.begin) + ", " + textOf(one.end) + "]";
  for (int thread = 0; thread < profile.threads(); ++thread) {
    std::string own;
    for (const Profile::Work &one : profile.work(thread))
      own += (own.empty() ? "" : ", ") + ("[" + textOf(one.begin)) + ", " + textOf(one.end) + "]";
    work += (thread ? ",\n  [" : "[") + own + "]";
  }
  return "{\"quern_profile\": 1, \"model\": " + jsonString(description.model) +
         ", \"spec\": " + jsonString(description.spec) + ", \"cpu\": " + jsonString(cpuName()) +
         (limits.first > 0 && limits.second > 0
              ? format(", \"limits\": {\"flops\": %.0f, \"bytes\": %.0f}", limits.first, limits.second)
              : "") +
         ", \"launches_in_code\": " + std::to_string(description.launches.size()) +
         ", \"threads\": " + std::to_string(profile.threads()) + ", \"calls_ns\": " + textOf(inCalls) +
         ", \"kernels_ns\": " + textOf(inKernels) + ", \"lost_launches\": " + textOf(profile.lost()) +
         ",\n \"functions\": [" + functions + "],\n \"kinds\": [" + kindsJson(profile, description) +
         "],\n \"kernels\": [" + kernels + "],\n \"launches\": [" + launches + "],\n \"work\": [" + work + "]}\n";
}

std::string traceJson(const Profile &profile, const Description &description) {
  std::string events;
  auto add = [&](const std::string &name, int thread, uint64_t begin, uint64_t end, const std::string &more) {
    events += (events.empty() ? "" : ",\n") + ("{\"name\": " + jsonString(name)) +
              ", \"ph\": \"X\", \"pid\": 1, \"tid\": " + std::to_string(thread) + ", \"ts\": " + microseconds(begin) +
              ", \"dur\": " + microseconds(end - begin) + more + "}";
  };
  auto name = [&](const char *what, int thread, const std::string &text) {
    events += (events.empty() ? "" : ",\n") + (std::string("{\"name\": \"") + what) +
              "\", \"ph\": \"M\", \"pid\": 1, \"tid\": " + std::to_string(thread) +
              ", \"args\": {\"name\": " + jsonString(text) + "}}";
  };
  name("process_name", 0, description.model);
  for (int thread = 0; thread < profile.threads(); ++thread)
    name("thread_name", thread, thread ? "thread " + std::to_string(thread) : "calls");
  auto counter = [&](const char *what, uint64_t at, uint64_t bytes) {
    events += std::string(",\n{\"name\": \"") + what + "\", \"ph\": \"C\", \"pid\": 1, \"ts\": " + microseconds(at) +
              ", \"args\": {\"bytes\": " + textOf(bytes) + "}}";
  };
  for (const Profile::Call &call : profile.calls()) {
    add(description.functions[size_t(call.function)].name, 0, call.begin, call.end, "");
    counter("arena", call.begin, call.arenaBytes);
    counter("caches", call.begin, call.cacheBytes);
  }
  // Launches of one iteration after each other are one iteration of a loop, if the function has several iterations.
  std::vector<Profile::Launch> launches = profile.launches();
  std::vector<Profile::Call> calls = profile.calls();
  auto callOf = [&](const Profile::Launch &one) {
    return std::upper_bound(calls.begin(), calls.end(), one.begin,
                            [](uint64_t at, const Profile::Call &call) { return at < call.end; });
  };
  for (size_t i = 0, j; i < launches.size(); i = j) {
    for (j = i + 1; j < launches.size() && launches[j].iteration == launches[i].iteration &&
                    callOf(launches[j]) == callOf(launches[i]);)
      ++j;
    auto call = callOf(launches[i]);
    bool several = std::any_of(
        launches.begin() + std::ptrdiff_t(i > 64 ? i - 64 : 0),
        launches.begin() + std::ptrdiff_t(std::min(launches.size(), j + 64)),
        [&](const Profile::Launch &one) { return one.iteration != launches[i].iteration && callOf(one) == call; });
    if (several && j > i + 1)
      add("layer " + std::to_string(launches[i].iteration), 0, launches[i].begin, launches[j - 1].end, "");
    for (size_t k = i; k < j; ++k) {
      const LaunchInfo &info = description.launches[size_t(launches[k].launch)];
      add(info.title, 0, launches[k].begin, launches[k].end,
          ", \"args\": {\"kernel\": " + jsonString(info.kernel) +
              ", \"layer\": " + std::to_string(launches[k].iteration) + ", \"at\": " + jsonString(info.at) + "}");
    }
  }
  for (int thread = 1; thread < profile.threads(); ++thread)
    for (const Profile::Work &one : profile.work(thread))
      add("work", thread, one.begin, one.end, "");
  return "{\"traceEvents\": [\n" + events + "\n]}\n";
}

std::string profileTable(const Profile &profile, const Description &description) {
  uint64_t inCalls = callTime(profile), inKernels = 0;
  std::vector<Row> rows = rowsOf(profile, description);
  for (const Row &row : rows)
    inKernels += row.sum.nanoseconds;
  std::string text = format("%-36s %-22s %9s %11s %6s %9s %8s %8s\n", "kernel", "line", "runs", "ms", "%", "GFLOP/s",
                            "GB/s", "balance");
  auto percent = [&](uint64_t nanoseconds) { return inCalls ? 100 * double(nanoseconds) / double(inCalls) : 0; };
  size_t shown = 0;
  uint64_t rest = 0;
  for (const Row &row : rows) {
    if (shown++ >= 24) {
      rest += row.sum.nanoseconds;
      continue;
    }
    double ns = double(std::max<uint64_t>(1, row.sum.nanoseconds));
    std::string rate = row.sum.flops > 0 ? format("%.1f", row.sum.flops / ns) : "";
    std::string even = balance(row.sum) > 0 ? format("%.2f", balance(row.sum)) : "";
    text += format("%-36s %-22s %9lld %11.3f %6.1f %9s %8.1f %8s\n", cut(row.info->title, 36).c_str(),
                   cut(row.info->at, 22).c_str(), static_cast<long long>(row.sum.runs), ns / 1e6,
                   percent(row.sum.nanoseconds), rate.c_str(), row.sum.bytes / ns, even.c_str());
  }
  auto line = [&](const char *what, uint64_t nanoseconds) {
    text += format("%-36s %-22s %9s %11.3f %6.1f\n", what, "", "", double(nanoseconds) / 1e6, percent(nanoseconds));
  };
  if (rest)
    line(format("%zu others", rows.size() - 24).c_str(), rest);
  line("between launches", inCalls > inKernels ? inCalls - inKernels : 0);
  for (size_t i = 0; i < profile.functions().size(); ++i)
    if (auto [calls, nanoseconds] = profile.functions()[i]; calls)
      line(format("%s: %lld calls", description.functions[i].name.c_str(), static_cast<long long>(calls)).c_str(),
           nanoseconds);
  return text;
}

} // namespace quern::runtime
