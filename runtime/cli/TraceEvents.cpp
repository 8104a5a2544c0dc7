// Takes: a profile. Gives: trace events for Perfetto.
#include "runtime/cli/JsonWriter.h"
#include "runtime/cli/ProfileReport.h"

#include <algorithm>

namespace quern::runtime {

using Lines = JsonWriter::Lines;

namespace {
/// Events of Chrome's format.
class Trace {
public:
  Trace() { json.object().key("traceEvents").list(Lines::Elements); }
  /// Something that took time; what `more` writes are its arguments.
  template <typename More>
  void span(std::string_view name, int thread, uint64_t begin, uint64_t end, const More &more) {
    start(name, "X", thread).key("ts").thousandths(begin).key("dur").thousandths(end - begin);
    more(json);
    json.end();
  }
  void span(std::string_view name, int thread, uint64_t begin, uint64_t end) {
    span(name, thread, begin, end, [](JsonWriter &) {});
  }
  void name(std::string_view what, int thread, std::string_view text) {
    start(what, "M", thread).key("args").object().key("name").text(text).end().end();
  }
  void counter(std::string_view what, uint64_t at, uint64_t bytes) {
    start(what, "C", 0).key("ts").thousandths(at).key("args").object().key("bytes").whole(int64_t(bytes)).end().end();
  }
  std::string take() { return json.end().end().take(); }

private:
  JsonWriter json;
  JsonWriter &start(std::string_view name, std::string_view phase, int thread) {
    return json.object().key("name").text(name).key("ph").text(phase).key("pid").whole(1).key("tid").whole(thread);
  }
};
} // namespace

std::string traceJson(const Profile &profile, const Description &description) {
  Trace trace;
  trace.name("process_name", 0, description.model);
  for (int thread = 0; thread < profile.threads(); ++thread)
    trace.name("thread_name", thread, thread ? "thread " + std::to_string(thread) : "calls");
  for (const Profile::Call &call : profile.calls()) {
    trace.span(description.functions[size_t(call.function)].name, 0, call.begin, call.end);
    trace.counter("arena", call.begin, call.arenaBytes);
    trace.counter("caches", call.begin, call.cacheBytes);
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
      trace.span("layer " + std::to_string(launches[i].iteration), 0, launches[i].begin, launches[j - 1].end);
    for (size_t k = i; k < j; ++k) {
      const LaunchInfo &info = description.launches[size_t(launches[k].launch)];
      trace.span(info.title, 0, launches[k].begin, launches[k].end, [&](JsonWriter &json) {
        json.key("args").object().key("kernel").text(info.kernel).key("layer").whole(launches[k].iteration);
        json.key("at").text(info.at).end();
      });
    }
  }
  for (int thread = 1; thread < profile.threads(); ++thread)
    for (const Profile::Work &one : profile.work(thread))
      trace.span("work", thread, one.begin, one.end);
  return trace.take();
}

} // namespace quern::runtime
