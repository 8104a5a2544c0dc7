// Takes: a checkpoint's tensors. Gives: views of single experts.
#include "runtime/weights/JoinedExperts.h"

namespace quern::runtime {

/// One of `count` equal pieces that lie one after the other.
static StoredTensor piece(const StoredTensor &whole, int64_t number, int64_t count, std::vector<int64_t> shape) {
  StoredTensor part = whole;
  part.shape = std::move(shape);
  part.bytes = whole.bytes / uint64_t(count);
  part.data = whole.data + uint64_t(number) * part.bytes;
  return part;
}

std::map<std::string, StoredTensor> singleExperts(const std::map<std::string, StoredTensor> &tensors) {
  static const std::string inward = ".experts.gate_up_proj", outward = ".experts.down_proj";
  std::map<std::string, StoredTensor> result;
  for (const auto &[name, both] : tensors) {
    if (!name.ends_with(inward))
      continue;
    const std::string stem = name.substr(0, name.size() - inward.size());
    auto found = tensors.find(stem + outward);
    if (found == tensors.end() || both.reader || found->second.reader || both.shape.size() != 3 ||
        found->second.shape.size() != 3)
      continue;
    const StoredTensor &down = found->second;
    const int64_t experts = both.shape[0], inputs = both.shape[2], inner = down.shape[2];
    if (experts == 0 || down.shape[0] != experts || down.shape[1] != inputs || both.shape[1] != 2 * inner)
      continue;
    for (int64_t e = 0; e < experts; ++e) {
      const std::string expert = stem + ".experts." + std::to_string(e);
      result.emplace(expert + ".gate_proj.weight", piece(both, 2 * e, 2 * experts, {inner, inputs}));
      result.emplace(expert + ".up_proj.weight", piece(both, 2 * e + 1, 2 * experts, {inner, inputs}));
      result.emplace(expert + ".down_proj.weight", piece(down, e, experts, {inputs, inner}));
    }
  }
  return result;
}

} // namespace quern::runtime
