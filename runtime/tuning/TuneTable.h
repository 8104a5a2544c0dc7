// What a search of plans found, for people.
#ifndef QUERN_RUNTIME_TUNING_TUNETABLE_H
#define QUERN_RUNTIME_TUNING_TUNETABLE_H

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace quern::runtime {

/// Of a part of the workload (prefill, decode, step): the program with all default plans and with all tuned ones, call by
/// call alternately.
struct TunedPart {
  std::string name;
  double before = 0, after = 0; ///< nanoseconds of a call, medians
  double ratio = 1, error = 0;  ///< after by before, the median of pairs; its standard error
  int64_t pairs = 0;
};
/// Of a program's answer to --whole.
std::vector<TunedPart> tunedParts(const nlohmann::json &answer);

/// A kernel of the table.
struct TuneRow {
  std::string title;
  double share; ///< of the program's time in kernels
  int trials, wrong;
  double gain;      ///< the default's time by the tuned one's
  std::string plan; ///< how it changed
};

/// `1.028 times as fast (+- 0.003, 9 pairs)`. `ratio`: the later time by the earlier one.
std::string speedText(double ratio, double error, int64_t pairs);

/// Rows that were tried or take half a percent; then the parts.
std::string tuneTable(const std::vector<TuneRow> &rows, const std::vector<TunedPart> &parts);

} // namespace quern::runtime
#endif
