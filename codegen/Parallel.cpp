// Takes: a number of jobs. Gives: that they are done. Why no pool: kernels take seconds, a thread's start microseconds.
#include "codegen/Parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

int quern::codegen::inParallel(size_t count, int threads, const std::function<void(size_t)> &job) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        job(i);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!failure)
          failure = std::current_exception();
        next = count;
      }
    }
  };
  int helpers = static_cast<int>(std::min<size_t>(count, static_cast<size_t>(std::max(threads, 1)))) - 1;
  std::vector<std::thread> pool;
  pool.reserve(static_cast<size_t>(std::max(helpers, 0)));
  try {
    for (int i = 0; i < helpers; ++i)
      pool.emplace_back(work);
  } catch (const std::system_error &) {
  }
  work();
  for (std::thread &thread : pool)
    thread.join();
  if (failure)
    std::rethrow_exception(failure);
  return std::max(helpers, 0) - static_cast<int>(pool.size());
}
