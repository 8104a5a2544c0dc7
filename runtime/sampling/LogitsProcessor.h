// The rules that decide which token may come next, and how likely: one class each, listed in SamplingRules.cpp.
#ifndef QUERN_RUNTIME_SAMPLING_LOGITSPROCESSOR_H
#define QUERN_RUNTIME_SAMPLING_LOGITSPROCESSOR_H

#include <cstddef>
#include <span>
#include <vector>

namespace quern::runtime {

/// Tokens that may come next, the heaviest first, of equals the smaller number. A weight is a probability times a common
/// factor; `sum` is the weights' total.
struct Choices {
  struct Choice {
    double weight;
    int token;
  };
  std::vector<Choice> list;
  double sum = 0;

  /// Puts `list` in its order.
  void sort();
  /// The same of weights that are whole numbers, at most `heaviest` (Draw.h): by their digits, without comparisons.
  void sortWhole();
  /// Keeps the `count` heaviest.
  void keep(size_t count);
};

class ChoiceFilter;

/// A rule. It may change the logits, or take choices away after the logits have become weights (`ChoiceFilter`), or both.
class LogitsProcessor {
public:
  virtual ~LogitsProcessor() = default;
  /// Whether `adjust` can change which token is the likeliest; a greedy choice skips the others.
  virtual bool reorders() const { return false; }
  /// `history`: the tokens so far. `logits`: one number for each token of the vocabulary; NaN is never chosen.
  virtual void adjust(std::span<const int> history, std::span<double> logits);
  /// Null: it takes none away.
  virtual ChoiceFilter *filter() { return nullptr; }
  /// What was chosen, with its probability among the choices that all rules left.
  virtual void chosen(int token, double probability);
};

class ChoiceFilter : public LogitsProcessor {
public:
  ChoiceFilter *filter() final { return this; }
  /// At least one choice must remain.
  virtual void take(std::span<const int> history, Choices &choices) = 0;
};

} // namespace quern::runtime
#endif
