// Takes: tokens one by one. Gives: text to show at once.
//
// A decoder looks at its neighbours (the first token's space, runs of bytes), so a token has no text of its own. The
// text of a short window of the last tokens is decoded with and without the new ones, and the difference is shown.
// While it ends in U+FFFD it may be half a character, so it waits; but not for more than a character's bytes plus one,
// as some models do write broken text. A decoder that may still change what is there is asked once, at the end.
#include "runtime/tokenizer/Tokenizer.h"

#include <algorithm>

namespace quern::runtime {

namespace {
constexpr const char *replacement = "\xef\xbf\xbd";
constexpr size_t promptTokens = 64, patience = 8, longestWindow = 64;
} // namespace

void TextStream::start(const std::vector<int> &ids) {
  window.assign(ids.end() - std::ptrdiff_t(std::min(ids.size(), promptTokens)), ids.end());
  shown = window.size();
  shownText = tokenizer.decode(window, true);
}

std::string TextStream::push(int id) {
  window.push_back(id);
  if (!tokenizer.streams())
    return "";
  std::string text = tokenizer.decode(window, true);
  if (text.ends_with(replacement) && window.size() - shown <= patience)
    return "";
  return emit(text);
}

std::string TextStream::finish() {
  return window.size() > shown ? emit(tokenizer.decode(window, true)) : "";
}

std::string TextStream::emit(const std::string &text) {
  // Where the beginning changed meanwhile (bytes that were found to be wrong), what was shown stays shown.
  std::string result = text.size() > shownText.size() ? text.substr(shownText.size()) : "";
  while (!result.empty() && (static_cast<unsigned char>(result[0]) & 0xc0) == 0x80)
    result.erase(0, 1);
  // The window begins where some text ended, never inside a character: what was shown last stays as the new ones'
  // neighbour.
  if (!result.empty() || window.size() > longestWindow) {
    window.erase(window.begin(), window.begin() + std::ptrdiff_t(shown));
    shownText = tokenizer.decode(window, true);
  } else {
    shownText = text;
  }
  shown = window.size();
  return result;
}

} // namespace quern::runtime
