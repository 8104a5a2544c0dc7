// Memory that kernels ask for while they run, beside their arguments.
#ifndef QUERN_CODEGEN_KERNEL_SCRATCH_H
#define QUERN_CODEGEN_KERNEL_SCRATCH_H

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace quern::codegen {

/// Bytes of a kernel's blocks that live at one time, headers and alignment included, as a program over the kernel's
/// lengths: the value of each step is computed from those of earlier ones.
struct Scratch {
  /// Div and Mod round down; by 0 they give 0, as Halide's do. Comparisons give 0 or 1; Select takes b where a is not 0.
  /// Most is the largest value of c while the counter a goes from 0 to b - 1, and no less than 0.
  enum class Op { Number, Length, Counter, Add, Sub, Mul, Div, Mod, Min, Max, Equal, Less, Select, Most };
  struct Step {
    Op op;
    int64_t number = 0; ///< of Number; of Counter, which one
    std::string length; ///< of Length: its name
    int a = -1, b = -1, c = -1;
    auto operator<=>(const Step &) const = default;
  };
  std::vector<Step> steps;
  int caller = -1; ///< the step for the thread that calls: what all tasks share, and its own tasks; -1: nothing
  int worker = -1; ///< the step for each thread that helps
};

/// By the name of a kernel.
using KernelScratch = std::map<std::string, Scratch>;
/// The C function of each kernel.
using KernelSymbols = std::map<std::string, std::string>;

/// Which steps are computed where: all once, except those that a counter changes.
class ScratchLoops {
public:
  explicit ScratchLoops(const std::vector<Scratch::Step> &steps);
  /// In order: those outside of all loops, and those that each value of a counter needs, by the number of their Most.
  std::vector<int> outside;
  std::map<int, std::vector<int>> within;
};

struct ScratchBytes {
  int64_t caller = 0, worker = 0;
};
/// `lengthOf` gives a length by its name.
ScratchBytes bytesOf(const Scratch &scratch, const std::function<int64_t(const std::string &)> &lengthOf);

/// For the cache: a line for each step, such as "add 3 7", and one for the results.
std::string scratchText(const Scratch &scratch);
/// Throws std::runtime_error.
Scratch parseScratch(const std::string &text);

/// Makes such a program. Equal steps are one step, and what can be computed already is.
class ScratchBuilder {
public:
  using Op = Scratch::Op;
  int number(int64_t value) { return add({Op::Number, value, {}}); }
  int length(const std::string &name) { return add({Op::Length, 0, name}); }
  int counter() { return add({Op::Counter, counters++, {}}); } ///< a new one
  int make(Op op, int a, int b, int c = -1);
  int negated(int condition) { return make(Op::Equal, condition, number(0)); }
  std::optional<int64_t> known(int step) const;
  /// Whether a counter changes the step.
  bool varies(int step, int counter) const { return changing[step].count(counter); }
  bool varies(int step) const { return !changing[step].empty(); }
  int most(int counter, int count, int of) { return varies(of, counter) ? make(Op::Most, counter, count, of) : of; }
  /// What the results need, and nothing else.
  Scratch finish(int caller, int worker) const;

private:
  int add(const Scratch::Step &step);
  std::vector<Scratch::Step> steps;
  std::vector<std::set<int>> changing; ///< for each step the counters that change it
  int64_t counters = 0;
  std::map<Scratch::Step, int> numbers; ///< of the steps
};

} // namespace quern::codegen
#endif
