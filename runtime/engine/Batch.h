// Texts that step together: one call gives each its next token.
#ifndef QUERN_RUNTIME_ENGINE_BATCH_H
#define QUERN_RUNTIME_ENGINE_BATCH_H

#include "runtime/engine/Sequence.h"

namespace quern::runtime {

/// Texts of different lengths, which join and leave at any time: no other text is read again for it. Needs
/// `engine.functions().batches()`.
class Batch {
public:
  explicit Batch(Engine &engine) : engine(engine) {}
  ~Batch();
  Batch(const Batch &) = delete;

  /// What the text has read so far comes with it; the rest is read at the next step. A text is in one batch at most.
  void add(Sequence &sequence);
  /// The text goes on alone, with what it has read. One that is destroyed leaves by itself.
  void remove(Sequence &sequence);
  /// Makes the logits of all texts, where they have grown since the last step.
  void step();
  size_t size() const { return members.size(); }
  bool holds(const Sequence &sequence) const;
  /// Removes all others.
  void keepOnly(const std::vector<Sequence *> &sequences);

private:
  friend class Sequence;
  /// Texts whose rows are in one cache. The shorter ones begin later: all end at slot `end`.
  struct Rows {
    std::vector<Sequence *> texts;
    Cache cache;
    Buffer logits, tokens; // of each text, where the program computes
    int64_t end = 0, room = 0, newRows = 0;
    bool first = true; // the next call computes the request's values
  };
  Engine &engine;
  std::vector<Sequence *> members;
  Rows rows;

  void leave(Sequence &sequence);
  uint64_t epochAt(int64_t length) const;
  std::vector<int64_t> sizesFor(const Rows &rows, int64_t past, int64_t count) const;
  void run(Rows &rows, int64_t end, int64_t past, int64_t count);
  void readTogether(Rows &group);
  void answer(const Rows &rows);
  static void forget(Sequence &sequence);
  CacheRow find(const Sequence &sequence, const Rows *group) const;
  void giveBack(Sequence &sequence);
  void copyRow(const Sequence &from, Sequence &to);
  void arrange(const std::vector<Sequence *> &texts, const Rows *group);
};

} // namespace quern::runtime
#endif
