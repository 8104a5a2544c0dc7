// A model's parameters: found in a checkpoint, checked, and laid out as the kernels want them.
#ifndef QUERN_RUNTIME_WEIGHTS_WEIGHTS_H
#define QUERN_RUNTIME_WEIGHTS_WEIGHTS_H

#include "runtime/abi/Description.h"
#include "runtime/machine/Memory.h"
#include "runtime/weights/Checkpoint.h"
#include "runtime/weights/PackedFile.h"

#include <memory>
#include <vector>

namespace quern::runtime {

/// The stored tensor of each parameter. Throws one UserError that lists everything that does not fit: missing tensors,
/// other shapes or types, and unused ones (but those that `ignore` names and copies of used ones, such as a tied head),
/// each with its place in the spec.
std::vector<const StoredTensor *> matchParameters(const Description &description, const TensorSource &source);

class Weights {
public:
  /// From a checkpoint, or a file that `pack` wrote; its files stay mapped as long as this lives.
  static std::unique_ptr<Weights> load(const Description &description, std::unique_ptr<TensorSource> source);
  /// From dense f32 tensors in memory, one for each parameter, whose content may change: `update` follows. What kernels
  /// want dense is used where it is stored, several tensors as one where they are stored one after the other; `narrow`: the same
  /// for what they want in bf16 (else `update` makes copies). Parameters without a tensor never change: they are as `frozen` has
  /// them, or random by a seed.
  static std::unique_ptr<Weights> over(const Description &description, const std::vector<const float *> &tensors,
                                       std::vector<const uint16_t *> narrow = {},
                                       std::vector<const StoredTensor *> frozen = {}, uint64_t seed = 0);
  /// Whether some dense tensors were copied: several that kernels see as one (experts) but are apart, or that wanted
  /// another type.
  bool copiesDense() const { return dense; }
  /// Packs anew what was packed, after the tensors changed.
  void update();
  /// Random, by each parameter's `init`; the same for a seed on every machine.
  static std::unique_ptr<Weights> random(const Description &description, uint64_t seed);

  /// For quern_call: slots()[slot][iteration].
  const void *const *const *slots() const { return slotPointers.data(); }
  /// Bytes that were laid out anew; the others are used where they are mapped.
  uint64_t packedBytes() const { return memory.size(); }
  /// What kernels read, each piece once, in an order that the description alone decides: for writePacked.
  const std::vector<WeightPiece> &pieces() const { return laid; }
  /// Bytes of all slots' tensors, each once.
  uint64_t totalBytes() const { return bytes; }

  Weights();
  ~Weights();

private:
  class Packer;
  std::unique_ptr<TensorSource> source; // whose files stay mapped
  Buffer memory;
  std::vector<std::vector<const void *>> iterationPointers;
  std::vector<const void *const *> slotPointers;
  std::vector<WeightPiece> laid;
  uint64_t bytes = 0;
  bool dense = false;
  std::vector<StoredTensor> changing; // what `over` was given
  std::vector<bool> fixed;            // which parameters never change
  std::vector<const uint16_t *> narrow;
  std::unique_ptr<Packer> packer; // only where tensors change
};

} // namespace quern::runtime
#endif
