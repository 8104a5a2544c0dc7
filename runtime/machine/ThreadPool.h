// The one pool of threads: Halide's parallel loops, packing and tokenizing all run here.
#ifndef QUERN_RUNTIME_MACHINE_THREADPOOL_H
#define QUERN_RUNTIME_MACHINE_THREADPOOL_H

#include "runtime/Error.h"
#include "support/Processors.h"

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace quern::runtime {

/// Of a clock that nobody sets.
uint64_t monotonicNanoseconds();

/// Is notified when a thread has run its part of a loop. From every thread of the pool at once, each with its own number.
class LoopObserver {
public:
  virtual ~LoopObserver() = default;
  virtual void worked(int thread, uint64_t begin, uint64_t end) = 0;
};

class ThreadPool {
public:
  /// A loop's body, with Halide's signature: nonzero is an error.
  using Task = int (*)(void *context, int index, uint8_t *closure);

  /// `threads` includes the caller of parallelFor. 0: availableThreads().
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  /// Runs task(context, i, closure) for i in [begin, begin + count), each once, and returns when all are done: 0, or
  /// some task's error. A loop inside a loop, or a second one from another thread, runs in its caller alone: there are
  /// never more running threads than the pool has.
  int parallelFor(void *context, Task task, int begin, int count, uint8_t *closure);

  /// function(i) for i in [0, count). What a call throws is thrown here, once (the first of several).
  template <typename Function> void forEach(int count, Function function);

  /// Null: nobody. Not while a loop runs.
  void observe(LoopObserver *who) { observer = who; }

  int threads() const { return int(workers.size()) + 1; }
  /// How many were asked for: more than there are where the system would not start them all.
  int wanted() const { return asked; }

  /// The number of this thread in the pool that it works for, from 1; 0 for all others.
  static int threadNumber();

  /// The process's pool, made at first use. `configure` before that sets its size.
  static ThreadPool &instance();
  static void configure(int threads);

private:
  struct Job {
    Task task = nullptr;
    void *context = nullptr;
    uint8_t *closure = nullptr;
    int begin = 0, count = 0;
    int threads = 1; ///< that have a share
  };
  Job job;
  LoopObserver *observer = nullptr;
  /// The indices that a thread of the pool has still to run: the first of them, and above it their end.
  struct alignas(64) Share {
    std::atomic<uint64_t> left{0};
  };
  std::unique_ptr<Share[]> shares;             // by thread number
  alignas(64) std::atomic<uint32_t> ticket{0}; // changes with every job; workers sleep on it
  alignas(64) std::atomic<int> active{0};      // workers that may touch `job`
  std::atomic<bool> open{false};               // the job still takes workers
  std::atomic<int> error{0};
  std::atomic<int> sleepers{0};
  std::atomic<bool> callerSleeps{false}; // until `active` is 0
  std::atomic<bool> stopping{false};
  std::mutex busy; // held by the thread whose loop runs
  std::vector<std::thread> workers;
  int asked = 1;

  void work(int number);
  void take(int number);
  void takeAll(int number);
  bool takeFrom(Share &share, bool first);
  int runAlone(const Job &alone);
};

template <typename Function> void ThreadPool::forEach(int count, Function function) {
  struct State {
    Function &function;
    std::exception_ptr failure;
    std::mutex mutex;
  } state{function, nullptr, {}};
  Task task = [](void *, int index, uint8_t *closure) -> int {
    State &state = *reinterpret_cast<State *>(closure);
    try {
      state.function(index);
      return 0;
    } catch (...) {
      std::lock_guard<std::mutex> lock(state.mutex);
      if (!state.failure)
        state.failure = std::current_exception();
      return 1;
    }
  };
  parallelFor(nullptr, task, 0, count, reinterpret_cast<uint8_t *>(&state));
  if (state.failure)
    std::rethrow_exception(state.failure);
}

} // namespace quern::runtime
#endif
