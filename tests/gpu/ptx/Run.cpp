// Takes: a kernel and its launch. Gives: the device's memory as it leaves it. Lanes of a warp run one after the other up to
// what they do together, the last first; warps in an order that the launch's seed draws, some far ahead of others. What one
// reads of another's before a barrier is not there yet.
#include "tests/gpu/ptx/Async.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <stdexcept>
#include <utility>

namespace quern::ptx {
namespace {

constexpr size_t mostSteps = size_t(1) << 32; // of one thread: a loop without end
constexpr size_t warpSize = 32;

void go(Thread &thread, const Function &function);

void call(Thread &caller, const Instruction &at) {
  const Function &callee = *at.callee;
  std::vector<uint8_t> parameters(callee.parameterBytes);
  Thread inner;
  inner.registers.resize(callee.registers);
  inner.local.resize(callee.localBytes);
  inner.parameters = parameters.data();
  inner.shared = caller.shared, inner.module = caller.module, inner.memory = caller.memory;
  std::memcpy(inner.registers.data(), caller.registers.data(), placeRegisters * sizeof(uint64_t));
  for (size_t i = callee.results; i < callee.parameters.size(); ++i)
    std::memcpy(&parameters[callee.parameters[i].offset], caller.parameters + at.passed[i].bits,
                callee.parameters[i].bytes);
  go(inner, callee);
  if (inner.atBarrier || inner.waits)
    throw std::runtime_error("a function that is called waits for other threads");
  for (size_t i = 0; i < callee.results; ++i)
    std::memcpy(caller.parameters + at.passed[i].bits, &parameters[callee.parameters[i].offset],
                callee.parameters[i].bytes);
}

/// Until the end, the next barrier, or what its warp does together.
void go(Thread &thread, const Function &function) {
  for (size_t steps = 0; thread.next < function.code.size(); ++steps) {
    const Instruction &at = function.code[thread.next++];
    if (at.guard >= 0 && (thread.registers[at.guard] & 1) == at.unless)
      continue;
    if (at.together) {
      thread.waits = &at;
      return;
    }
    if (at.step) {
      try {
        if (thread.async)
          thread.async->touches(thread.warp, at);
        at.step(thread, at);
      } catch (const std::exception &error) {
        throw std::runtime_error(function.name + ": " + at.text + ": " + error.what());
      }
    } else if (at.callee) {
      call(thread, at);
    } else if (at.flow == Flow::Barrier) {
      thread.atBarrier = true;
      return;
    } else if (at.flow == Flow::Branch) {
      thread.next = at.target;
    } else {
      break;
    }
    if (steps > mostSteps)
      throw std::runtime_error(function.name + ": a loop without end");
  }
  thread.done = true;
}

/// A group of threads while it runs.
class Group {
public:
  Group(const Launch &launch, Memory &memory)
      : launch(launch), kernel(launch.kernel), memory(memory),
        threads(size_t(launch.threads[0]) * launch.threads[1] * launch.threads[2]),
        parameters(std::max(kernel.parameterBytes, launch.parameters.size())), random(launch.seed) {}

  void run(uint32_t x, uint32_t y, uint32_t z) {
    start(x, y, z);
    while (warps()) {
      for (Thread &thread : threads)
        thread.atBarrier = false;
    }
    for (Thread &thread : threads)
      if (std::any_of(thread.copies.begin(), thread.copies.end(), [](auto &group) { return !group.empty(); }))
        throw std::runtime_error(kernel.name + ": a thread ends before its copies have landed");
    if (!async.copies.empty() ||
        std::any_of(async.warps.begin(), async.warps.end(), [](const WarpProducts &one) { return one.any(); }))
      throw std::runtime_error(kernel.name + ": a group ends before its copies have landed and its products are made");
  }

private:
  const Launch &launch;
  const Function &kernel;
  Memory &memory;
  std::vector<Thread> threads;
  std::vector<uint8_t> parameters, shared;
  Async async;
  std::mt19937_64 random;

