// Takes: a word and those that are known. Gives: the one that was probably meant.
#include "support/Nearest.h"

#include <algorithm>

namespace quern::support {

size_t editDistance(std::string_view a, std::string_view b) {
  // Three rows of the table: a swap looks two rows back.
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string nearest(const std::string &word, const std::vector<std::string> &known) {
  constexpr size_t longest = 64; // names that people write; the table is quadratic
  std::string best;
  if (word.empty() || word.size() > longest)
    return best;
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string &candidate : known) {
    if (candidate.size() > longest || candidate == word)
      continue;
    size_t distance = editDistance(word, candidate);
    if (distance < least && distance < word.size()) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

std::string didYouMean(const std::string &word, const std::vector<std::string> &known) {
  std::string near = nearest(word, known);
  return near.empty() ? "" : "; did you mean '" + near + "'?";
}

} // namespace quern::support
