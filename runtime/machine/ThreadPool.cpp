// Takes: parallel loops. Gives: their results, computed by a fixed set of threads.
//
// Why spinning: a decode step is a hundred loops a few microseconds apart; waking a sleeping thread costs more than
// many of them. So workers watch `ticket` for about 50 microseconds before they sleep on it, and nobody calls the
// kernel while all are awake. The caller, too, sleeps after as long: on a machine with other work the worker that it
// waits for may not be running, and spinning would keep the processor from it.
//
// Each thread has a share of the indices, one after the other, and takes them from its start: what it reads from memory
// for one index mostly follows what it read for the last, and the processor has begun to fetch it. Who has none left
// takes them from the end of another's share.
//
// Protocol. The caller fills `job`, sets open, then bumps ticket. A worker that sees a new ticket counts itself in
// (active), and only then looks at open. The caller closes the job when the indices are used up, then waits until
// active is 0. As both sides write their own flag before they read the other's (sequentially consistent), a late worker
// either is waited for or finds the job closed; `job` is never written while a worker may read it.
#include "runtime/machine/ThreadPool.h"

#include "runtime/machine/Memory.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <system_error>

#include <ctime>
#include <sched.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace quern::runtime {

namespace {

thread_local bool insideLoop = false;
thread_local int ownNumber = 0;

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

/// Pauses until they take about 50 microseconds: a pause is 10 cycles on some machines and 140 on others.
int measureSpins() {
  uint64_t begin = monotonicNanoseconds();
  for (int i = 0; i < 1000; ++i)
    relax();
  double each = std::max(1e-9, 1e-12 * double(monotonicNanoseconds() - begin));
  return std::clamp(int(50e-6 / each), 100, 20000);
}

int spinLimit() {
  static const int spins = measureSpins();
  return spins;
}

int configuredThreads = 0;

} // namespace

uint64_t monotonicNanoseconds() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return uint64_t(time.tv_sec) * 1'000'000'000 + uint64_t(time.tv_nsec);
}

ThreadPool &ThreadPool::instance() {
  static ThreadPool pool(configuredThreads);
  return pool;
}

void ThreadPool::configure(int threads) {
  configuredThreads = threads;
}

ThreadPool::ThreadPool(int threads) {
  asked = std::clamp(threads > 0 ? threads : availableThreads(), 1, 1024);
  shares = std::make_unique<Share[]>(size_t(asked));
  try {
    for (int i = 1; i < asked; ++i)
      workers.emplace_back([this, i] { work(i); });
  } catch (const std::system_error &) { // a limit of processes or memory: those that were started do the work
  }
}

ThreadPool::~ThreadPool() {
  stopping = true;
  ++ticket;
  ticket.notify_all();
  for (std::thread &worker : workers)
    worker.join();
}

int ThreadPool::runAlone(const Job &alone) {
  bool outer = insideLoop;
  insideLoop = true;
  int result = 0;
  for (int i = 0; i < alone.count && result == 0; ++i)
    result = alone.task(alone.context, alone.begin + i, alone.closure);
  insideLoop = outer;
  return result;
}

int ThreadPool::parallelFor(void *context, Task task, int begin, int count, uint8_t *closure) {
  Job wanted{task, context, closure, begin, count, threads()};
  if (count <= 1 || workers.empty() || insideLoop)
    return count > 0 ? runAlone(wanted) : 0;
  std::unique_lock<std::mutex> lock(busy, std::try_to_lock);
  if (!lock)
    return runAlone(wanted);

  job = wanted;
  error.store(0, std::memory_order_relaxed);
  for (int i = 0; i < job.threads; ++i) {
    auto at = [&](int part) { return uint64_t(count) * uint64_t(part) / uint64_t(job.threads); };
    shares[size_t(i)].left.store(at(i + 1) << 32 | at(i), std::memory_order_relaxed);
  }
  open.store(true);
  ticket.fetch_add(1);
  if (sleepers.load() > 0)
    ticket.notify_all();

  insideLoop = true;
  take(0);
  insideLoop = false;

  open.store(false);
  for (int left = spinLimit(); active.load() != 0 && left > 0; --left)
    relax();
  if (active.load() != 0) {
    callerSleeps.store(true);
    for (int still; (still = active.load()) != 0;)
      active.wait(still);
    callerSleeps.store(false);
  }
  return error.load(std::memory_order_relaxed);
}

void ThreadPool::take(int number) {
  if (!observer)
    return takeAll(number);
  uint64_t begin = monotonicNanoseconds();
  takeAll(number);
  observer->worked(number, begin, monotonicNanoseconds());
}

/// Runs indices until none is left or some task failed.
void ThreadPool::takeAll(int number) {
  while (takeFrom(shares[size_t(number)], true))
    ;
  for (int i = 1; i < job.threads; ++i)
    while (takeFrom(shares[size_t((number + i) % job.threads)], false))
      ;
}

/// Runs the first or the last index of a share. False: it has none, or some task failed.
bool ThreadPool::takeFrom(Share &share, bool first) {
  uint64_t left = share.left.load(std::memory_order_relaxed);
  uint32_t begin, end;
  do {
    begin = uint32_t(left), end = uint32_t(left >> 32);
    if (begin == end || error.load(std::memory_order_relaxed) != 0)
      return false;
  } while (!share.left.compare_exchange_weak(left, first ? left + 1 : left - (uint64_t(1) << 32),
                                             std::memory_order_relaxed));
  int index = int(first ? begin : end - 1);
  if (int result = job.task(job.context, job.begin + index, job.closure))
    error.store(result, std::memory_order_relaxed);
  return true;
}

int ThreadPool::threadNumber() {
  return ownNumber;
}

void ThreadPool::work(int number) {
  ownNumber = number;
  insideLoop = true; // whatever a worker runs is already inside a loop
  uint32_t seen = 0;
  while (true) {
    int left = spinLimit();
    while (ticket.load() == seen && --left > 0)
      relax();
    if (left <= 0) {
      sleepers.fetch_add(1);
      ticket.wait(seen); // returns at once if the ticket has changed meanwhile
      sleepers.fetch_sub(1);
    }
    seen = ticket.load();
    if (stopping)
      return;
    active.fetch_add(1);
    if (open.load())
      take(number);
    if (active.fetch_sub(1) == 1 && callerSleeps.load())
      active.notify_all();
  }
}

} // namespace quern::runtime
