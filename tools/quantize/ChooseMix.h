// The formats that a size or a loss asks for, by measuring what each group of weights loses in each of them.
#ifndef QUERN_TOOLS_QUANTIZE_CHOOSEMIX_H
#define QUERN_TOOLS_QUANTIZE_CHOOSEMIX_H

#include "tools/quantize/Groups.h"
#include "tools/quantize/Measure.h"
#include "tools/quantize/Mix.h"

#include <functional>

namespace quern::tools {

struct MixGoal {
  std::optional<uint64_t> bytes;    ///< of the weights in the file, at most
  std::optional<double> perplexity; ///< growth, at most: 0.005 is half a percent
};

/// What the search asks, about a model with these formats (as --quantize takes them).
struct MixQuestions {
  std::function<std::vector<StoredForm>(const std::string &quantize)> forms;
  std::function<TextLoss(const std::string &quantize)> loss;
  std::function<void(const std::string &line)> progress;
};

/// A mix that was measured whole.
struct MeasuredMix {
  uint64_t bytes = 0; ///< of all weights in the file
  TextLoss loss;
};

struct ChosenMix {
  std::string quantize;
  TextLoss before;                  ///< of the unquantised model
  std::vector<GroupChoices> groups; ///< what was measured of each; FormatChoice::loss is the divergence
  std::vector<Mix> mixes;           ///< those that there were to choose from
  uint64_t rest = 0;                ///< bytes of what is in no group
  size_t chosen = 0;
  std::map<size_t, MeasuredMix> measured; ///< by the numbers of the mixes
};

/// The formats that are tried, from the most bits to `smallest`. Throws UserError for what is none of these.
std::vector<std::string> ladderTo(const std::string &smallest);

/// Throws UserError where no mix reaches the goal, and says what can be reached.
ChosenMix chooseMix(const MixQuestions &ask, const MixGoal &goal, const std::vector<std::string> &ladder);

} // namespace quern::tools
#endif
