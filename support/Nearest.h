// What a wrong name was meant to be.
#ifndef QUERN_SUPPORT_NEAREST_H
#define QUERN_SUPPORT_NEAREST_H

#include <string>
#include <string_view>
#include <vector>

namespace quern::support {

/// Insertions, deletions, replacements and swaps of neighbours (Damerau, restricted) that make `b` of `a`.
size_t editDistance(std::string_view a, std::string_view b);

/// The one of `known` that is nearest to `word`, if it is near: a third of its letters differ at most. Else empty.
std::string nearest(const std::string &word, const std::vector<std::string> &known);

/// "; did you mean 'NAME'?", or nothing.
std::string didYouMean(const std::string &word, const std::vector<std::string> &known);

} // namespace quern::support
#endif
