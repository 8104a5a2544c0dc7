// What a text says about a program: perplexity, how far its predictions are from those of the unquantised model, speed.
#ifndef QUERN_TOOLS_QUANTIZE_MEASURE_H
#define QUERN_TOOLS_QUANTIZE_MEASURE_H

#include "runtime/abi/Description.h"
#include "support/TemporaryFolder.h"

#include <string>
#include <vector>

namespace quern::tools {

/// Means over all tokens that are predicted.
struct TextLoss {
  double perplexity = 0;
  double divergence = 0; ///< Kullback-Leibler, from the unquantised model's probabilities, in nats
};

/// The tokens of a text, in rows that are read by themselves; each row begins with what the tokenizer puts before a text.
/// All but the first token of a row are predicted.
struct TextRows {
  std::vector<std::vector<int>> rows;
  int64_t predicted() const;
};

/// At most `most` tokens of the file, in rows of at most `length`. `weights`: the checkpoint, whose tokenizer it is unless
/// `tokenizer` names one. Throws UserError: no tokenizer, too short a text.
TextRows readRows(const std::string &text, const std::string &weights, const std::string &tokenizer, int64_t length,
                  int64_t most);

/// The longest row that a model reads. Throws UserError where it predicts no text.
int64_t longestRow(const runtime::Description &description, const std::string &model);

/// Runs programs on one text. Every call gives the same numbers for the same program and weights.
class TextMeasure {
public:
  TextMeasure(TextRows rows, int64_t vocabulary);
  /// The first program is what later ones are compared with.
  TextLoss measure(const std::string &program, const std::string &weights);
  const TextRows &text() const { return rows; }

private:
  TextRows rows;
  int64_t vocabulary, perCall; ///< rows of one call: their logits are held at once
  bool hasBase = false;
  support::TemporaryFolder work;
};

/// Tokens a second.
struct Speed {
  double prefill = 0, decode = 0;
};

/// A program with its weights.
struct ProgramRun {
  std::string program, weights;
};

/// Medians of `rounds` runs of each program's bench, which alternate, as a shared machine drifts.
std::vector<Speed> speedsAlternately(const std::vector<ProgramRun> &programs, int rounds, int64_t longest);

} // namespace quern::tools
#endif
