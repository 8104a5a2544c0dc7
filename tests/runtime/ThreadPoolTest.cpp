// The pool, the hooks that kernels call, and the small parts: sizes, processor features, the description.
#include "runtime/machine/ThreadPool.h"
#include "runtime/Error.h"
#include "runtime/abi/Description.h"
#include "runtime/cli/Options.h"
#include "runtime/machine/CpuFeatures.h"
#include "runtime/machine/KernelCall.h"
#include "runtime/machine/Memory.h"
#include "support/Files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <sys/resource.h>

using namespace quern::runtime;
using testing::HasSubstr;

extern "C" {
int halide_do_par_for(void *, int (*)(void *, int, uint8_t *), int, int, uint8_t *);
void *halide_malloc(void *, size_t);
void halide_free(void *, void *);
void halide_error(void *, const char *);
}

namespace {

TEST(ThreadPool, RunsEveryIndexOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int count : {0, 1, 2, 7, 1000})
      for (int round = 0; round < 50; ++round) {
        std::vector<std::atomic<int>> seen(size_t(count) + 1);
        pool.forEach(count, [&](int i) { ++seen[size_t(i)]; });
        for (int i = 0; i < count; ++i)
          ASSERT_EQ(seen[size_t(i)], 1);
      }
  }
}

/// A thread has its share in order, and who has nothing left takes from the end of it.
TEST(ThreadPool, OthersTakeWhatAThreadHasLeft) {
  ThreadPool pool(2);
  constexpr int count = 100;
  std::mutex mutex;
  std::vector<int> others; // than the caller, in their order
  std::atomic<int> done{0};
  pool.forEach(count, [&](int i) {
    if (i == 0) // the caller's first: it ends when all others are done
      while (done != count - 1)
        std::this_thread::yield();
    if (ThreadPool::threadNumber() == 1) {
      std::lock_guard<std::mutex> lock(mutex);
      others.push_back(i);
    }
    ++done;
  });
  std::vector<int> expected(count - 1);
  std::iota(expected.begin(), expected.begin() + count / 2, count / 2);
  std::iota(expected.rbegin(), expected.rend() - count / 2, 1);
  EXPECT_EQ(others, expected);
}

TEST(ThreadPool, NestedLoopsStayInTheirThread) {
  ThreadPool pool(4);
  std::atomic<int> running{0}, most{0}, total{0};
  pool.forEach(16, [&](int) {
    pool.forEach(16, [&](int) {
      int now = ++running;
      for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);)
        ;
      ++total;
      --running;
    });
  });
  EXPECT_EQ(total, 256);
  EXPECT_LE(most, 4);
}

TEST(ThreadPool, SeveralCallers) {
  ThreadPool pool(3);
  std::atomic<int> total{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&] {
      for (int round = 0; round < 500; ++round)
        pool.forEach(8, [&](int) { ++total; });
    });
  for (std::thread &caller : callers)
    caller.join();
  EXPECT_EQ(total, 4 * 500 * 8);
}

TEST(ThreadPool, PassesErrorsOn) {
  ThreadPool pool(3);
  EXPECT_THROW(pool.forEach(100,
                            [](int i) {
                              if (i == 42)
                                throw UserError("no");
                            }),
               UserError);
  auto task = [](void *, int index, uint8_t *) { return index == 5 ? -7 : 0; };
  EXPECT_EQ(pool.parallelFor(nullptr, task, 0, 10, nullptr), -7);
  EXPECT_EQ(pool.parallelFor(nullptr, task, 6, 10, nullptr), 0);
}

TEST(ThreadPool, SleepsAndWakes) {
  ThreadPool pool(2);
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic<int> total{0};
    pool.forEach(100, [&](int k) { total += k; });
    EXPECT_EQ(total, 4950);
  }
}

TEST(ThreadPool, TakesTheThreadsThatItGets) {
  rlimit before, tight;
  getrlimit(RLIMIT_AS, &before);
  std::string status = readSmallFile("/proc/self/status");
  rlim_t used = std::strtoull(status.c_str() + status.find("VmSize:") + 7, nullptr, 10) * 1024;
  tight = {used + (rlim_t(100) << 20), before.rlim_max}; // room for the stacks of a dozen threads
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  {
    ThreadPool pool(500);
    setrlimit(RLIMIT_AS, &before);
    EXPECT_LT(pool.threads(), 500);
    EXPECT_EQ(pool.wanted(), 500);
    std::atomic<int> total{0};
    pool.forEach(100, [&](int k) { total += k; });
    EXPECT_EQ(total, 4950);
  }
}

/// Code as the compiler makes it: a function that is not called with anything but its call.
template <typename Body> int32_t inKernel(Scratch &scratch, Body body) {
  quern_call call = {};
  call.arena = reinterpret_cast<uint8_t *>(&body);
  return runKernels(
      scratch, [](const quern_call *call) -> int32_t { return (*reinterpret_cast<Body *>(call->arena))(); }, call);
}

