// The text of a spec (or of a config file) and places in it.
#ifndef QUERN_FRONTEND_SYNTAX_SOURCE_H
#define QUERN_FRONTEND_SYNTAX_SOURCE_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quern::frontend {

class Source {
public:
  Source(std::string name, std::string text);

  const std::string &getName() const { return name; }
  std::string_view getText() const { return text; }

  /// Both count from 1; the column counts characters, not bytes.
  struct Place {
    unsigned line, column;
  };
  Place place(uint32_t offset) const;
  /// Offset of the first byte of the line that holds `offset`, and of its end (without the line feed).
  std::pair<uint32_t, uint32_t> lineAround(uint32_t offset) const;

private:
  std::string name, text;
  std::vector<uint32_t> lineStarts;
};

/// A stretch of a source, `end` exclusive. Diagnostics keep sources alive, so a span outlives the parse.
struct Span {
  const Source *source = nullptr;
  uint32_t begin = 0, end = 0;

  explicit operator bool() const { return source; }
  bool operator==(const Span &other) const = default;
  std::string_view text() const { return source->getText().substr(begin, end - begin); }
  /// "file:line:column".
  std::string str() const;
};

} // namespace quern::frontend
#endif
