// PTX as LLVM writes it for Halide's kernels, executed on the processor: the text that a driver would get. What is not known
// throws, so that nothing passes because it was skipped. Instructions: NVIDIA's "Parallel Thread Execution ISA".
#ifndef QUERN_TESTS_GPU_PTX_PTX_H
#define QUERN_TESTS_GPU_PTX_PTX_H

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace quern::ptx {

/// The memory of a device: every access must be in a block that was taken and not given back.
class Memory {
public:
  virtual ~Memory() = default;
  /// The bytes there; throws where a block has not so many.
  virtual uint8_t *at(uint64_t address, size_t bytes) = 0;
  /// A thread will read there soon.
  virtual void askedFor(const uint8_t *) {}
};

struct Thread;
struct Instruction;
/// What an instruction does to a thread's registers.
using Step = void (*)(Thread &, const Instruction &);
/// What one does that all lanes of a warp do together; `lanes`: those that have not ended.
using Together = void (*)(std::vector<Thread *> &lanes, const Instruction &);

/// A register, or a number in its place.
struct Operand {
  int reg = -1;
  uint64_t bits = 0; ///< of a number; of an address what is added to the register
};

/// What comes after an instruction that has no step.
enum class Flow : uint8_t { Next, Branch, Barrier, End };

struct Instruction {
  Step step = nullptr;
  Together together = nullptr;
  std::vector<Operand> operands; ///< results first
  int guard = -1;                ///< the predicate that it waits for
  bool unless = false;
  Flow flow = Flow::Next;
  size_t target = 0; ///< of a branch
  const struct Function *callee = nullptr;
  std::vector<Operand> passed; ///< of a call
  std::string text;            ///< for messages
};

struct Parameter {
  std::string name;
  size_t offset, bytes;
};

struct Function {
  std::string name;
  std::vector<Parameter> parameters; ///< of a kernel in the order of its launch; of a function results first
  size_t parameterBytes = 0, localBytes = 0, sharedBytes = 0, registers = 0, results = 0;
  std::vector<Instruction> code;
};

struct Module {
  std::map<std::string, std::unique_ptr<Function>> functions;
  std::vector<uint8_t> constants;            ///< of the module's own tables
  std::map<std::string, uint64_t> addresses; ///< of these, and of memory that a launch gives each group
};

/// Throws std::runtime_error that quotes the line.
std::unique_ptr<Module> parse(const std::string &text);

struct Launch {
  const Module &module;
  const Function &kernel;
  uint32_t groups[3], threads[3];
  std::vector<uint8_t> parameters; ///< as Function::parameters lays them out
  size_t sharedBytes = 0;          ///< of each group, beside what the kernel declares
  /// What may happen in several orders: 0: the last warp first, asynchronous copies as late as they may; others: warps at
  /// random, some far ahead of others, and copies late, early or at random.
  uint64_t seed = 0;
};
/// Every thread of every group. Throws std::runtime_error with the instruction.
void run(const Launch &launch, Memory &memory);

} // namespace quern::ptx
#endif
