// Takes: a text and byte offsets. Gives: lines and columns.
// Why offsets everywhere: a span costs 16 bytes, and lines are needed only when something is reported.
#include "frontend/syntax/Source.h"
#include "support/Utf8.h"

#include <algorithm>

namespace quern::frontend {

Source::Source(std::string sourceName, std::string sourceText)
    : name(std::move(sourceName)), text(std::move(sourceText)) {
  lineStarts.push_back(0);
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\n')
      lineStarts.push_back(i + 1);
}

Source::Place Source::place(uint32_t offset) const {
  offset = std::min<uint32_t>(offset, text.size());
  auto line = std::upper_bound(lineStarts.begin(), lineStarts.end(), offset) - lineStarts.begin();
  unsigned column = 1;
  for (uint32_t i = lineStarts[line - 1]; i < offset; ++i)
    column += !support::isUtf8Tail(text[i]); // continuation bytes of UTF-8 are no characters
  return {static_cast<unsigned>(line), column};
}

std::pair<uint32_t, uint32_t> Source::lineAround(uint32_t offset) const {
  offset = std::min<uint32_t>(offset, text.size());
  auto line = std::upper_bound(lineStarts.begin(), lineStarts.end(), offset) - lineStarts.begin();
  size_t end = text.find('\n', lineStarts[line - 1]);
  if (end == std::string::npos)
    end = text.size();
  if (end > lineStarts[line - 1] && text[end - 1] == '\r')
    --end;
  return {lineStarts[line - 1], static_cast<uint32_t>(end)};
}

std::string Span::str() const {
  Source::Place at = source->place(begin);
  return source->getName() + ":" + std::to_string(at.line) + ":" + std::to_string(at.column);
}

} // namespace quern::frontend
