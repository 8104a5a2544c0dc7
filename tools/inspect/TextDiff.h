// Two dumps side by side.
#ifndef QUERN_TOOLS_INSPECT_TEXTDIFF_H
#define QUERN_TOOLS_INSPECT_TEXTDIFF_H

#include <string>
#include <vector>

namespace quern::tools {

/// Which line of `a` stands beside which of `b`: pairs (-1: none), in order. Numbers of values (%12) do not count, so
/// that one new operation does not change all that follow.
std::vector<std::pair<int, int>> alignLines(const std::vector<std::string> &a, const std::vector<std::string> &b);

/// A unified diff with `context` equal lines around each change; empty if the texts are equal up to the numbers of
/// values. A line whose operands are other values than before counts as changed.
std::string unifiedDiff(const std::string &a, const std::string &b, const std::string &nameA, const std::string &nameB,
                        bool colour, int context = 3);

} // namespace quern::tools
#endif
