// Which of a program's functions write text, and what they allow.
#ifndef QUERN_RUNTIME_ENGINE_TEXTFUNCTIONS_H
#define QUERN_RUNTIME_ENGINE_TEXTFUNCTIONS_H

#include "runtime/abi/Description.h"

namespace quern::runtime {

/// Numbers of functions in the description, -1 where the program has none.
struct TextFunctions {
  int step = -1;      // logits of the last new row, with caches
  int few = -1;       // the same for few rows, where another form reads less
  int full = -1;      // logits of all rows of whole texts
  int encoder = -1;   // reads a source first (encoder-decoder)
  int ragged = -1;    // step for rows of different lengths
  int raggedFew = -1; // the same for few rows
  int textInput = -1; // which input of `step` and `full` is the text

  /// Throws UserError, with the reason, for a model that cannot write text; with `cache`, one that cannot be extended
  /// step by step.
  static TextFunctions find(const Description &description, bool cache);

  bool steps() const { return step >= 0; }
  bool batches() const { return ragged >= 0; }
  bool hasSource() const { return encoder >= 0; }
  /// The function that gives the logits: `step`, or `full` where there is none.
  int main() const { return steps() ? step : full; }
  /// For a call of `rows` new rows of one text, or of a batch.
  int functionFor(const Description &description, int64_t rows) const;
  int raggedFor(const Description &description, int64_t rows) const;

  int64_t vocabulary(const Description &description) const;
  /// Bound of token numbers of the text (of the source), as the model's tables have it.
  int64_t tokenBound(const Description &description) const;
  int64_t sourceBound(const Description &description) const;
  /// The longest source that the tables allow, INT64_MAX if none limits it.
  int64_t longestSource(const Description &description) const;
};

/// The output that holds the logits: the only one, or of several the one called so; -1 if there is none.
int findLogits(const FunctionInfo &function);
/// The input that holds the text: the integers over [batch, time]; -1 if there is none.
int findText(const Description &description, int function);

} // namespace quern::runtime
#endif
