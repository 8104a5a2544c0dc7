// Takes: a pattern or a list, and a name. Gives: whether they fit.
// Why one copy: a spec's `ignore`, what a program makes of it, and options of commands must mean the same.
#include "support/Glob.h"

#include <algorithm>
#include <cstddef>

namespace quern::support {

namespace {

/// Whether the item of `glob` at `at` takes `c`; `next` is then what follows the item.
bool takes(std::string_view glob, size_t at, char c, size_t &next) {
  next = at + 1;
  if (glob[at] == '?')
    return true;
  size_t close = glob[at] == '[' ? glob.find(']', at + 2) : std::string_view::npos;
  if (close == std::string_view::npos)
    return glob[at] == c;
  next = close + 1;
  size_t i = at + 1;
  bool negated = glob[i] == '!', hit = false;
  for (i += negated; i < close; ++i) {
    bool range = i + 2 < close && glob[i + 1] == '-';
    hit |= range ? c >= glob[i] && c <= glob[i + 2] : c == glob[i];
    i += range ? 2 : 0;
  }
  return hit != negated;
}

} // namespace

bool matchGlob(std::string_view glob, std::string_view text) {
  size_t g = 0, t = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    size_t next = 0;
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      mark = t;
    } else if (g < glob.size() && takes(glob, g, text[t], next)) {
      g = next;
      ++t;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*')
    ++g;
  return g == glob.size();
}

bool listsName(std::string_view names, std::string_view name) {
  for (size_t at = 0; at < names.size() && !name.empty();) {
    const size_t end = std::min(names.find(' ', at), names.size());
    if (names.substr(at, end - at) == name)
      return true;
    at = end + 1;
  }
  return false;
}

} // namespace quern::support
