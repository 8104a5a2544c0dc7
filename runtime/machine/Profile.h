// When each launch of each call began and ended, in every thread.
#ifndef QUERN_RUNTIME_MACHINE_PROFILE_H
#define QUERN_RUNTIME_MACHINE_PROFILE_H

#include "runtime/abi/Abi.h"
#include "runtime/abi/Description.h"
#include "runtime/machine/Device.h"
#include "runtime/machine/ThreadPool.h"

#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

namespace quern::runtime {

/// Is notified of calls and their launches while it lives; one at a time in a process.
class CallRecorder {
public:
  /// Throws UserError where there is one already.
  CallRecorder();
  virtual ~CallRecorder();
  CallRecorder(const CallRecorder &) = delete;
  CallRecorder &operator=(const CallRecorder &) = delete;

  /// The one that there is, or null.
  static CallRecorder *active() { return current; }

  /// Around one call. `bytes`: of its arena, and of its caches.
  virtual void beginCall(int function, const std::vector<int64_t> &sizes, uint64_t arenaBytes, uint64_t cacheBytes) = 0;
  virtual void endCall() = 0;
  /// Throws what went wrong in the hooks of a call that has ended: through generated code nothing is thrown.
  void check() {
    if (failed)
      std::rethrow_exception(std::exchange(failed, nullptr));
  }
  /// What was measured so far does not count: it was the first use of memory.
  virtual void forget() {}
  /// Whose launches these are: a recorder of times asks it how long each took, and so waits for it.
  virtual void watch(Device &) {}
  /// Is given the call's launches.
  virtual quern_profile *hooks() = 0;

protected:
  /// What a hook does: a device that is lost, for one, throws.
  template <typename Code> void guarded(Code code) noexcept {
    try {
      code();
    } catch (...) {
      if (!failed)
        failed = std::current_exception();
    }
  }

private:
  static inline CallRecorder *current = nullptr;
  std::exception_ptr failed;
};

/// Records calls. All memory is taken at the start. Times are nanoseconds since then. Of a long run the newest events stay;
/// sums are of all.
class Profile : public CallRecorder, public LoopObserver {
public:
  /// `events`: how many are kept of launches, and of each thread's loops.
  explicit Profile(const Description &description, size_t events = size_t(1) << 19);
  ~Profile() override;

  void beginCall(int function, const std::vector<int64_t> &sizes, uint64_t arenaBytes, uint64_t cacheBytes) override;
  void endCall() override;
  void forget() override;
  quern_profile *hooks() override { return &callbacks; }
  void watch(Device &device) override { watched = device.isHost() ? nullptr : &device; }
  void worked(int thread, uint64_t begin, uint64_t end) override;

  struct Call {
    int function;
    uint64_t begin, end, arenaBytes, cacheBytes;
  };
  struct Launch {
    int launch, iteration;
    uint64_t begin, end;
  };
  struct Work { // of a thread in one loop
    uint64_t begin, end;
  };
  struct Sum { // of all runs of one launch
    int64_t runs = 0;
    uint64_t nanoseconds = 0;
    double flops = 0, bytes = 0;
    std::vector<uint64_t> busy; // of each thread
  };
  struct LaunchSum { // of the runs of one launch in calls of one kind
    int64_t runs = 0;
    double flops = 0, bytes = 0;
    std::vector<uint64_t> iterations; // nanoseconds in each iteration of the loops around it
  };
  /// Calls of one function with the same lengths, but for how much text was there before.
  struct CallKind {
    int function;
    std::vector<int64_t> lengths; // by the description's symbols; what grows with the text is 0
    int64_t calls = 0;
    uint64_t nanoseconds = 0;
    std::vector<double> total;   // of each length over all calls
    std::vector<LaunchSum> sums; // by launch; of other functions' launches empty
  };
  /// Oldest first.
  std::vector<Call> calls() const { return inOrder(callRing); }
  std::vector<Launch> launches() const { return inOrder(launchRing); }
  std::vector<Work> work(int thread) const { return inOrder(workRings[size_t(thread)]); }
  const std::vector<Sum> &sums() const { return all; }
  /// In the order of their first calls; what comes after the first 64 is not distinguished.
  const std::vector<CallKind> &kinds() const { return callKinds; }
  /// Nanoseconds in calls of each function, and how many those were.
  const std::vector<std::pair<int64_t, uint64_t>> &functions() const { return byFunction; }
  /// Launches that were recorded and are no more.
  uint64_t lost() const {
    return launchRing.count > launchRing.events.size() ? launchRing.count - launchRing.events.size() : 0;
  }
  int threads() const { return int(workRings.size()); }

private:
  template <typename Event> struct Ring {
    std::vector<Event> events;
    uint64_t count = 0;
    void add(const Event &event) { events[count++ % events.size()] = event; }
    void clear() { count = 0; }
  };
  template <typename Event> static std::vector<Event> inOrder(const Ring<Event> &ring);

  struct Hooks : quern_profile {
    Profile *self;
  };
  const Description &description;
  Device *watched = nullptr;
  Hooks callbacks;
  uint64_t start;
  Ring<Call> callRing;
  Ring<Launch> launchRing;
  std::vector<Ring<Work>> workRings;
  std::vector<Sum> all;
  std::vector<std::pair<int64_t, uint64_t>> byFunction;
  std::vector<CallKind> callKinds;
  int kind = -1; // of the call, or -1
  uint64_t callNumber = 0;
  struct Counted {
    uint64_t call = 0;
    int iteration = -1;
  };
  std::vector<Counted> counted; // when a launch's work was last added: chunks of rows are one
  Call call{};
  Launch launch{-1, 0, 0, 0};
  uint64_t mark = 0;              // of the device, where the launch began
  std::vector<int64_t> costSizes; // for which the next two were computed
  int costFunction = -1;
  std::vector<double> flops, bytes; // of one run of each launch

  uint64_t now() const;
  int kindOf(int function, const std::vector<int64_t> &sizes);
  void begin(int launch, int iteration);
  void end();
};

} // namespace quern::runtime
#endif
