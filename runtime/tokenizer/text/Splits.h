// Where a text is split, and what becomes of what was found.
#ifndef QUERN_RUNTIME_TOKENIZER_TEXT_SPLITS_H
#define QUERN_RUNTIME_TOKENIZER_TEXT_SPLITS_H

#include "runtime/tokenizer/text/Pattern.h"

#include <string_view>
#include <vector>

namespace quern::runtime {

enum class Behavior { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };

/// Ranges that cover the text to the ranges that become pieces.
std::vector<Pattern::Range> arrange(const std::vector<Pattern::Range> &ranges, Behavior behavior);

/// One range for each character for which `matches`, and one for each stretch without.
std::vector<Pattern::Range> splitByChar(std::string_view text, bool (*matches)(char32_t));

/// \w+|[^\w\s]+ : what matches is kept.
std::vector<Pattern::Range> splitWords(std::string_view text);

} // namespace quern::runtime
#endif