  void start(uint32_t x, uint32_t y, uint32_t z) {
    shared.assign(kernel.sharedBytes + launch.sharedBytes, 0xff);
    Landing landing = launch.seed % 3 == 0 ? Landing::Late : launch.seed % 3 == 1 ? Landing::Early : Landing::Random;
    async = {};
    async.landing = landing, async.shared = &shared, async.memory = &memory;
    async.random.seed(unsigned(launch.seed));
    async.warps.resize((threads.size() + warpSize - 1) / warpSize);
    for (size_t i = 0; i < threads.size(); ++i) {
      Thread &thread = threads[i];
      thread.async = &async, thread.warp = i / warpSize, thread.yields = false;
      thread.registers.assign(kernel.registers, 0xffffffffffffffff); // what nobody wrote is no number
      thread.local.assign(kernel.localBytes, 0xff);
      thread.shared = &shared, thread.module = &launch.module, thread.memory = &memory;
      thread.next = 0, thread.done = thread.atBarrier = false;
      thread.waits = nullptr, thread.landing = landing;
      thread.copies.assign(1, {});
      uint64_t *place = thread.registers.data();
      place[0] = i % launch.threads[0], place[1] = i / launch.threads[0] % launch.threads[1],
      place[2] = i / launch.threads[0] / launch.threads[1];
      for (int d = 0; d < 3; ++d)
        place[3 + d] = launch.threads[d], place[9 + d] = launch.groups[d];
      place[6] = x, place[7] = y, place[8] = z;
    }
  }

  /// All warps up to a barrier. False: all have ended.
  bool warps() {
    size_t count = (threads.size() + warpSize - 1) / warpSize;
    std::vector<size_t> order;
    for (size_t i = count; i-- > 0;)
      order.push_back(i);
    bool more = false;
    size_t idle = 0; // rounds in which every warp waited for what goes on beside them
    for (std::vector<size_t> waiting = order; !waiting.empty();) {
      went = false;
      if (launch.seed)
        std::shuffle(waiting.begin(), waiting.end(), random);
      std::vector<size_t> still;
      for (size_t warp : waiting) {
        // Of warps at random some go far before the others go at all.
        size_t steps = launch.seed ? size_t(1) << random() % 12 : size_t(-1);
        bool ends = warpGoes(warp, steps);
        more |= ends && atBarrier(warp);
        if (!ends)
          still.push_back(warp);
      }
      waiting = std::move(still);
      idle = went ? 0 : idle + 1;
      bool lands = idle > 1 || (async.landing == Landing::Random && random() % 10 == 0);
      if (lands && !async.copies.empty())
        async.land(), idle = 0;
      if (idle > 3)
        throw std::runtime_error(kernel.name + ": all its warps wait for each other");
    }
    return more;
  }
  bool atBarrier(size_t warp) {
    for (size_t i = warp * warpSize; i < std::min(threads.size(), (warp + 1) * warpSize); ++i)
      if (threads[i].atBarrier)
        return true;
    return false;
  }

  bool went = false; ///< a warp did something

  /// Up to `steps` of what the warp does together; true: it has ended or stands at a barrier.
  bool warpGoes(size_t warp, size_t steps) {
    std::vector<Thread *> lanes;
    for (size_t i = warp * warpSize; i < std::min(threads.size(), (warp + 1) * warpSize); ++i)
      if (!threads[i].done)
        lanes.push_back(&threads[i]);
    for (size_t step = 0; step < steps; ++step) {
      for (size_t i = lanes.size(); i-- > 0;) {
        Thread &lane = *lanes[i];
        if (lane.done || lane.atBarrier || lane.waits)
          continue;
        std::memcpy(parameters.data(), launch.parameters.data(), launch.parameters.size());
        lane.parameters = parameters.data();
        go(lane, kernel);
      }
      std::erase_if(lanes, [](Thread *lane) { return lane->done; });
      const Instruction *at = nullptr;
      for (Thread *lane : lanes)
        if (lane->waits)
          at = lane->waits;
      if (!at)
        return went = true;
      for (Thread *lane : lanes)
        if (lane->waits != at)
          throw std::runtime_error(kernel.name + ": " + at->text + ": not all lanes of a warp are here");
      for (Thread *lane : lanes)
        lane->waits = nullptr;
      try {
        if (at->text.find("wgmma") == std::string::npos)
          async.touches(warp, *at);
        at->together(lanes, *at);
      } catch (const std::exception &error) {
        throw std::runtime_error(kernel.name + ": " + at->text + ": " + error.what());
      }
      if (std::exchange(lanes[0]->yields, false))
        return false;
      went = true;
    }
    return false;
  }
};

} // namespace

void run(const Launch &launch, Memory &memory) {
  Group group(launch, memory);
  for (uint32_t z = 0; z < launch.groups[2]; ++z)
    for (uint32_t y = 0; y < launch.groups[1]; ++y)
      for (uint32_t x = 0; x < launch.groups[0]; ++x)
        group.run(x, y, z);
}

} // namespace quern::ptx
