// Takes: a text. Gives: its words, one after the other. A file of its own, as it is not compiled for size.
#include "runtime/tokenizer/ScannedWords.h"

namespace quern::runtime {

void ScannedWords::apply(const Piece &piece, PieceSink sink) const {
  for (size_t at = 0, end = 0; at < piece.text.size(); at = end) {
    end = scanner.end(piece.text, at);
    sink({piece.text.substr(at, end - at), piece.atStart && at == 0});
  }
}

} // namespace quern::runtime
