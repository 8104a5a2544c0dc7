// The program's description of itself, parsed: what the compiler gives the runtime (JSON in `quern_program`).
#ifndef QUERN_RUNTIME_ABI_DESCRIPTION_H
#define QUERN_RUNTIME_ABI_DESCRIPTION_H

#include "runtime/abi/SizeExpr.h"
#include "support/Storage.h"

#include <nlohmann/json.hpp>

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace quern::runtime {

using support::bitsOfCode;
using support::Kind;
using support::kindName;
using support::Storage;
/// Bytes of an element in a kernel's buffer.
constexpr size_t elementBytes(Storage storage) {
  return size_t(support::bytesOf(storage));
}

struct TensorInfo {
  std::string name;
  Storage storage = Storage::F32;
  std::vector<SizeExpr> dims;
  bool optional = false;        // inputs: has a default
  std::string fallback;         // the function that computes it
  std::optional<int64_t> below; // integer inputs: values are 0 .. below - 1
};

struct FunctionInfo {
  std::string name;
  std::string role;    // "eval", "step", "few", "ragged", "ragged_few", "default"
  int64_t fewRows = 0; // of roles "few", "ragged_few": serves calls of at most this many rows
  std::vector<TensorInfo> inputs, outputs;
  std::optional<SizeExpr> flops; // of its contractions, in one call
  std::optional<SizeExpr> bytes; // that one call must read: weights and caches
  /// Null if there is none of that name.
  const TensorInfo *findInput(const std::string &name) const;
};

enum class Init { Normal, Uniform, Zeros, Ones };

/// A stored tensor.
struct ParameterInfo {
  std::vector<std::string> names; // the first that the checkpoint has is read
  std::vector<int64_t> shape;
  std::string at; // the place in the spec
  Init init = Init::Normal;
  double initValue = 0.02;
  bool mayBeAbsent = false; // from a checkpoint: it then is its initial value
  bool adapter = false;     // half of a LoRA adapter, [rank, inputs] or [outputs, rank]; the only ones that are trained
  bool inputsFirst = false; // the matrix that it is beside is stored as [inputs, outputs]
  double routedShare = 1;   // how much of it a token uses: of 8 experts with 2 chosen, a quarter
  int64_t elements() const;
};

/// As stored, in f32.
struct DenseLayout {
  auto operator<=>(const DenseLayout &) const = default;
};

/// As stored, in two bytes: bf16 or f16.
struct NarrowLayout {
  Storage storage = Storage::BF16;
  auto operator<=>(const NarrowLayout &) const = default;
};

/// [ceil(outer / tile)][inner / beside][tile][beside] of reals, zeros after the last row; codes in groups along `inner`, as
/// support/CodedGroups.h says.
struct PackedLayout {
  int64_t outer = 0, inner = 0, outerStride = 0, innerStride = 0, tile = 0;
  int64_t offset = 0; // of element (0, 0) in the stored tensor
  Storage storage = Storage::F32;
  int64_t beside = 1; // of bf16: neighbours along `inner`, one or two
  /// Of numbers: where one is in its tile. Asked for each number of a checkpoint, so it divides by what is known.
  int64_t placeOf(int64_t row, int64_t i) const {
    return beside == 1 ? i * tile + row : (i / 2 * tile + row) * 2 + i % 2;
  }
  /// Of one row.
  int64_t rowBytes() const { return support::bytesOf(storage, inner); }
  int64_t tileBytes() const { return rowBytes() * tile; }
  /// Of one matrix.
  int64_t bytes() const { return (outer + tile - 1) / tile * tileBytes(); }
  auto operator<=>(const PackedLayout &) const = default;
};

/// How kernels want a weight. What a layout costs and how it is filled is said in Weights.cpp.
using WeightLayout = std::variant<DenseLayout, NarrowLayout, PackedLayout>;

/// What its numbers are stored in.
inline Storage storageOf(const WeightLayout &layout) {
  if (const auto *narrow = std::get_if<NarrowLayout>(&layout))
    return narrow->storage;
  const auto *packed = std::get_if<PackedLayout>(&layout);
  return packed ? packed->storage : Storage::F32;
}

struct SlotInfo {
  std::vector<std::vector<int>> iterations; // per iteration of a loop: parameters, one after the other
  std::vector<WeightLayout> layouts;        // one for all parameters of an iteration, or one for each
  const WeightLayout &layout(size_t parameter) const { return layouts[layouts.size() == 1 ? 0 : parameter]; }
};

struct StateInfo {
  std::string name;
  Storage storage = Storage::F32;
  std::vector<SizeExpr> dims;
  std::vector<int> functions; // that use it; empty: all
};

/// The longest text that a table of positions allows.
struct LimitInfo {
  int symbol = -1;
  bool plusPast = false;
  int64_t atMost = 0;
  std::string at, name;
  std::vector<int> functions; // empty: all
};

/// The lengths of rings that keep `size` positions, numbers of symbols: filled slots ("filled(256)") and room ("room(256)").
struct WindowInfo {
  int64_t size = 0;
  int past = -1, cap = -1;
};

struct CheckInfo {
  std::string at, message;
};

/// A launch of a kernel, as reports show it.
struct LaunchInfo {
  int function = 0; // its number
  std::string kernel, title, at;
  std::string content;    // what the kernel computes: equal for equal kernels of any programs
  int64_t iterations = 1; // of the loops around it
  bool chunks = false;    // in a loop over chunks of rows: costs are those of all chunks together
  SizeExpr flops, bytes;  // of one run: multiply-adds, each as two; what is read and written, each once
};

struct Description {
  std::string model, spec;
  std::vector<std::string> cpu;
  bool multipliesBytes = false; // kernels multiply integers of 8 bits
  int multipliesTiles = 0; // kernels multiply in AMX's registers: bytes, or so many products of bf16 for one of numbers
  bool multipliesBF16 = false; // kernels multiply bf16 by bf16, by instructions for that
  std::string device;          // whose kernels these are ("opencl", "cuda", "vulkan"); empty: the processor's
  std::vector<std::string> symbols;
  int batch = -1, time = -1, past = -1, cap = -1; // numbers of symbols, -1: the program has none
  nlohmann::json config, fileConfig;
  std::vector<FunctionInfo> functions;
  std::vector<LaunchInfo> launches;
  std::vector<ParameterInfo> parameters;
  std::optional<double> adapterScale; // what products with adapters are multiplied by; absent: there are none
  std::vector<SlotInfo> slots;
  std::vector<StateInfo> states;
  std::optional<std::string> refusal; // why the model cannot be extended step by step
  bool recompute = false;             // remembered values depend on the length: every step starts anew
  std::vector<WindowInfo> windows;
  std::vector<LimitInfo> limits;
  std::vector<CheckInfo> checks;
  std::vector<std::string> ignore; // globs of tensors in the checkpoint that the model does without

  /// Throws UserError naming the field where the text is not what Abi.h's contract says.
  static Description parse(std::string_view json);

  /// The number of the function, or -1.
  int findFunction(std::string_view name) const;
  /// Sets the lengths that follow from others: of rings, with room for calls of `newRows` new rows.
  void completeSizes(std::vector<int64_t> &sizes, int64_t newRows) const;
  /// Whether a state's dimension is the room of a cache.
  bool isCapacity(const SizeExpr &dim) const;
  int findRole(std::string_view role, std::string_view nameOrPrefix) const;
};

} // namespace quern::runtime
#endif