TEST(Kernels, LoopsAndScratch) {
  Scratch scratch;
  scratch.plan(0, 0);
  std::vector<int> seen(50);
  auto task = [](void *, int index, uint8_t *closure) {
    (*reinterpret_cast<std::vector<int> *>(closure))[size_t(index - 3)] = index;
    return 0;
  };
  EXPECT_EQ(inKernel(scratch,
                     [&] {
                       halide_free(nullptr, nullptr);
                       return halide_do_par_for(nullptr, task, 3, 50, reinterpret_cast<uint8_t *>(&seen)) - 9;
                     }),
            -9);
  std::vector<int> expected(50);
  std::iota(expected.begin(), expected.end(), 3);
  EXPECT_EQ(seen, expected);
}

TEST(Kernels, ScratchIsAStack) {
  Scratch scratch;
  scratch.plan(100000, 0);
  inKernel(scratch, [&] {
    auto place = [](void *block) { return reinterpret_cast<uintptr_t>(block); };
    void *first = halide_malloc(nullptr, 1000);
    void *second = halide_malloc(nullptr, 2000);
    void *third = halide_malloc(nullptr, 3000);
    std::memset(first, 1, 1000 + 64); // a little beyond the end may be read
    std::memset(second, 2, 2000 + 64);
    std::memset(third, 3, 3000 + 64);
    EXPECT_EQ(place(first) % 128, 0u);
    EXPECT_EQ(place(second), place(first) + 1024 + 256);
    halide_free(nullptr, second); // waits for what is above
    void *fourth = halide_malloc(nullptr, 8);
    EXPECT_GT(place(fourth), place(third));
    halide_free(nullptr, fourth);
    halide_free(nullptr, third);
    EXPECT_EQ(static_cast<char *>(first)[999], 1);
    halide_free(nullptr, first);
    return 0;
  });
}

TEST(Kernels, APlanThatNoMemoryHoldsStopsNoKernel) {
  for (uint64_t planned : {uint64_t(1) << 60, UINT64_MAX}) {
    Scratch scratch;
    scratch.plan(planned, planned);
    inKernel(scratch, [&] {
      for (int i = 0; i < 3; ++i) {
        void *first = halide_malloc(nullptr, 1000), *second = halide_malloc(nullptr, 100000);
        std::memset(first, 1, 1000 + 64);
        std::memset(second, 2, 100000 + 64);
        EXPECT_EQ(static_cast<char *>(first)[999], 1);
        halide_free(nullptr, second);
        halide_free(nullptr, first);
      }
      return 0;
    });
    EXPECT_LT(scratch.peakBytes(), 200000u);
  }
}

TEST(Kernels, ScratchThatWasPlannedIsAllThatIsTaken) {
  Scratch scratch;
  scratch.plan(3 * (1000064 + 256), 0);
  inKernel(scratch, [&] {
    void *first = halide_malloc(nullptr, 1000000);
    uint64_t peak = 0;
    for (int i = 0; i < 50; ++i) {
      void *second = halide_malloc(nullptr, 1000000), *third = halide_malloc(nullptr, 1000000 - size_t(i));
      halide_free(nullptr, third);
      halide_free(nullptr, second);
      if (i == 0)
        peak = scratch.peakBytes();
    }
    EXPECT_GE(peak, 3 * (1000064u + 256));
    EXPECT_EQ(scratch.peakBytes(), peak);
    // More than was planned: beside the stack at first, in it from then on.
    std::vector<void *> blocks;
    for (int i = 0; i < 20; ++i) {
      blocks.push_back(halide_malloc(nullptr, 100000));
      std::memset(blocks.back(), i, 100000);
    }
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(static_cast<unsigned char *>(blocks[size_t(i)])[99999], i);
    for (void *block : blocks)
      halide_free(nullptr, block);
    halide_free(nullptr, first);
    return 0;
  });
}

/// What a kernel does that fails in the middle of a parallel loop: its scratch is still taken.
int32_t failInATask() {
  auto task = [](void *, int index, uint8_t *) {
    halide_malloc(nullptr, 5000);
    if (index == 7)
      halide_error(nullptr, "seven is too much");
    return 0;
  };
  halide_malloc(nullptr, 3000);
  halide_do_par_for(nullptr, task, 0, 64, nullptr);
  ADD_FAILURE() << "the kernel went on";
  return 0;
}

