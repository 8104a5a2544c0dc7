// Logits for a growing text: prefill, steps with the cache, or everything anew.
#ifndef QUERN_RUNTIME_ENGINE_GENERATOR_H
#define QUERN_RUNTIME_ENGINE_GENERATOR_H

#include "runtime/engine/Session.h"

#include <span>
#include <vector>

namespace quern::runtime {

/// One text of one row. Keeps what the model remembers between calls.
class Generator {
public:
  struct Options {
    bool cache = true;   // false: every step runs the whole text
    int64_t room = 0;    // positions to make room for at once; more come as needed
    int64_t chunk = 512; // rows of one call while a long text is read
  };
  /// Throws UserError, with the reason, for a model that cannot be extended step by step.
  static void requireSteps(const Description &description);
  Generator(Session &session, Options options);

  /// Whether the model reads a source first (encoder-decoder).
  bool hasSource() const { return encoder >= 0; }
  /// Runs the encoder.
  void setSource(const std::vector<int> &tokens);
  /// Logits of what follows `text`, which begins with the text of the call before (or the memory starts anew).
  std::span<const float> next(const std::vector<int> &text);

  /// The next text begins anew, whatever is remembered.
  void forget() { remembered.clear(); }

  int64_t vocabulary() const;
  /// Bound of token numbers of the text (of the source), as the model's tables have it.
  int64_t tokenBound() const;
  int64_t sourceBound() const;
  /// The longest text the tables allow, INT64_MAX if none limits it.
  int64_t longest() const { return session.longestText(stepper); }
  int64_t longestSource() const;
  /// The functions that do the work: numbers in the description.
  int stepFunction() const { return stepper; }
  /// The one for a call of `rows` new rows.
  int functionFor(int64_t rows) const {
    return few >= 0 && rows <= session.description().functions[size_t(few)].fewRows ? few : stepper;
  }

private:
  Session &session;
  Options options;
  int stepper = -1, few = -1, full = -1, encoder = -1, textInput = -1;
  Values request; // inputs that stay: memory, mask, the encoder's others
  std::vector<int> remembered;
  uint64_t epoch = 0;
  int64_t planned = 0; // positions that memory was asked for
  int64_t newRows = 0; // of the longest call so far: rings have room for them
  bool fresh = true;   // the next call is the request's first
  std::vector<Value> outputs;

  std::span<const float> run(int function, const std::vector<int> &text, int64_t past, int64_t count);
  std::vector<int64_t> sizesFor(int function, int64_t past, int64_t count) const;
};

} // namespace quern::runtime
#endif
