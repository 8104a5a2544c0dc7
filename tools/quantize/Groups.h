// Weights that share a format, and how --quantize names them.
#ifndef QUERN_TOOLS_QUANTIZE_GROUPS_H
#define QUERN_TOOLS_QUANTIZE_GROUPS_H

#include "tools/quantize/StoredForms.h"

#include <string>
#include <vector>

namespace quern::tools {

/// The same role in all layers that are computed alike: passes give all of them one format.
struct WeightGroup {
  std::vector<std::string> names; ///< of tensors
  std::vector<std::string> globs; ///< that fit these tensors and none of another group

  /// "model.layers.*.self_attn.q_proj.weight + k_proj + v_proj"
  std::string title() const;
};

/// The groups of all weights of products, in the order of the model.
std::vector<WeightGroup> weightGroups(const std::vector<StoredForm> &forms);

/// A group and its format: "GLOB=FORMAT" for each glob, joined by commas.
std::string rulesOf(const WeightGroup &group, const std::string &format);

} // namespace quern::tools
#endif
