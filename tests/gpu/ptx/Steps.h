// What each instruction does, found by its name.
#ifndef QUERN_TESTS_GPU_PTX_STEPS_H
#define QUERN_TESTS_GPU_PTX_STEPS_H

#include "tests/gpu/ptx/Ptx.h"

namespace quern::ptx {

/// An asynchronous copy of a thread that has been begun.
struct Copy {
  uint8_t *to;
  const uint8_t *from;
  size_t bytes, room; ///< what is copied, and with zeros behind it
};
enum class Landing { Late, Early, Random };

struct Async;

/// One thread of a group, in one function.
struct Thread {
  std::vector<uint64_t> registers;
  std::vector<uint8_t> local;
  uint8_t *parameters = nullptr; ///< of the launch, or of the call
  std::vector<uint8_t> *shared = nullptr;
  const Module *module = nullptr;
  Memory *memory = nullptr;
  size_t next = 0;
  bool atBarrier = false, done = false;
  const Instruction *waits = nullptr; ///< the instruction that it does together with its warp
  Landing landing = Landing::Late;
  std::vector<std::vector<Copy>> copies; ///< groups that were committed; the last one is open
  Async *async = nullptr;                ///< of its group
  size_t warp = 0;
  bool yields = false; ///< it waits for what others do
};
/// Lands what must have landed: all but the last `left` groups that were committed.
void land(Thread &thread, size_t left);

/// Where addresses of a thread's and a group's own memory and of the module's tables begin; all others are the device's.
inline constexpr uint64_t localBase = uint64_t(1) << 60, sharedBase = uint64_t(2) << 60, tableBase = uint64_t(3) << 60;

/// Registers that say where a thread is, in this order before all others: %tid, %ntid, %ctaid, %nctaid, each x, y, z.
inline constexpr int placeRegisters = 12;

/// Null: a thread does it alone.
Together togetherOf(const std::string &name);
/// Throws std::runtime_error for what is not known. Branches, calls, barriers and the end are null: who runs does them.
Step stepOf(const std::string &name);

} // namespace quern::ptx
#endif
