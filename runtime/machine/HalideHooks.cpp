// Takes: calls that generated kernels make (parallel loops, scratch memory, errors). Gives: the runtime's pool and
// allocator. Why not Halide's runtime: its threads would stand beside ours, its allocator goes to malloc for the scratch of
// every task, and it compiles as long as several kernels. Those for CPUs call nothing else of it.
//
// Kernels are built without assertions: they do not look at what these functions return. So a failure leaves generated
// code by longjmp, which skips no frame of C++: out of a task to the loop that runs it, and out of the function to
// `runKernels`, after the pool's loop has ended as after any task that returns an error.
// Not here: halide_do_parallel_tasks and semaphores, which only `async` schedules call; codegen makes none.
#include "runtime/machine/KernelCall.h"

#include "runtime/Error.h"
#include "runtime/machine/ThreadPool.h"

#include <atomic>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace quern::runtime {
namespace {

/// A call in progress: what all its threads share.
struct KernelCall {
  Scratch &scratch;
  std::atomic<bool> failed{false};
  char message[256] = "";
};

/// Where this thread leaves generated code if it fails, and whose stack of scratch it uses.
struct Frame {
  KernelCall &call;
  int thread;
  size_t mark;
  std::jmp_buf leave;
  Frame(KernelCall &call, int thread) // `leave` is not cleared: a loop may have hundreds of small tasks
      : call(call), thread(thread), mark(call.scratch.mark(thread)) {}
};
thread_local Frame *frame = nullptr;

/// Runs generated code in a frame of its own: its status, or 1 where it failed.
template <typename Code> int guarded(KernelCall &call, Code code) {
  Frame own(call, ThreadPool::threadNumber());
  Frame *const outer = frame;
  frame = &own;
  int status = 1;
  if (_setjmp(own.leave) == 0)
    status = code();
  else
    call.scratch.cut(own.thread, own.mark);
  frame = outer;
  return status;
}

/// The first message counts.
[[noreturn]] void fail(const char *message) {
  if (!frame->call.failed.exchange(true))
    std::snprintf(frame->call.message, sizeof(frame->call.message), "%s", message);
  std::longjmp(frame->leave, 1);
}

[[noreturn]] void failLoop(int status) {
  char message[96];
  std::snprintf(message, sizeof(message), "a parallel loop ended with status %d", status);
  fail(message);
}

using Task = int (*)(void *, int, uint8_t *);
struct Loop {
  KernelCall &call;
  Task task;
  uint8_t *closure;
};

int runTask(void *context, int index, uint8_t *closure) {
  Loop &loop = *reinterpret_cast<Loop *>(closure);
  return guarded(loop.call, [&] { return loop.task(context, index, loop.closure); });
}

} // namespace

int32_t runKernels(Scratch &scratch, quern_function function, const quern_call &call) {
  KernelCall own{scratch};
  int32_t status = guarded(own, [&] { return function(&call); });
  if (own.failed)
    throw MachineError(std::string("a kernel failed: ") + own.message);
  return status;
}

} // namespace quern::runtime

using quern::runtime::ThreadPool;

extern "C" {

int halide_do_par_for(void *context, int (*task)(void *, int, uint8_t *), int min, int size, uint8_t *closure) {
  using namespace quern::runtime;
  if (!frame) // not within a call: of a test
    return ThreadPool::instance().parallelFor(context, task, min, size, closure);
  Loop loop{frame->call, task, closure};
  if (int status = ThreadPool::instance().parallelFor(context, runTask, min, size, reinterpret_cast<uint8_t *>(&loop)))
    failLoop(status);
  return 0;
}

void *halide_malloc(void *, size_t size) {
  using namespace quern::runtime;
  if (!frame)
    return nullptr;
  void *block = frame->call.scratch.take(frame->thread, size);
  if (!block) {
    char message[96]; // no std::string: its destructor would be skipped
    std::snprintf(message, sizeof(message), "the machine has no memory left for %zu bytes of scratch", size);
    fail(message);
  }
  return block;
}

void halide_free(void *, void *block) {
  using namespace quern::runtime;
  if (block && frame)
    frame->call.scratch.give(frame->thread, block);
}

/// Kernels are built without assertions, so only a broken invariant comes here.
void halide_error(void *, const char *message) {
  if (quern::runtime::frame)
    quern::runtime::fail(message);
  std::fprintf(stderr, "error: a kernel failed: %s\n", message);
}

} // extern "C"