TEST(Kernels, AFailureIsAnExceptionOfTheCallAlone) {
  Scratch scratch, other;
  other.plan(0, 0);
  for (int round = 0; round < 3; ++round) {
    scratch.plan(10000, 10000);
    try {
      inKernel(scratch, failInATask);
      FAIL() << "nothing was thrown";
    } catch (const MachineError &error) {
      EXPECT_THAT(error.what(), HasSubstr("seven is too much"));
    }
    EXPECT_EQ(inKernel(other, [] { return 5; }), 5);
    EXPECT_EQ(inKernel(scratch, [] { return halide_malloc(nullptr, 100) ? 6 : 0; }), 6);
  }
  try {
    inKernel(scratch, [] { return halide_malloc(nullptr, SIZE_MAX - 5) ? 1 : 2; });
    FAIL() << "nothing was thrown";
  } catch (const MachineError &error) {
    EXPECT_THAT(error.what(), HasSubstr("no memory left"));
  }
}

/// Two sessions in two threads: the blocks of one are never the other's.
TEST(Kernels, SessionsHaveScratchOfTheirOwn) {
  std::vector<std::thread> threads;
  for (int number = 0; number < 2; ++number)
    threads.emplace_back([number] {
      Scratch scratch;
      for (int round = 0; round < 200; ++round) {
        scratch.plan(20000, 20000);
        inKernel(scratch, [&] {
          auto task = [](void *, int index, uint8_t *closure) {
            int mark = *closure * 64 + index;
            auto *block = static_cast<int *>(halide_malloc(nullptr, 4000));
            std::fill(block, block + 1000, mark);
            for (int i = 0; i < 1000; ++i)
              EXPECT_EQ(block[i], mark);
            halide_free(nullptr, block);
            return 0;
          };
          uint8_t own = uint8_t(number);
          return halide_do_par_for(nullptr, task, 0, 32, &own);
        });
      }
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST(SizeExpr, ReadsPolynomials) {
  std::vector<std::string> symbols = {"B", "T", "past"};
  auto value = [&](const char *text) { return SizeExpr::parse(text, symbols).evaluate({2, 5, 100}); };
  EXPECT_EQ(value("7"), 7);
  EXPECT_EQ(value("T + past"), 105);
  EXPECT_EQ(value("2 * T - 1"), 9);
  EXPECT_EQ(value("-3 * B * T + T^2"), -5);
  EXPECT_EQ(value("T * T * B"), 50);
  EXPECT_EQ(SizeExpr::parse("past", symbols).asSymbol(), 2);
  EXPECT_EQ(SizeExpr::parse("2 * past", symbols).asSymbol(), -1);
  EXPECT_EQ(value("3 * min(8, 2 * T) * B - min(3, T) + 1"), 46) << "3 * 8 * 2 - 3 + 1";
  EXPECT_EQ(value("T - min(0, T - past)"), 100);
  EXPECT_TRUE(SizeExpr::parse("min(8, past)", symbols).mentions(2));
  EXPECT_FALSE(SizeExpr::parse("min(8, past)", symbols).isConstant());
  EXPECT_EQ(SizeExpr::parse("min(8, past)", symbols).asSymbol(), -1);
  for (const char *bad : {"", "T +", "X", "min(8)", "min(T, 8)", "min(8, X)", "min(8, T", "min", "T T", "2 *", "T^x",
                          "99999999999999999999", "T ? 1"})
    EXPECT_THROW(SizeExpr::parse(bad, symbols), UserError) << bad;
  EXPECT_THROW(SizeExpr::parse("T * T", symbols).evaluate({0, int64_t(1) << 40, 0}), UserError);
}

TEST(CpuFeatures, KnowsBothSpellings) {
  EXPECT_TRUE(hasCpuFeature("sse2"));
  EXPECT_EQ(hasCpuFeature("sse4_1"), hasCpuFeature("sse4.1"));
  EXPECT_EQ(hasCpuFeature("avx512_vnni"), hasCpuFeature("avx512vnni"));
  EXPECT_FALSE(hasCpuFeature("flux"));
  EXPECT_THROW(requireCpuFeatures({"sse2", "flux"}), MachineError);
}

[[noreturn]] static void requireTilesWithoutRoom() {
  static char room[4096];
  stack_t stack{};
  stack.ss_sp = room;
  stack.ss_size = sizeof room;
  sigaltstack(&stack, nullptr);
  try {
    requireCpuFeatures({"sse2", "amx_tile", "amx_bf16"});
  } catch (const MachineError &error) {
    std::fputs(error.what(), stderr);
    std::exit(2);
  }
  std::exit(0);
}

/// Linux gives AMX's registers to who asks, but not where a thread's stack for signals would be too small for them.
TEST(CpuFeatures, TilesThatTheSystemRefusesAreNamed) {
  if (quern::support::readSmallFile("/proc/cpuinfo").find(" amx_tile") == std::string::npos) {
    EXPECT_FALSE(hasCpuFeature("amx_tile"));
    EXPECT_FALSE(hasCpuFeature("amx_bf16"));
    return;
  }
  EXPECT_EXIT(requireTilesWithoutRoom(), testing::ExitedWithCode(2),
              "compiled for a processor with AMX; .* has it, but the system does not let .*-noamx");
  EXPECT_TRUE(hasCpuFeature("amx_tile"));
}

TEST(Options, NamesEverySlip) {
  auto parsed = [](std::vector<std::string> arguments) {
    Options options("go", {{"--seed", "N", ""}, {"-n", "N", ""}, {"--json", nullptr, ""}});
    options.parse(arguments);
    options.integer("-n", 0, 0, 10);
    options.number("--seed", 0, 0, 10);
    return options;
  };
  EXPECT_EQ(parsed({"--seed=3", "-n", "4", "--json"}).integer("-n", 0, 0, 10), 4);
  EXPECT_TRUE(parsed({"--json"}).has("--json"));
  const std::pair<std::vector<std::string>, const char *> cases[] = {{{"--sed", "1"}, "did you mean '--seed'?"},
                                                                     {{"-n"}, "needs a value"},
                                                                     {{"-n", "11"}, "'11'"},
                                                                     {{"-n", "x"}, "'x'"},
                                                                     {{"--json=1"}, "takes no value"},
                                                                     {{"word"}, "'word'"},
                                                                     {{"--seed", "nan"}, "'nan'"}};
  for (const auto &[arguments, says] : cases) {
    try {
      parsed(arguments);
      FAIL() << says;
    } catch (const UserError &error) {
      EXPECT_THAT(error.what(), HasSubstr(says));
    }
  }
}

TEST(Description, RefusesWhatCannotBe) {
  for (
      const char *text :
      {"", "[]", "{}", R"({"quern": 2})", R"({"quern": 1, "symbols": 3})",
       R"({"quern": 1, "functions": [{"inputs": [{"kind": "complex"}]}]})",
       R"({"quern": 1, "parameters": [{"names": [], "shape": [1]}]})",
       R"({"quern": 1, "parameters": [{"names": ["a"], "shape": [0]}]})",
       R"({"quern": 1, "slots": [{"iterations": [[0]], "layout": {"kind": "dense"}}]})",
       R"({"quern": 1, "parameters": [{"names": ["a"], "shape": [4]}], "slots": [{"iterations": [[0]], "layout": {"kind": "packed",
                               "inner": 3, "tile": 8, "parts": [{"outer": 2, "outer_stride": 3, "inner_stride": 1}]}}]})",
       R"({"quern": 1, "parameters": [{"names": ["a"], "shape": [4]}], "slots": [{"iterations": [[0]], "layout": {"kind": "packed",
                               "inner": 3, "tile": 8, "parts": []}}]})",
       R"({"quern": 1, "parameters": [{"names": ["a"], "shape": [6]}], "slots": [{"iterations": [[0]], "layout": {"kind": "packed",
                               "inner": 3, "tile": 8, "storage": "bf16", "beside": 2, "parts": [{"outer": 2, "outer_stride": 3, "inner_stride": 1}]}}]})",
       R"({"quern": 1, "parameters": [{"names": ["a"], "shape": [6]}], "slots": [{"iterations": [[0]], "layout": {"kind": "packed",
                               "inner": 2, "tile": 8, "beside": 2, "parts": [{"outer": 3, "outer_stride": 2, "inner_stride": 1}]}}]})"})
    EXPECT_THROW(Description::parse(text), UserError) << text;
}

