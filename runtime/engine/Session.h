// Running a compiled model's functions: lengths, buffers, caches.
#ifndef QUERN_RUNTIME_ENGINE_SESSION_H
#define QUERN_RUNTIME_ENGINE_SESSION_H

#include "runtime/abi/Abi.h"
#include "runtime/abi/Description.h"
#include "runtime/engine/Cache.h"
#include "runtime/engine/DeviceSide.h"
#include "runtime/machine/Memory.h"
#include "runtime/weights/Weights.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace quern::runtime {

/// A dense row-major tensor: f32, int32 or uint8.
struct Value {
  Storage storage = Storage::F32;
  std::vector<int64_t> shape;
  std::vector<uint8_t> data;
  /// Where a device has it already, as an input of a call; null: it has `data`.
  const void *there = nullptr;

  static Value make(Storage storage, std::vector<int64_t> shape);
  static Value ints(std::vector<int64_t> shape, const std::vector<int> &content);
  int64_t elements() const;
  const float *reals() const { return reinterpret_cast<const float *>(data.data()); }
  int32_t *ints() { return reinterpret_cast<int32_t *>(data.data()); }
  const int32_t *ints() const { return reinterpret_cast<const int32_t *>(data.data()); }
};

using Values = std::map<std::string, Value>;

/// A program's table with its description. Throws UserError where the two sides of the interface differ.
struct Program {
  const quern_program_table &table;
  Description description;
  explicit Program(const quern_program_table &table);
  /// That it was compiled for. Throws MachineError where there is none.
  Device &device() const { return Device::named(description.device); }
};

/// The memory that calls work in: intermediate results and scratch. One call at a time.
class Session {
public:
  Session(const Program &program, const Weights &weights)
      : program(program), weights(weights), where(program.device()), arena(where), whole(where) {}

  const Description &description() const { return program.description; }
  Device &device() const { return where; }

  /// Before the first call: weights that are in these need not be sent.
  void useMirrors(const std::vector<Mirror> &mirrors);
  /// The other weights have changed in the host's memory.
  void resendWeights();

  /// The whole function on whole texts: past = 0. Inputs by name; those left out take their defaults. Throws UserError
  /// for what is missing, unknown, of another shape, outside its range or longer than the model's tables.
  Values evaluate(int function, const Values &inputs);
  /// The same, with the results at places of the caller's, in the order of the description.
  void evaluateInto(int function, const Values &inputs, const std::vector<void *> &outputs);

  /// The lengths of all symbols as the inputs' shapes give them, 0 where none does; checked against each other.
  std::vector<int64_t> inferSizes(int function, const Values &inputs) const;
  /// Throws UserError where a length is beyond one of the model's tables.
  void checkLimits(int function, const std::vector<int64_t> &sizes) const;
  /// The longest text (past and new rows) that the model's tables allow for the function, or INT64_MAX.
  int64_t longestText(int function) const;

  /// One call. `inputs` and `outputs` in the order of the description, with the shapes that `sizes` gives them; what
  /// the texts keep is in `cache`. `first` begins a request. Throws UserError where one of the description's checks
  /// failed, MachineError where a kernel did.
  void call(int function, const std::vector<int64_t> &sizes, const std::vector<const Value *> &inputs,
            const std::vector<Value *> &outputs, Cache &cache, bool first);
  /// An output may be in the device's memory, where its result then stays.
  void callInto(int function, const std::vector<int64_t> &sizes, const std::vector<const Value *> &inputs,
                const std::vector<void *> &outputs, Cache &cache, bool first);
  /// Of each result.
  std::vector<size_t> outputBytes(int function, const std::vector<int64_t> &sizes) const;
  /// Results for `call`, of the shapes that `sizes` gives.
  std::vector<Value> makeOutputs(int function, const std::vector<int64_t> &sizes) const;
  /// The default of an input that was left out.
  Value defaultInput(int function, const TensorInfo &input, const std::vector<int64_t> &sizes);

  /// Bits that say for which lengths what is remembered was made (quern_epoch).
  uint64_t epoch(int function, const std::vector<int64_t> &sizes) const;
  /// Bytes that a call would work in: arena, kept values, caches, scratch of kernels in all threads.
  uint64_t plannedBytes(int function, const std::vector<int64_t> &sizes) const;
  uint64_t plannedScratch(int number, const std::vector<int64_t> &sizes) const;
  /// Throws MachineError where the machine has less memory than a call cannot do without: all of plannedBytes, but scratch
  /// of the calling thread alone, as no other need help.
  void requireMemory(int function, const std::vector<int64_t> &sizes, const std::string &purpose) const;
  /// What calls really used of that so far, in whole pages, without scratch and the caches of others.
  uint64_t touchedBytes() const { return arena.touched() + whole.touched(); }
  /// The most bytes of scratch that kernels have had: of each thread as much as it ever had at one time.
  uint64_t scratchPeakBytes() const { return scratch.peakBytes(); }

private:
  const Program &program;
  const Weights &weights;
  Device &where;
  Buffer arena;
  Scratch scratch;
  std::unique_ptr<DeviceSide> side; // where the device's memory is not the host's
  Cache whole;                      // of `evaluate`

  struct Prepared {
    std::vector<int64_t> sizes;
    Values defaults;
    std::vector<const Value *> inputs;
  };
  Prepared prepare(int function, const Values &given);
  void checkShapes(int function, const Values &inputs, const std::vector<int64_t> &sizes) const;
  std::vector<int64_t> shapeOf(const TensorInfo &tensor, const std::vector<int64_t> &sizes) const;
};

/// "tokens: int[B, T], mask: bool[B, T] (may be left out)": for messages.
std::string describeInputs(const Description &description, const FunctionInfo &function);
std::string describeTensor(const TensorInfo &tensor);

} // namespace quern::runtime
#endif
