// A pre-tokenizer whose pieces are the words of a pattern that has a scanner of its own.
#ifndef QUERN_RUNTIME_TOKENIZER_SCANNEDWORDS_H
#define QUERN_RUNTIME_TOKENIZER_SCANNEDWORDS_H

#include "runtime/tokenizer/PreTokenizer.h"
#include "runtime/tokenizer/text/WordScanner.h"

namespace quern::runtime {

class ScannedWords : public PreTokenizer {
public:
  explicit ScannedWords(const WordScanner &scanner) : scanner(scanner) {}
  void apply(const Piece &piece, PieceSink sink) const override;

private:
  WordScanner scanner;
};

} // namespace quern::runtime
#endif
