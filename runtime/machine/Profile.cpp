// Takes: the beginnings and ends of launches and loops. Gives: events in rings, and sums.
#include "runtime/machine/Profile.h"

#include "runtime/Error.h"

#include <algorithm>

namespace quern::runtime {

CallRecorder::CallRecorder() {
  if (current)
    throw UserError("calls are already being recorded");
  current = this;
}

CallRecorder::~CallRecorder() {
  current = nullptr;
}

Profile::Profile(const Description &description, size_t events) : description(description) {
  callbacks.begin = [](quern_profile *self, int32_t launch, int32_t iteration) {
    Profile &profile = *static_cast<Hooks *>(self)->self;
    profile.guarded([&] { profile.begin(launch, iteration); });
  };
  callbacks.end = [](quern_profile *self) {
    Profile &profile = *static_cast<Hooks *>(self)->self;
    profile.guarded([&] { profile.end(); });
  };
  callbacks.self = this;
  size_t threads = size_t(ThreadPool::instance().threads());
  launchRing.events.resize(events);
  callRing.events.resize(events / 8 + 1);
  workRings.resize(threads);
  for (Ring<Work> &ring : workRings)
    ring.events.resize(events);
  all.resize(description.launches.size());
  for (Sum &sum : all)
    sum.busy.resize(threads);
  byFunction.resize(description.functions.size());
  counted.resize(all.size());
  flops.resize(all.size());
  bytes.resize(all.size());
  start = monotonicNanoseconds();
  ThreadPool::instance().observe(this);
}

Profile::~Profile() {
  ThreadPool::instance().observe(nullptr);
}

uint64_t Profile::now() const {
  return monotonicNanoseconds() - start;
}

void Profile::beginCall(int function, const std::vector<int64_t> &sizes, uint64_t arenaBytes, uint64_t cacheBytes) {
  if (function != costFunction || sizes != costSizes) {
    for (size_t i = 0; i < all.size(); ++i) {
      const LaunchInfo &info = description.launches[i];
      if (info.function != function)
        continue;
      flops[i] = double(info.flops.evaluate(sizes));
      bytes[i] = double(info.bytes.evaluate(sizes));
    }
    costFunction = function;
    costSizes = sizes;
  }
  kind = kindOf(function, sizes);
  ++callNumber;
  call = {function, now(), 0, arenaBytes, cacheBytes};
}

int Profile::kindOf(int function, const std::vector<int64_t> &sizes) {
  std::vector<int64_t> lengths = sizes;
  auto forget = [&](int symbol) {
    if (symbol >= 0)
      lengths[size_t(symbol)] = 0;
  };
  forget(description.past);
  forget(description.cap);
  for (const WindowInfo &window : description.windows) {
    forget(window.past);
    forget(window.cap);
  }
  auto same = [&](const CallKind &one) { return one.function == function && one.lengths == lengths; };
  auto found = std::find_if(callKinds.begin(), callKinds.end(), same);
  if (found == callKinds.end()) {
    if (callKinds.size() == 64)
      return -1;
    CallKind fresh{function, lengths, 0, 0, std::vector<double>(sizes.size()), std::vector<LaunchSum>(all.size())};
    for (size_t i = 0; i < all.size(); ++i)
      if (description.launches[i].function == function)
        fresh.sums[i].iterations.resize(size_t(description.launches[i].iterations));
    found = callKinds.insert(callKinds.end(), std::move(fresh));
  }
  ++found->calls;
  for (size_t i = 0; i < sizes.size(); ++i)
    found->total[i] += double(sizes[i]);
  return int(found - callKinds.begin());
}

void Profile::endCall() {
  call.end = now();
  callRing.add(call);
  ++byFunction[size_t(call.function)].first;
  byFunction[size_t(call.function)].second += call.end - call.begin;
  if (kind >= 0)
    callKinds[size_t(kind)].nanoseconds += call.end - call.begin;
}

/// Between calls, so that no thread is in a loop.
void Profile::forget() {
  callRing.clear();
  launchRing.clear();
  for (Ring<Work> &ring : workRings)
    ring.clear();
  for (Sum &sum : all)
    sum = {0, 0, 0, 0, std::vector<uint64_t>(sum.busy.size())};
  byFunction.assign(byFunction.size(), {0, 0});
  callKinds.clear();
}

void Profile::begin(int number, int iteration) {
  if (size_t(number) >= all.size())
    return;
  launch = {number, iteration, now(), 0}; // before the mark: so the launch ends before the next one begins
  if (watched)
    mark = watched->mark();
}

void Profile::end() {
  if (launch.launch < 0)
    return;
  // Of a device by its own clock: what the host did to begin the launch is not in it.
  launch.end = watched ? launch.begin + uint64_t(watched->seconds(mark, watched->mark()) * 1e9) : now();
  launchRing.add(launch);
  size_t number = size_t(launch.launch);
  uint64_t took = launch.end - launch.begin;
  Counted current{callNumber, launch.iteration};
  bool again = description.launches[number].chunks && counted[number].call == current.call &&
               counted[number].iteration == current.iteration;
  counted[number] = current;
  double operations = again ? 0 : flops[number], moved = again ? 0 : bytes[number];
  Sum &sum = all[number];
  ++sum.runs;
  sum.nanoseconds += took;
  sum.flops += operations;
  sum.bytes += moved;
  if (kind >= 0) {
    LaunchSum &own = callKinds[size_t(kind)].sums[number];
    ++own.runs;
    own.flops += operations;
    own.bytes += moved;
    if (size_t(launch.iteration) < own.iterations.size())
      own.iterations[size_t(launch.iteration)] += took;
  }
  launch.launch = -1;
}

/// Only while a launch's loop runs: the caller is in `take`, too, and ends the launch after all.
void Profile::worked(int thread, uint64_t begin, uint64_t end) {
  if (launch.launch < 0 || size_t(thread) >= workRings.size())
    return;
  workRings[size_t(thread)].add({begin - start, end - start});
  all[size_t(launch.launch)].busy[size_t(thread)] += end - begin;
}

template <typename Event> std::vector<Event> Profile::inOrder(const Ring<Event> &ring) {
  size_t size = ring.events.size();
  if (ring.count <= size)
    return {ring.events.begin(), ring.events.begin() + std::ptrdiff_t(ring.count)};
  std::vector<Event> result(ring.events.begin() + std::ptrdiff_t(ring.count % size), ring.events.end());
  result.insert(result.end(), ring.events.begin(), ring.events.begin() + std::ptrdiff_t(ring.count % size));
  return result;
}

template std::vector<Profile::Call> Profile::inOrder(const Ring<Call> &);
template std::vector<Profile::Launch> Profile::inOrder(const Ring<Launch> &);
template std::vector<Profile::Work> Profile::inOrder(const Ring<Work> &);

} // namespace quern::runtime
