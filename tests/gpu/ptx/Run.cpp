// Takes: a kernel and its launch. Gives: the device's memory as it leaves it. Threads of a group run one after the other up
// to a barrier, the last first: what one reads of another's before a barrier is not there yet.
#include "tests/gpu/ptx/Steps.h"

#include <cstring>
#include <stdexcept>

namespace quern::ptx {
namespace {

constexpr size_t mostSteps = size_t(1) << 32; // of one thread: a loop without end

void go(Thread &thread, const Function &function);

void call(Thread &caller, const Instruction &at) {
  const Function &callee = *at.callee;
  std::vector<uint8_t> parameters(callee.parameterBytes);
  Thread inner{std::vector<uint64_t>(callee.registers),
               std::vector<uint8_t>(callee.localBytes),
               parameters.data(),
               caller.shared,
               caller.module,
               caller.memory};
  std::memcpy(inner.registers.data(), caller.registers.data(), placeRegisters * sizeof(uint64_t));
  for (size_t i = callee.results; i < callee.parameters.size(); ++i)
    std::memcpy(&parameters[callee.parameters[i].offset], caller.parameters + at.passed[i].bits,
                callee.parameters[i].bytes);
  go(inner, callee);
  if (inner.atBarrier)
    throw std::runtime_error("a barrier in a function that is called");
  for (size_t i = 0; i < callee.results; ++i)
    std::memcpy(caller.parameters + at.passed[i].bits, &parameters[callee.parameters[i].offset],
                callee.parameters[i].bytes);
}

/// Until the end or the next barrier.
void go(Thread &thread, const Function &function) {
  thread.atBarrier = false;
  for (size_t steps = 0; thread.next < function.code.size(); ++steps) {
    const Instruction &at = function.code[thread.next++];
    if (at.guard >= 0 && (thread.registers[at.guard] & 1) == at.unless)
      continue;
    if (at.step) {
      try {
        at.step(thread, at);
      } catch (const std::exception &error) {
        throw std::runtime_error(function.name + ": " + at.text + ": " + error.what());
      }
    } else if (at.callee) {
      call(thread, at);
    } else if (at.text.find("bar.sync") != std::string::npos) {
      thread.atBarrier = true;
      return;
    } else if (at.text.find("bra") != std::string::npos) {
      thread.next = at.target;
    } else {
      break; // ret
    }
    if (steps > mostSteps)
      throw std::runtime_error(function.name + ": a loop without end");
  }
  thread.done = true;
}

} // namespace

void run(const Launch &launch, Memory &memory) {
  const Function &kernel = launch.kernel;
  size_t threads = size_t(launch.threads[0]) * launch.threads[1] * launch.threads[2];
  std::vector<Thread> group(threads);
  std::vector<uint8_t> parameters(std::max(kernel.parameterBytes, launch.parameters.size())), shared;
  for (uint32_t z = 0; z < launch.groups[2]; ++z)
    for (uint32_t y = 0; y < launch.groups[1]; ++y)
      for (uint32_t x = 0; x < launch.groups[0]; ++x) {
        shared.assign(kernel.sharedBytes, 0xff);
        for (size_t i = 0; i < threads; ++i) {
          Thread &thread = group[i];
          thread.registers.assign(kernel.registers, 0xffffffffffffffff); // what nobody wrote is no number
          thread.local.assign(kernel.localBytes, 0xff);
          thread.shared = &shared, thread.module = &launch.module, thread.memory = &memory;
          thread.next = 0, thread.done = false;
          uint64_t *place = thread.registers.data();
          place[0] = i % launch.threads[0], place[1] = i / launch.threads[0] % launch.threads[1],
          place[2] = i / launch.threads[0] / launch.threads[1];
          for (int d = 0; d < 3; ++d)
            place[3 + d] = launch.threads[d], place[9 + d] = launch.groups[d];
          place[6] = x, place[7] = y, place[8] = z;
        }
        for (bool more = true; more;) {
          more = false;
          for (size_t i = threads; i-- > 0;) {
            if (group[i].done)
              continue;
            std::memcpy(parameters.data(), launch.parameters.data(), launch.parameters.size());
            group[i].parameters = parameters.data();
            go(group[i], kernel);
            more |= group[i].atBarrier;
          }
        }
      }
}

} // namespace quern::ptx
