// Which format each group of weights gets, for a size or a loss that is asked for.
#ifndef QUERN_TOOLS_QUANTIZE_MIX_H
#define QUERN_TOOLS_QUANTIZE_MIX_H

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace quern::tools {

/// One format of a group, all others left as they are.
struct FormatChoice {
  std::string format;
  uint64_t bytes = 0; ///< of the group's tensors
  double loss = 0;    ///< what the model loses with it; below 0 counts as 0
};

/// Weights that share a format, and the formats that they may have; the first is the one that they have to begin with.
struct GroupChoices {
  std::string name;
  std::vector<FormatChoice> formats;
};

/// A format for each group: numbers of GroupChoices::formats.
struct Mix {
  std::vector<size_t> formats;
  uint64_t bytes = 0; ///< of all groups
  double loss = 0;    ///< the sum of the groups' losses
};

/// Mixes from the largest to the smallest, each with one group in fewer bytes than in the one before: that which saves
/// most bytes for what it loses. Formats that are neither smaller nor better than another are left out. The same
/// choices always give the same mixes; of equal steps the group that comes first goes first.
std::vector<Mix> mixesBySize(const std::vector<GroupChoices> &groups);

/// The first mix of at most `bytes`; nothing if the smallest is larger.
std::optional<size_t> firstWithin(const std::vector<Mix> &mixes, uint64_t bytes);

/// The last mix that is good enough, by halving what is left: `isGood` is asked of about log2 of the mixes, and the result
/// is one that it was asked about. A judge that accepts more never gets a larger mix. Nothing if none was good.
std::optional<size_t> lastGood(size_t count, const std::function<bool(size_t)> &isGood);

} // namespace quern::tools
#endif
