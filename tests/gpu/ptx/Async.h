// What goes on in a group beside its threads: barriers in shared memory that count arrivals and bytes, copies of boxes,
// products of warp groups.
#ifndef QUERN_TESTS_GPU_PTX_ASYNC_H
#define QUERN_TESTS_GPU_PTX_ASYNC_H

#include "tests/gpu/ptx/Steps.h"
#include "tests/gpu/ptx/Tensor.h"

#include <deque>
#include <random>

namespace quern::ptx {

struct Barrier {
  uint32_t count = 0, pending = 0; ///< arrivals of a phase, and those that it lacks
  int64_t bytes = 0;               ///< that it waits for
  uint32_t phase = 0;
  bool fenced = false; ///< copies know that it is there
  void settle();
};
struct BoxCopy {
  uint32_t to, barrier;
  TensorMap map;
  int32_t at[5];
};
/// A warp's quarter of a product.
struct Product {
  std::vector<int> sums; ///< registers
  std::vector<int> rows; ///< of the left factor, where registers hold it
  uint64_t x, w;
  bool acrossX, acrossW, adds, done;
};
struct WarpProducts {
  std::vector<std::vector<Product>> groups{{}}; ///< committed; the last one is open
  std::vector<std::vector<uint64_t>> fenced;    ///< of each lane: registers at its last fence
  std::vector<char> held;                       ///< registers that a product writes
  bool any() const { return groups.size() > 1 || !groups[0].empty(); }
};

struct Async {
  Landing landing =
      Landing::Late; ///< of copies; products then are early where copies are late, and late where those are early
  std::map<uint32_t, Barrier> barriers;
  std::deque<BoxCopy> copies;
  std::vector<WarpProducts> warps;
  std::vector<uint8_t> *shared = nullptr;
  Memory *memory = nullptr;
  std::minstd_rand random;
  void begin(BoxCopy copy);
  void land();
  /// Whether registers of the warp are held by a product, and this instruction touches one.
  void touches(size_t warp, const Instruction &at) const {
    if (warps[warp].any())
      touches(warps[warp], at);
  }

private:
  static void touches(const WarpProducts &products, const Instruction &at);
};

/// Null: none of these.
Step asyncStepOf(const std::string &name);
Together asyncTogetherOf(const std::string &name);

} // namespace quern::ptx
#endif
