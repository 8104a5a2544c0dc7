// Takes: what a search found. Gives: a table.
#include "runtime/tuning/TuneTable.h"

#include "support/Error.h"

namespace quern::runtime {

using support::format;

std::vector<TunedPart> tunedParts(const nlohmann::json &answer) {
  std::vector<TunedPart> parts;
  for (const nlohmann::json &part : answer)
    parts.push_back(
        {part.at("name"), part.at("before"), part.at("after"), part.at("ratio"), part.at("error"), part.at("pairs")});
  return parts;
}

std::string speedText(double ratio, double error, int64_t pairs) {
  return format("%.3f times as fast (+- %.3f, %lld pairs)", 1 / ratio, error / (ratio * ratio),
                static_cast<long long>(pairs));
}

std::string tuneTable(const std::vector<TuneRow> &rows, const std::vector<TunedPart> &parts) {
  std::string text = format("%-34s %7s %6s %6s %7s  %s\n", "kernel", "% time", "tried", "wrong", "gain", "plan");
  for (const TuneRow &row : rows)
    if (row.trials || row.share >= 0.005)
      text += format("%-34.34s %7.1f %6d %6d %7.3f  ", row.title.c_str(), 100 * row.share, row.trials, row.wrong,
                     row.gain) +
              row.plan + "\n";
  for (const TunedPart &part : parts)
    text += format("%-10s %.2f ms before, %.2f ms after: ", part.name.c_str(), part.before / 1e6, part.after / 1e6) +
            speedText(part.ratio, part.error, part.pairs) + "\n";
  return text;
}

} // namespace quern::runtime