TEST(DescriptionText, LengthsOfRings) {
  Description d = Description::parse(
      R"json({"quern": 1, "symbols": ["B", "T", "cap", "room(6)", "past", "filled(6)"], "batch": "B", "time": "T", "functions": []})json");
  ASSERT_EQ(d.windows.size(), 1u);
  auto at = [&](int64_t past, int64_t cap, int64_t newRows) {
    std::vector<int64_t> sizes = {1, newRows, cap, 0, past, 0};
    d.completeSizes(sizes, newRows);
    return std::pair(sizes[5], sizes[3]);
  };
  EXPECT_EQ(at(0, 4, 4), std::pair(int64_t(0), int64_t(4)));
  EXPECT_EQ(at(5, 100, 1), std::pair(int64_t(5), int64_t(7)));
  EXPECT_EQ(at(99, 100, 1), at(999, 1000, 1)) << "no more memory for a longer text";
  EXPECT_TRUE(d.isCapacity(SizeExpr::parse("2 * room(6)", d.symbols)));
  EXPECT_FALSE(d.isCapacity(SizeExpr::parse("2 * filled(6)", d.symbols)));
  EXPECT_EQ(SizeExpr::parse("3 * min(9, T + filled(6)) - B", d.symbols).evaluate({1, 2, 0, 0, 0, 4}), 17);
  EXPECT_THROW(Description::parse(R"json({"quern": 1, "symbols": ["filled(0)"], "functions": []})json"), UserError);
}

} // namespace
