// Takes: a profile. Gives: a table for people, JSON for programs.
#include "runtime/cli/ProfileReport.h"

#include "runtime/Error.h"
#include "runtime/cli/Commands.h"
#include "runtime/cli/JsonWriter.h"
#include "runtime/cli/Workload.h"
#include "runtime/machine/CpuFeatures.h"
#include "runtime/machine/Terminal.h"
#include "support/OutputFile.h"
#include "support/Utf8.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace quern::runtime {

using Lines = JsonWriter::Lines;

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

static void writeWholes(JsonWriter &json, const std::vector<uint64_t> &numbers) {
  json.list();
  for (uint64_t one : numbers)
    json.whole(int64_t(one));
  json.end();
}

static void writeWork(JsonWriter &json, double flops, double bytes) {
  json.key("flops").whole(std::llround(flops)).key("bytes").whole(std::llround(bytes));
}

/// Calls of each kind, with what their launches took in each iteration.
static void writeKinds(JsonWriter &json, const Profile &profile, const Description &description) {
  json.key("kinds").list(Lines::Elements);
  for (const Profile::CallKind &kind : profile.kinds()) {
    json.object().key("function").whole(kind.function);
    json.key("name").text(description.functions[size_t(kind.function)].name);
    json.key("lengths").object();
    for (size_t i = 0; i < description.symbols.size(); ++i)
      json.key(description.symbols[i]).whole(std::llround(kind.total[i] / double(std::max<int64_t>(1, kind.calls))));
    json.end();
    json.key("calls").whole(kind.calls).key("ns").whole(int64_t(kind.nanoseconds));
    json.key("launches").list(Lines::Elements);
    for (size_t i = 0; i < kind.sums.size(); ++i) {
      const Profile::LaunchSum &sum = kind.sums[i];
      if (!sum.runs)
        continue;
      json.object().key("launch").whole(int64_t(i)).key("runs").whole(sum.runs);
      writeWork(json, sum.flops, sum.bytes);
      json.key("iterations_ns");
      writeWholes(json, sum.iterations);
      json.end();
    }
    json.end().end();
  }
  json.end();
}

static void writeFunctions(JsonWriter &json, const Profile &profile, const Description &description) {
  json.key("functions").list(Lines::Elements);
  for (size_t i = 0; i < profile.functions().size(); ++i)
    if (auto [calls, nanoseconds] = profile.functions()[i]; calls) {
      json.object().key("function").whole(int64_t(i)).key("name").text(description.functions[i].name);
      json.key("calls").whole(calls).key("ns").whole(int64_t(nanoseconds)).end();
    }
  json.end();
}

static void writeKernels(JsonWriter &json, const Profile &profile, const Description &description) {
  json.key("kernels").list(Lines::Elements);
  for (size_t i = 0; i < profile.sums().size(); ++i) {
    const Profile::Sum &sum = profile.sums()[i];
    const LaunchInfo &info = description.launches[i];
    if (!sum.runs)
      continue;
    json.object().key("launch").whole(int64_t(i)).key("function").whole(info.function);
    json.key("kernel").text(info.kernel).key("content").text(info.content).key("iterations").whole(info.iterations);
    json.key("title").text(info.title).key("at").text(info.at);
    json.key("runs").whole(sum.runs).key("ns").whole(int64_t(sum.nanoseconds));
    writeWork(json, sum.flops, sum.bytes);
    json.key("busy_ns");
    writeWholes(json, sum.busy);
    json.end();
  }
  json.end();
}

std::string profileJson(const Profile &profile, const Description &description, std::pair<double, double> limits) {
  uint64_t inKernels = 0;
  for (const Profile::Sum &sum : profile.sums())
    inKernels += sum.nanoseconds;
  JsonWriter json;
  json.object(Lines::Elements).key("quern_profile").whole(1);
  json.key("model").text(description.model).key("spec").text(description.spec).key("cpu").text(cpuName());
  if (limits.first > 0 && limits.second > 0) {
    json.key("limits").object();
    writeWork(json, limits.first, limits.second);
    json.end();
  }
  json.key("launches_in_code").whole(int64_t(description.launches.size())).key("threads").whole(profile.threads());
  json.key("calls_ns").whole(int64_t(callTime(profile))).key("kernels_ns").whole(int64_t(inKernels));
  json.key("lost_launches").whole(int64_t(profile.lost()));
  writeFunctions(json, profile, description);
  writeKinds(json, profile, description);
  writeKernels(json, profile, description);
  json.key("launches").list(Lines::Elements);
  for (const Profile::Launch &one : profile.launches())
    json.list().whole(one.launch).whole(one.iteration).whole(int64_t(one.begin)).whole(int64_t(one.end)).end();
  json.end().key("work").list(Lines::Elements);
  for (int thread = 0; thread < profile.threads(); ++thread) {
    json.list();
    for (const Profile::Work &one : profile.work(thread))
      json.list().whole(int64_t(one.begin)).whole(int64_t(one.end)).end();
    json.end();
  }
  return json.end().end().take();
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
